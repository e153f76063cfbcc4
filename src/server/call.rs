//! Commands of the server that the module runs itself.

use std::slice;

use redis_module::raw;
use smallvec::SmallVec;

use super::api;
use super::ctx::Ctx;
use super::faults;

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behalf {
    /// The client's, whose ACL rules apply.
    Client,
    /// The module's own.
    Module,
}

/// The id of an entry of a stream: two numbers and a hyphen.
pub type EntryId = SmallVec<[u8; 32]>;

/// A name and its value in an entry of a stream.
pub type Field<'a> = (&'static [u8], &'a [u8]);

/// Appends an entry of six or seven fields to the stream `key`, creating it if need be, and replicates that. The error is the
/// server's own line.
pub fn append(
    ctx: &mut Ctx<'_>,
    behalf: Behalf,
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
        (Behalf::Client, None) => c"!ECbcbbbbbbbbbbbb",
        (Behalf::Client, Some(_)) => c"!ECbcbbbbbbbbbbbbbb",
        (Behalf::Module, None) => c"!Ebcbbbbbbbbbbbb",
        (Behalf::Module, Some(_)) => c"!Ebcbbbbbbbbbbbbbb",
    };
    let [(n1, v1), (n2, v2), (n3, v3), (n4, v4), (n5, v5), (n6, v6)] = fields;
    let (n7, v7) = seventh.unwrap_or_default();
    // SAFETY: the context is valid. The format announces a buffer with its length, a C string, and twelve or fourteen buffers
    // with their lengths: just what follows it, and arguments beyond the format are not read. The server copies the others.
    let reply = unsafe {
        call(
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
        )
    };
    done(reply)
}

/// Takes an entry out of the stream `key` again, and replicates that.
pub fn take_out(ctx: &mut Ctx<'_>, key: &[u8], entry: &EntryId) -> Result<(), String> {
    // SAFETY: as in `append`.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() };
    let Some(call) = call else { return Err("ERR this server cannot delete from streams".into()) };
    // SAFETY: the context is valid. The format announces two buffers with their lengths: just what follows it.
    let reply = unsafe {
        call(ctx.raw(), c"XDEL".as_ptr(), c"!Ebb".as_ptr(), key.as_ptr(), key.len(), entry.as_ptr(), entry.len())
    };
    done(reply).map(drop)
}

/// What came of a call, which answers a string or an error; frees the reply.
fn done(reply: *mut raw::RedisModuleCallReply) -> Result<EntryId, String> {
    if reply.is_null() {
        return Err("ERR this node does not serve the key".into());
    }
    // SAFETY: the reply is ours until it is freed at the end; the text belongs to it and is copied before that.
    let (failed, text) = unsafe {
        let failed = api::call_reply_type(reply) == api::int(raw::REDISMODULE_REPLY_ERROR);
        let mut len = 0;
        let text = api::call_reply_string_ptr(reply, &raw mut len);
        let text = if text.is_null() { EntryId::new() } else { slice::from_raw_parts(text.cast(), len).into() };
        api::free_call_reply(reply);
        (failed, text)
    };
    if !failed {
        return Ok(text);
    }
    let line = String::from_utf8_lossy(&text);
    // Redis 7.0 has no code of its own for this refusal.
    Err(match line.strip_prefix("ERR acl verification failed, ") {
        Some(why) => format!("NOPERM {why}"),
        None => line.into_owned(),
    })
}
