//! Settings: `CONFIG GET/SET lockstock.*`, lines of redis.conf, and words after `loadmodule`.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::api::{self, RawString};
use super::args::Range;
use super::ctx::Ctx;

/// A numeric setting.
pub struct Setting {
    /// The name without the module's prefix.
    pub name: &'static CStr,
    /// The allowed range.
    pub range: Range,
    value: AtomicI64,
}

impl Setting {
    /// A setting with its default.
    pub const fn new(name: &'static CStr, range: Range, default: i64) -> Self {
        Self { name, range, value: AtomicI64::new(default) }
    }

    /// The current value.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
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

/// A yes/no setting.
pub struct Switch {
    /// The name without the module's prefix.
    pub name: &'static CStr,
    value: AtomicBool,
}

impl Switch {
    /// A switch with its default.
    pub const fn new(name: &'static CStr, default: bool) -> Self {
        Self { name, value: AtomicBool::new(default) }
    }

    /// Whether it is yes.
    pub fn get(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set(&self, value: bool) {
        self.value.store(value, Ordering::Relaxed);
    }
}

/// Registers the switch with the server, with its current value as the default.
pub fn register_switch(ctx: &Ctx<'_>, switch: &'static Switch) -> bool {
    let data = ptr::from_ref(switch).cast_mut().cast();
    let (name, default) = (switch.name.as_ptr(), c_int::from(switch.get()));
    // SAFETY: the context is valid; the switch is a static, so the pointer that the server keeps stays valid.
    unsafe {
        api::register_bool_config(ctx.raw(), name, default, 0, Some(get_switch), Some(set_switch), None, data)
            == api::OK
    }
}

/// Registers the setting with the server, with its current value as the default; the server enforces the range.
pub fn register(ctx: &Ctx<'_>, setting: &'static Setting) -> bool {
    let data = ptr::from_ref(setting).cast_mut().cast();
    let Range { min, max } = setting.range;
    // SAFETY: the context is valid; the setting is a static, so the pointer that the server keeps stays valid.
    unsafe {
        api::register_numeric_config(
            ctx.raw(),
            setting.name.as_ptr(),
            setting.get(),
            0,
            min,
            max,
            Some(get),
            Some(set),
            None,
            data,
        ) == api::OK
    }
}

/// Loads the values in redis.conf for the registered settings; false if one of them is refused.
pub fn load(ctx: &Ctx<'_>) -> bool {
    // SAFETY: the context is that of the module's load.
    unsafe { api::load_configs(ctx.raw()) == api::OK }
}

unsafe extern "C" fn get_switch(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: `register_switch` gave the address of a static switch.
    unsafe { data.cast::<Switch>().as_ref() }.map_or(0, |switch| c_int::from(switch.get()))
}

unsafe extern "C" fn set_switch(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut RawString,
) -> c_int {
    // SAFETY: as in `get_switch`.
    unsafe { data.cast::<Switch>().as_ref() }.map_or(api::ERR, |switch| {
        switch.set(value != 0);
        api::OK
    })
}

unsafe extern "C" fn get(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: `register` gave the address of a static setting.
    unsafe { data.cast::<Setting>().as_ref() }.map_or(0, Setting::get)
}

unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut RawString,
) -> c_int {
    // SAFETY: as in `get`.
    let setting = unsafe { data.cast::<Setting>().as_ref() };
    if setting.is_some_and(|setting| setting.set(value)) { api::OK } else { api::ERR }
}
