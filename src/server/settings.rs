//! Settings: `CONFIG GET/SET lockstock.*`, lines of redis.conf, and words after `loadmodule`.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use super::api::{self, RawString};
use super::args::Range;
use super::ctx::Ctx;

/// A setting: a number, or yes and no as 1 and 0.
pub struct Setting {
    /// The name without the module's prefix.
    pub name: &'static CStr,
    /// The allowed range.
    pub range: Range,
    /// Whether it is yes or no.
    pub is_switch: bool,
    value: AtomicI64,
}

impl Setting {
    /// A number with its default.
    pub const fn number(name: &'static CStr, range: Range, default: i64) -> Self {
        Self { name, range, is_switch: false, value: AtomicI64::new(default) }
    }

    /// Yes or no, with its default.
    pub const fn switch(name: &'static CStr, default: bool) -> Self {
        Self { is_switch: true, ..Self::number(name, Range::new(0..=1), default as i64) }
    }

    /// The current value.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Whether it is yes.
    pub fn is_yes(&self) -> bool {
        self.get() != 0
    }

    /// Sets it; false if the value is out of range.
    pub fn set(&self, value: i64) -> bool {
        let fits = self.range.contains(value);
        if fits {
            self.value.store(value, Ordering::Relaxed);
        }
        fits
    }
}

/// Registers the setting with the server, with its current value as the default; the server enforces the range.
pub fn register(ctx: &Ctx<'_>, setting: &'static Setting) -> bool {
    let (ctx, name, data) = (ctx.raw(), setting.name.as_ptr(), ptr::from_ref(setting).cast_mut().cast());
    let (value, Range { min, max }) = (setting.get(), setting.range);
    // SAFETY: `api::missing` has seen both functions. The context is valid; the setting is a static, so the pointer that the server keeps
    // stays valid.
    let registered = unsafe {
        if setting.is_switch {
            let (value, get, set) = (c_int::from(setting.is_yes()), Some(get::<c_int> as _), Some(set::<c_int> as _));
            raw::RedisModule_RegisterBoolConfig.unwrap_unchecked()(ctx, name, value, 0, get, set, None, data)
        } else {
            let (get, set) = (Some(get::<c_longlong> as _), Some(set::<c_longlong> as _));
            raw::RedisModule_RegisterNumericConfig.unwrap_unchecked()(
                ctx, name, value, 0, min, max, get, set, None, data,
            )
        }
    };
    registered == api::OK
}

/// Loads the values in redis.conf for the registered settings; false if one of them is refused.
pub fn load(ctx: &Ctx<'_>) -> bool {
    // SAFETY: the context is that of the module's load.
    unsafe { api::load_configs(ctx.raw()) == api::OK }
}

unsafe extern "C" fn get<N: TryFrom<i64> + Default>(_name: *const c_char, data: *mut c_void) -> N {
    // SAFETY: `register` gave the address of a static setting.
    let setting = unsafe { data.cast::<Setting>().as_ref() };
    setting.and_then(|setting| setting.get().try_into().ok()).unwrap_or_default()
}

unsafe extern "C" fn set<N: Into<i64>>(
    _name: *const c_char,
    value: N,
    data: *mut c_void,
    _error: *mut *mut RawString,
) -> c_int {
    // SAFETY: as in `get`.
    let setting = unsafe { data.cast::<Setting>().as_ref() };
    if setting.is_some_and(|setting| setting.set(value.into())) { api::OK } else { api::ERR }
}
