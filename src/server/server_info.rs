//! Facts about the server that only its `INFO` tells.

use std::ffi::CStr;
use std::ptr;

use redis_module::raw;

use super::api::RawCtx;
use super::call::Reply;
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
    // SAFETY: a plain read of a pointer that was seen set at load.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    let id = i64::try_from(client).unwrap_or(i64::MAX);
    // SAFETY: the context is valid; the format announces two C strings and an integer, which follow. Nobody else has the reply.
    let reply = unsafe {
        Reply::new(call(ctx.raw(), c"CLIENT".as_ptr(), c"ccl".as_ptr(), c"LIST".as_ptr(), c"ID".as_ptr(), id))
    }?;
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
    Some(Output { first, blocks, bytes, command: field("cmd")?.to_owned(), hears })
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
    use super::{Output, read};

    #[test]
    fn a_line_of_client_list_says_what_is_unsent() {
        let line = |flags: &str, resp: u8| {
            format!(
                "id=7 name=oll=9 flags={flags} qbuf=0 rbs=1024 obl=12 oll=3 omem=99 events=r cmd=client|list user=default resp={resp}\n"
            )
        };
        for (flags, resp, hears) in [("N", 2, false), ("bt", 2, false), ("P", 2, true), ("O", 2, true), ("N", 3, true)]
        {
            let output = Output { first: 12, blocks: 3, bytes: 99, command: "client|list".into(), hears };
            assert_eq!(read(&line(flags, resp)), Some(output), "{flags} {resp}");
        }
        assert_eq!(read(""), None);
        assert_eq!(read("id=7 obl=1 cmd=get"), None);
    }
}
