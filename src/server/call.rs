//! Commands of the server that the module runs itself.

use std::ffi::{CStr, CString, c_longlong};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, slice};

use redis_module::raw;
use smallvec::SmallVec;

use super::api::{self, RawReply};
use super::ctx::Ctx;
use super::faults;

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The client's, whose ACL rules apply; where another module calls for no user, that module's.
    Client,
    /// The module's own.
    Module,
}

/// The id of an entry of a stream: two numbers and a hyphen.
pub type EntryId = SmallVec<[u8; 32]>;

/// A name and its value in an entry of a stream.
pub type Field<'a> = (&'static [u8], &'a [u8]);

/// Whether an entry is being appended. A module that hears of that may not append another one on behalf of nobody: the server sends
/// the later one first, and replicas refuse the earlier one then.
static IS_APPENDING: AtomicBool = AtomicBool::new(false);

/// Appends an entry of six or seven fields to the stream `key`, creating it if need be, and replicates that. The error is the
/// server's own line.
pub fn append(
    ctx: &mut Ctx<'_>,
    behalf: RunAs,
    key: &[u8],
    fields: &[Field<'_>; 6],
    seventh: Option<Field<'_>>,
) -> Result<EntryId, String> {
    faults::point();
    // SAFETY: plain reads of pointers that only module initialisation writes; the server has these functions since 4.0.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() };
    let Some(call) = call else { return Err("ERR this server cannot append to streams".into()) };
    // '!' replicates, 'E' gives refusals as replies, 'C' asks the client's ACL; then the key, the id, and the fields.
    let format = match (behalf, seventh) {
        (RunAs::Client, None) => c"!ECbcbbbbbbbbbbbb",
        (RunAs::Client, Some(_)) => c"!ECbcbbbbbbbbbbbbbb",
        (RunAs::Module, None) => c"!Ebcbbbbbbbbbbbb",
        (RunAs::Module, Some(_)) => c"!Ebcbbbbbbbbbbbbbb",
    };
    let [(n1, v1), (n2, v2), (n3, v3), (n4, v4), (n5, v5), (n6, v6)] = fields;
    let (n7, v7) = seventh.unwrap_or_default();
    let outermost = !IS_APPENDING.swap(true, Ordering::Relaxed);
    // SAFETY: the context is valid. The format announces a buffer with its length, a C string, and twelve or fourteen buffers
    // with their lengths: just what follows it, and arguments beyond the format are not read. The server copies the others.
    let reply = unsafe {
        Reply::new(call(
            ctx.raw(),
            c"XADD".as_ptr(),
            format.as_ptr(),
            key.as_ptr(),
            key.len(),
            c"*".as_ptr(),
            n1.as_ptr(),
            n1.len(),
            v1.as_ptr(),
            v1.len(),
            n2.as_ptr(),
            n2.len(),
            v2.as_ptr(),
            v2.len(),
            n3.as_ptr(),
            n3.len(),
            v3.as_ptr(),
            v3.len(),
            n4.as_ptr(),
            n4.len(),
            v4.as_ptr(),
            v4.len(),
            n5.as_ptr(),
            n5.len(),
            v5.as_ptr(),
            v5.len(),
            n6.as_ptr(),
            n6.len(),
            v6.as_ptr(),
            v6.len(),
            n7.as_ptr(),
            n7.len(),
            v7.as_ptr(),
            v7.len(),
        ))
    };
    let done = done(c"XADD", reply);
    IS_APPENDING.store(!outermost, Ordering::Relaxed);
    if outermost && behalf == RunAs::Client && done.as_ref().is_err_and(|why| why.starts_with(NO_USER)) {
        return append(ctx, RunAs::Module, key, fields, seventh);
    }
    done
}

/// How every server refuses to look at a user's rights where there is no user: another module runs our command, and has asked the
/// server to let it do what it likes.
const NO_USER: &str = "ERR cannot run as user, no user directly attached";

/// Takes an entry out of the stream `key` again, and replicates that. False if it is not there, which is not replicated.
pub fn take_out(ctx: &mut Ctx<'_>, key: &[u8], entry: &EntryId) -> Result<bool, String> {
    // SAFETY: as in `append`.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() };
    let Some(call) = call else { return Err("ERR this server cannot delete from streams".into()) };
    // SAFETY: the context is valid. The format announces two buffers with their lengths: just what follows it.
    let reply = unsafe {
        let (name, format) = (c"XDEL".as_ptr(), c"!Ebb".as_ptr());
        Reply::new(call(ctx.raw(), name, format, key.as_ptr(), key.len(), entry.as_ptr(), entry.len()))
    };
    let count = reply.as_ref().map_or(0, Reply::integer);
    done(c"XDEL", reply).map(|_| count > 0)
}

/// Whether the server has the command `name`, which takes arguments: the operator may have renamed or disabled it. It is called without
/// any, which the server refuses before it runs.
pub fn is_known(ctx: &mut Ctx<'_>, name: &CStr) -> bool {
    /// No such command, in the words of the C library.
    const ENOENT: i32 = 2;
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    // SAFETY: the context is valid, and the format announces nothing. Nobody else has the reply.
    let reply = unsafe { Reply::new(call(ctx.raw(), name.as_ptr(), c"".as_ptr())) };
    reply.is_some() || io::Error::last_os_error().raw_os_error() != Some(ENOENT)
}

/// Whether this server can say what it would do with a call without doing it. It is asked for a call of our own command `name`
/// without its arguments: one that can gives an error, one that cannot does not understand the question.
pub fn can_be_dry(ctx: &mut Ctx<'_>, name: &CStr) -> bool {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    // SAFETY: the context is valid, and the format announces nothing. Nobody else has the reply.
    unsafe { Reply::new(call(ctx.raw(), name.as_ptr(), c"D".as_ptr())) }.is_some()
}

/// The value of the setting `name` of the server's own; `None` if it has no such one, or does not tell.
pub fn setting(ctx: &mut Ctx<'_>, name: &CStr) -> Option<String> {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    // SAFETY: the context is valid; the format announces two C strings, which follow. Nobody else has the reply.
    let reply =
        unsafe { Reply::new(call(ctx.raw(), c"CONFIG".as_ptr(), c"cc".as_ptr(), c"GET".as_ptr(), name.as_ptr())) }?;
    // Name and value; empty without such a setting.
    reply.element(1).map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// The databases that hold keys. Others are not to be selected without need: Valkey 9 makes a database when it is selected, which in a cluster
/// takes most of a megabyte. All that can be, where the server does not tell.
pub fn databases(ctx: &mut Ctx<'_>) -> Vec<i32> {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() };
    let reply = call.and_then(|call| {
        // SAFETY: the context is valid; the format announces one C string, which follows. Nobody else has the reply.
        unsafe { Reply::new(call(ctx.raw(), c"INFO".as_ptr(), c"c".as_ptr(), c"keyspace".as_ptr())) }
    });
    match reply {
        Some(reply) => keyspace(&String::from_utf8_lossy(&reply.text())),
        None => (0..i32::MAX).take_while(|db| ctx.select(*db)).collect(),
    }
}

/// Reads the section of `INFO` that has a line for each database: `db0:keys=1,expires=0`.
fn keyspace(info: &str) -> Vec<i32> {
    info.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok()).collect()
}

/// What one step of [`scan`] came to.
pub struct Scanned {
    /// Where to go on; 0 after the last key.
    pub cursor: u64,
    /// The names that it met.
    pub names: Vec<Box<[u8]>>,
}

/// Looks at about `count` keys of the database of `ctx`, for those whose value is of the type `kind`; `None` if the server refuses.
pub fn scan(ctx: &mut Ctx<'_>, cursor: u64, kind: &CStr, count: u16) -> Option<Scanned> {
    faults::point();
    // SAFETY: a plain read of a pointer that was seen set at load.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    let cursor = CString::new(cursor.to_string()).ok()?;
    let (kind, count) = (kind.as_ptr(), c_longlong::from(count));
    // SAFETY: the context is valid; the format announces four C strings and an integer, which follow. Nobody else has the reply.
    let reply = unsafe {
        let (type_, count_) = (c"TYPE".as_ptr(), c"COUNT".as_ptr());
        Reply::new(call(ctx.raw(), c"SCAN".as_ptr(), c"ccccl".as_ptr(), cursor.as_ptr(), type_, kind, count_, count))
    }?;
    let cursor = std::str::from_utf8(&reply.element(0)?).ok()?.parse().ok()?;
    // SAFETY: the reply is ours until the drop; what is in it is freed with it.
    let names = NonNull::new(unsafe { api::call_reply_array_element(reply.0.as_ptr(), 1) })?;
    // SAFETY: as above; past the last element there is null.
    let names = (0..).map_while(|index| NonNull::new(unsafe { api::call_reply_array_element(names.as_ptr(), index) }));
    // SAFETY: as above.
    let names = names.map(|name| unsafe { text(name.as_ptr()) }.as_slice().into()).collect();
    Some(Scanned { cursor, names })
}

/// An answer of the server, until it is dropped.
pub(super) struct Reply(NonNull<RawReply>);

impl Reply {
    /// Takes the answer of a call over; `None` for null.
    ///
    /// # Safety
    /// Nobody else uses or frees it.
    pub(super) unsafe fn new(raw: *mut RawReply) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Whether it is an error.
    pub(super) fn is_error(&self) -> bool {
        // SAFETY: the reply is ours until the drop.
        unsafe { api::call_reply_type(self.0.as_ptr()) == api::int(raw::REDISMODULE_REPLY_ERROR) }
    }

    /// A string, or the text of an error; empty for anything else.
    pub(super) fn text(&self) -> EntryId {
        // SAFETY: as above.
        unsafe { text(self.0.as_ptr()) }
    }

    /// An integer; below zero for anything else.
    fn integer(&self) -> i64 {
        // SAFETY: as above.
        unsafe { api::call_reply_integer(self.0.as_ptr()) }
    }

    /// A string in an array.
    fn element(&self, index: usize) -> Option<EntryId> {
        // SAFETY: as above; what is in the reply is freed with it.
        unsafe {
            let element = api::call_reply_array_element(self.0.as_ptr(), index);
            (!element.is_null()).then(|| text(element))
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours, and nothing of it was lent.
        unsafe { api::free_call_reply(self.0.as_ptr()) };
    }
}

/// A copy of the text of a reply.
///
/// # Safety
/// The reply has not been freed.
unsafe fn text(reply: *mut RawReply) -> EntryId {
    let mut len = 0;
    // SAFETY: the caller's promise; the text belongs to the reply and is copied at once.
    unsafe {
        let text = api::call_reply_string_ptr(reply, &raw mut len);
        if text.is_null() { EntryId::new() } else { slice::from_raw_parts(text.cast(), len).into() }
    }
}

/// What came of a call of `command`, which answers a string or an error.
fn done(command: &CStr, reply: Option<Reply>) -> Result<EntryId, String> {
    let Some(reply) = reply else { return Err("ERR this node does not serve the key".into()) };
    let text = reply.text();
    if !reply.is_error() {
        return Ok(text);
    }
    let line = String::from_utf8_lossy(&text);
    // Redis 7.0 has no code of its own for this refusal.
    if let Some(why) = line.strip_prefix("ERR acl verification failed, ") {
        return Err(format!("NOPERM {why}"));
    }
    if line.starts_with("ERR unknown command") {
        return Err(format!("ERR {} is renamed or disabled on this server", command.to_string_lossy()));
    }
    Err(line.into_owned())
}

#[cfg(test)]
mod tests {
    use super::keyspace;

    #[test]
    fn the_databases_that_hold_keys() {
        let info = "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\ndb15:keys=2,expires=0\r\ndbx:keys=2\r\n";
        assert_eq!(keyspace(info), [0, 15]);
        assert_eq!(keyspace("# Keyspace\r\n"), [0; 0]);
    }
}
