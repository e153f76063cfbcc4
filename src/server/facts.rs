//! Facts about the server that only its `INFO` tells.

use std::ffi::CStr;

use redis_module::raw;

use super::ctx::Ctx;

/// The value of `field` in the section `section` of the server's `INFO`.
pub fn info(ctx: Ctx<'_>, section: &CStr, field: &CStr) -> Option<String> {
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
