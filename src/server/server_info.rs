//! What the server tells of itself and of its clients: `INFO`, `CONFIG GET`, `CLIENT LIST`.

use std::ffi::CStr;
use std::ptr;

use redis_module::raw;

use super::api::RawCtx;
use super::call::{How, call};
use super::ctx::Ctx;

/// What a client has been told and not been sent, and what it did last.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    /// Bytes in the buffer that is sent first.
    pub first: u64,
    /// Blocks in the list behind it.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The last command.
    pub command: String,
    /// Whether it is sent messages that it need not ask for.
    pub hears: bool,
    /// How many bytes it has been sent, where the server counts them: Valkey, and later ones of Redis 8.
    pub sent: Option<u64>,
    /// Whether it has sent requests that are yet to be run.
    pub asks: bool,
    /// Whether the server waits until it takes more.
    pub is_slow: bool,
}

/// How `CLIENT LIST` shows a client; `None` if there is no such client, or no such command. Dear, and for rare moments only.
pub fn output(ctx: &mut Ctx<'_>, client: u64) -> Option<Output> {
    read(&line_of(ctx, client)?)
}

/// Whether `client` has said that it brings the data of another server, which only Valkey's import mode knows.
pub fn is_import_source(ctx: &mut Ctx<'_>, client: u64) -> bool {
    line_of(ctx, client).is_some_and(|line| flags_of(&line).contains('I'))
}

/// Whether `client` is a connection, and not one that the server made for a script or for another module.
pub fn is_connection(ctx: &mut Ctx<'_>, client: u64) -> bool {
    // A server that does not tell of clients does not tell of this one either.
    line_of(ctx, client).is_none_or(|line| !flags_of(&line).is_empty())
}

/// The flags of the client that a line of `CLIENT LIST` is about.
fn flags_of(line: &str) -> &str {
    line.split(' ').find_map(|word| word.strip_prefix("flags=")).unwrap_or_default()
}

/// What `CLIENT LIST` says of `client`: a line, or nothing. `None` when the server does not say.
fn line_of(ctx: &mut Ctx<'_>, client: u64) -> Option<String> {
    let mut id = itoa::Buffer::new();
    let reply = call(ctx, c"CLIENT", How::Quietly, &[b"LIST", b"ID", id.format(client).as_bytes()])?;
    Some(String::from_utf8_lossy(&reply.text()).into_owned())
}

/// Reads a line of `CLIENT LIST`.
fn read(line: &str) -> Option<Output> {
    // A name that the client has chosen has no spaces in it.
    let field = |name: &str| line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let number = |name| field(name)?.parse().ok();
    // Messages go to subscribers and monitors, and to any client that speaks RESP3: it may be told what others read.
    let hears = field("resp") == Some("3") || field("flags").is_some_and(|flags| flags.contains(['P', 'O']));
    let (first, blocks, bytes) = (number("obl")?, number("oll")?, number("omem")?);
    let asks = number("qbuf").is_some_and(|bytes| bytes > 0);
    let is_slow = field("events").is_none_or(|events| events.contains('w'));
    let command = field("cmd")?.to_owned();
    Some(Output { first, blocks, bytes, command, hears, sent: number("tot-net-out"), asks, is_slow })
}

/// The value of the setting `name` of the server's own; `None` if it has no such one, or does not tell.
pub fn setting(ctx: &mut Ctx<'_>, name: &CStr) -> Option<String> {
    // Name and value; empty without such a setting.
    let reply = call(ctx, c"CONFIG", How::Quietly, &[b"GET", name.to_bytes()])?;
    reply.element(1).map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// The databases that hold keys. Others are not to be selected without need: Valkey 9 makes a database when it is selected, which in a cluster
/// takes most of a megabyte. All that can be, where the server does not tell.
pub fn databases(ctx: &mut Ctx<'_>) -> Vec<i32> {
    match call(ctx, c"INFO", How::Quietly, &[b"keyspace"]) {
        Some(reply) => databases_in(&String::from_utf8_lossy(&reply.text())),
        None => (0..i32::MAX).take_while(|db| ctx.select(*db)).collect(),
    }
}

/// Reads the section of `INFO` that has a line for each database: `db0:keys=1,expires=0`.
fn databases_in(info: &str) -> Vec<i32> {
    info.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok()).collect()
}

/// Whether the server is a Valkey: for what the two have made different without a function by which to tell.
pub fn is_valkey(ctx: &Ctx<'_>) -> bool {
    info(ctx, c"server", c"valkey_version").is_some()
}

/// Whether this is a replica on which clients may write.
pub fn is_writable_replica() -> bool {
    // SAFETY: the server does without a context, which it would only keep the data in.
    let read_only = unsafe { info_of(ptr::null_mut(), c"replication", c"slave_read_only") };
    read_only.is_some_and(|read_only| read_only == "0")
}

/// The value of `field` in the section `section` of the server's `INFO`.
pub fn info(ctx: &Ctx<'_>, section: &CStr, field: &CStr) -> Option<String> {
    // SAFETY: the context is valid.
    unsafe { info_of(ctx.raw(), section, field) }
}

/// The same, for a call that may have no context.
///
/// # Safety
/// `ctx` is a valid context, or null.
unsafe fn info_of(ctx: *mut RawCtx, section: &CStr, field: &CStr) -> Option<String> {
    // SAFETY: plain reads of pointers that only module initialisation writes; the server has these functions since 6.0.
    let (get, read, free) = unsafe {
        (
            (&raw const raw::RedisModule_GetServerInfo).read()?,
            (&raw const raw::RedisModule_ServerInfoGetFieldC).read()?,
            (&raw const raw::RedisModule_FreeServerInfo).read()?,
        )
    };
    // SAFETY: the caller vouches for the context; both texts are C strings. The text that comes back belongs to the data, and is copied
    // before that is freed.
    unsafe {
        let data = get(ctx, section.as_ptr());
        if data.is_null() {
            return None;
        }
        let text = read(data, field.as_ptr());
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        free(ctx, data);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, databases_in, read};

    #[test]
    fn the_databases_that_hold_keys() {
        let info = "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\ndb15:keys=2,expires=0\r\ndbx:keys=2\r\n";
        assert_eq!(databases_in(info), [0, 15]);
        assert_eq!(databases_in("# Keyspace\r\n"), [0; 0]);
    }

    #[test]
    fn a_line_of_client_list_says_what_is_unsent() {
        let line = |flags: &str, resp: u8| {
            format!(
                "id=7 name=oll=9 flags={flags} qbuf=0 rbs=1024 obl=12 oll=3 omem=99 events=r cmd=client|list user=default resp={resp}\n"
            )
        };
        let (sent, asks, is_slow) = (None, false, false);
        for (flags, resp, hears) in [("N", 2, false), ("bt", 2, false), ("P", 2, true), ("O", 2, true), ("N", 3, true)]
        {
            let command = "client|list".into();
            let output = Output { first: 12, blocks: 3, bytes: 99, command, hears, sent, asks, is_slow };
            assert_eq!(read(&line(flags, resp)), Some(output), "{flags} {resp}");
        }
        let output =
            read("qbuf=5 obl=1 oll=0 omem=0 events=rw cmd=get tot-net-in=3 tot-net-out=40 tot-cmds=2\n").unwrap();
        assert_eq!((output.sent, output.asks, output.is_slow), (Some(40), true, true));
        assert_eq!(read(""), None);
        assert_eq!(read("id=7 obl=1 cmd=get"), None);
    }
}
