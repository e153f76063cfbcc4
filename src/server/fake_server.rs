//! Reading without a server: fakes the few server functions that read arguments and values.
//!
//! Only for tests and fuzzing. The code under test is the same as on a real server.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Once;

use redis_module::raw;

use super::api::{RawCtx, RawIo, RawString};
use super::args::Args;
use super::datatype::{DataType, RdbIn, RdbOut};

#[cfg(test)]
pub mod clients;

/// The strings of one value in a file, and how many of them have been read.
#[derive(Default)]
struct Tape {
    strings: Vec<Vec<u8>>,
    read: usize,
    short: bool,
}

/// Runs `f` on arguments that spell `words`.
pub fn with_args<R>(words: &[&[u8]], f: impl FnOnce(Args<'_>) -> R) -> R {
    install();
    let mut strings: Vec<*mut RawString> =
        words.iter().map(|word: &&[u8]| ptr::from_ref(word).cast_mut().cast()).collect();
    let count = c_int::try_from(strings.len()).unwrap_or(c_int::MAX);
    // SAFETY: each string is the address of a slice, as `string_ptr_len` below expects; they and the array outlive the call.
    f(unsafe { Args::all(strings.as_mut_ptr(), count) })
}

/// Loads a value that a file stores as `strings`; also returns how many of them it read.
pub fn load<T: DataType>(strings: &[&[u8]]) -> (Result<T, String>, usize) {
    install();
    let mut tape = Tape { strings: strings.iter().map(|string| string.to_vec()).collect(), ..Tape::default() };
    let loaded = T::load(&mut RdbIn::of((&raw mut tape).cast()));
    (loaded, tape.read)
}

/// The strings that a file stores for `value`.
pub fn save<T: DataType>(value: &T) -> Vec<Vec<u8>> {
    install();
    let mut tape = Tape::default();
    value.save(&mut RdbOut::of((&raw mut tape).cast()));
    tape.strings
}

fn install() {
    static ONCE: Once = Once::new();
    // SAFETY: without a server nobody else sets these pointers, and nobody reads them before this has run once.
    ONCE.call_once(|| unsafe {
        raw::RedisModule_StringPtrLen = Some(string_ptr_len);
        raw::RedisModule_LoadStringBuffer = Some(load_string_buffer);
        raw::RedisModule_SaveStringBuffer = Some(save_string_buffer);
        raw::RedisModule_IsIOError = Some(is_io_error);
        raw::RedisModule_GetKeyNameFromIO = Some(get_key_name_from_io);
        raw::RedisModule_GetDbIdFromIO = Some(get_db_id_from_io);
        raw::RedisModule_GetContextFlags = Some(get_context_flags);
        raw::RedisModule_Free = Some(free);
    });
}

unsafe extern "C" fn string_ptr_len(string: *const RawString, len: *mut usize) -> *const c_char {
    // SAFETY: strings here are made by `with_args`, and `len` is a variable of the caller.
    unsafe {
        let bytes = string.cast::<&[u8]>().read();
        len.write(bytes.len());
        bytes.as_ptr().cast()
    }
}

unsafe extern "C" fn load_string_buffer(io: *mut RawIo, len: *mut usize) -> *mut c_char {
    // SAFETY: the handle is the tape of `load`, which nobody else uses meanwhile; `len` is a variable of the caller.
    unsafe {
        let tape = &mut *io.cast::<Tape>();
        let Some(string) = tape.strings.get_mut(tape.read) else {
            tape.short = true;
            return ptr::null_mut();
        };
        tape.read = tape.read.saturating_add(1);
        len.write(string.len());
        string.as_mut_ptr().cast()
    }
}

unsafe extern "C" fn save_string_buffer(io: *mut RawIo, bytes: *const c_char, len: usize) {
    // SAFETY: the handle is the tape of `save`, and the caller has `len` bytes there.
    unsafe { (*io.cast::<Tape>()).strings.push(std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec()) }
}

unsafe extern "C" fn is_io_error(io: *mut RawIo) -> c_int {
    // SAFETY: the handle is the tape of `load`.
    unsafe { c_int::from((*io.cast::<Tape>()).short) }
}

unsafe extern "C" fn get_key_name_from_io(_: *mut RawIo) -> *const RawString {
    ptr::null()
}

unsafe extern "C" fn get_db_id_from_io(_: *mut RawIo) -> c_int {
    0
}

/// Values are read as if from a file; client commands run as on a primary.
unsafe extern "C" fn get_context_flags(ctx: *mut RawCtx) -> c_int {
    let flags = if ctx.is_null() { raw::REDISMODULE_CTX_FLAGS_LOADING } else { raw::REDISMODULE_CTX_FLAGS_MASTER };
    c_int::try_from(flags).unwrap_or_default()
}

/// The buffers that were read still belong to the tape.
unsafe extern "C" fn free(_: *mut c_void) {}
