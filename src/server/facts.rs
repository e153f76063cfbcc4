//! Facts about the server that only its `INFO` tells.

use std::ffi::CStr;
use std::slice;

use redis_module::raw;

use super::api;
use super::ctx::Ctx;

/// Whether something that `client` was told has not been written to its connection. Also true of no client.
///
/// This is what `CLIENT LIST` says of it. Dear, and for rare moments only.
pub fn has_unsent(ctx: &mut Ctx<'_>, client: u64) -> bool {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    let id = i64::try_from(client).unwrap_or(i64::MAX);
    // SAFETY: the context is valid; the format announces two C strings and an integer, which follow. The text belongs to the
    // reply and is copied before that is freed.
    let line = unsafe {
        let reply = call(ctx.raw(), c"CLIENT".as_ptr(), c"ccl".as_ptr(), c"LIST".as_ptr(), c"ID".as_ptr(), id);
        if reply.is_null() {
            return false;
        }
        let mut len = 0;
        let text = api::call_reply_string_ptr(reply, &raw mut len);
        let line = (!text.is_null()).then(|| slice::from_raw_parts(text.cast::<u8>(), len).to_vec());
        api::free_call_reply(reply);
        line
    };
    line.is_none_or(|line| !all_sent(&String::from_utf8_lossy(&line)))
}

/// Whether a line of `CLIENT LIST` shows a client with nothing in its output buffers.
fn all_sent(line: &str) -> bool {
    let empty = |field: &str| line.split(' ').any(|word| word.strip_prefix(field) == Some("=0"));
    empty("obl") && empty("oll")
}

/// The value of `field` in the section `section` of the server's `INFO`.
pub fn info(ctx: &Ctx<'_>, section: &CStr, field: &CStr) -> Option<String> {
    // SAFETY: plain reads of pointers that only module initialisation writes; the server has these functions since 6.0.
    let (get, read, free) = unsafe {
        (
            (&raw const raw::RedisModule_GetServerInfo).read()?,
            (&raw const raw::RedisModule_ServerInfoGetFieldC).read()?,
            (&raw const raw::RedisModule_FreeServerInfo).read()?,
        )
    };
    // SAFETY: the context is valid; both texts are C strings. The text that comes back belongs to the data, and is copied before that is freed.
    unsafe {
        let data = get(ctx.raw(), section.as_ptr());
        if data.is_null() {
            return None;
        }
        let text = read(data, field.as_ptr());
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        free(ctx.raw(), data);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::all_sent;

    #[test]
    fn only_empty_buffers_are_sent() {
        let line = |obl, oll| format!("id=7 addr=127.0.0.1:1 qbuf=0 rbs=1024 obl={obl} oll={oll} omem=0 events=r");
        assert!(all_sent(&line(0, 0)));
        assert!(!all_sent(&line(12, 0)) && !all_sent(&line(0, 1)) && !all_sent(""));
    }
}
