//! The function with which the server loads the module.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::{self, RawCtx, RawString};
use super::args::Args;
use super::cell;
use super::ctx::{Ctx, Level};
use super::guard::guard;
use super::panics::{log_line, log_panics};

/// The version of the module API in the bindings.
const API_VERSION: c_int = raw::REDISMODULE_APIVER_1.cast_signed();

/// Sets the module up; the error is a line for the log.
pub type Start = fn(&mut Ctx<'_>, &[&[u8]]) -> Result<(), String>;

/// A semantic version as the one number for which `MODULE LIST` has room: 10203 for 1.2.3.
#[expect(clippy::arithmetic_side_effects, reason = "the compiler evaluates it, and refuses an overflow")]
pub const fn version(major: &str, minor: &str, patch: &str) -> c_int {
    match (c_int::from_str_radix(major, 10), c_int::from_str_radix(minor, 10), c_int::from_str_radix(patch, 10)) {
        (Ok(major), Ok(minor), Ok(patch)) => {
            assert!(minor < 100 && patch < 100, "there are two digits for each");
            major * 10_000 + minor * 100 + patch
        }
        _ => 0,
    }
}

/// Defines the function that the server looks for in the library.
macro_rules! module {
    ($name:literal, $version:path, $start:path) => {
        /// Loads the module.
        ///
        /// # Safety
        /// Called by the server, with its context and the words after `loadmodule`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut $crate::server::api::RawCtx,
            words: *mut *mut $crate::server::api::RawString,
            count: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: the server's own promise.
            unsafe { $crate::server::load::on_load(ctx, words, count, $name, $version, $start) }
        }
    };
}
pub(crate) use module;

/// Loads the module: binds the API, checks that it is complete, and starts.
///
/// # Safety
/// `ctx` and `words`, of length `count`, are what the server passed to `RedisModule_OnLoad`.
pub unsafe fn on_load(
    ctx: *mut RawCtx,
    words: *mut *mut RawString,
    count: c_int,
    name: &CStr,
    version: c_int,
    start: Start,
) -> c_int {
    // SAFETY: the context is the server's; this fills the pointers of the API, and none of our code has run before.
    if unsafe { raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, API_VERSION) } != api::OK {
        // The server refuses nothing else here than a second module of this name.
        log_line(Level::Warning, "lockstock is not loaded: it is loaded already; is there a second loadmodule line?");
        return api::ERR;
    }
    if let Some(function) = api::missing() {
        log_line(
            Level::Warning,
            &format!("lockstock: this server has no {function}; Redis 7.0 or Valkey 8.0 is needed"),
        );
        return api::ERR;
    }
    cell::claim_main_thread();
    log_panics();
    // SAFETY: context and words live until this function returns.
    let (mut ctx, mut args) = unsafe { (Ctx::new(ctx), Args::all(words, count)) };
    let started = guard("loading", || {
        ctx.set_options();
        let mut words = Vec::new();
        while let Ok(word) = args.next() {
            words.push(word.bytes());
        }
        start(&mut ctx, &words)
    });
    match started {
        Some(Ok(())) => api::OK,
        Some(Err(why)) => {
            ctx.log(Level::Warning, &format!("lockstock is not loaded: {why}"));
            api::ERR
        }
        None => api::ERR,
    }
}

#[test]
fn a_version_has_two_digits_for_each_part() {
    assert_eq!(version("1", "2", "3"), 10_203);
    assert_eq!(version("0", "1", "0"), 100);
    assert_eq!(version("12", "99", "99"), 129_999);
}
