//! Values of our own in the keyspace: the callback table of a data type.
//!
//! A type implements [`DataType`] in safe code; the callbacks here are written once, for all types.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use redis_module::raw;

use super::api::{self, RawDigest, RawIo, RawOptCtx, RawString, RawType};
use super::args::{Arg, Name};
use super::ctx::{Ctx, Level};
use super::guard::{guard, guard_unlocked};
use super::panics::log_line;
use crate::core::key::{KeyBuf, KeyRef};

/// A data type of the module.
pub trait DataType: Sized + Send + 'static {
    /// The name in RDB files and `TYPE`: nine characters.
    const NAME: &'static CStr;
    /// The version of the encoding that `save` writes.
    const ENCODING: i32;

    /// The type's handle, filled in by [`register`].
    fn handle() -> &'static Handle;
    /// Writes the value for an RDB file, `DUMP`, or a full synchronisation.
    fn save(&self, out: &mut RdbOut);
    /// Reads the bytes that `save` wrote; the error is a line for the log. The input may be damaged or hostile.
    fn load(input: &mut RdbIn) -> Result<Self, String>;
    /// Writes commands that create the same value, for an AOF without RDB preamble.
    fn rewrite(&self, out: &mut AofOut<'_>);
    /// The memory of the value in bytes, without its own struct.
    fn memory(&self) -> usize;
    /// About how many allocations are freed with the value: above 64 the server frees it on another thread.
    fn free_effort(&self) -> usize;
    /// Passes on everything that must be equal on primary and replica, in parts whose order does not matter.
    fn digest(&self, part: &mut dyn FnMut(&[u8]));
    /// The value has left the key `at`: deleted, overwritten, expired, evicted or renamed. It is freed later or, after a rename, not at
    /// all. Runs with the server's lock; may write nothing.
    fn unlinked(&mut self, at: KeyRef<'_>);
    /// The value is about to be freed. Runs on any thread. If a slot is migrated as a whole, or a database is replaced, this is the only
    /// notice that the value has left its key.
    fn destroyed(&mut self);
    /// Data to be saved besides the keys; empty for none. A file without it can be loaded by a server without this module.
    fn save_aux() -> Vec<u8> {
        Vec::new()
    }
    /// Restores the data of `save_aux`.
    fn load_aux(_saved: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// How often a value of ours has left a key or has been loaded.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// The number of such moves. While it is unchanged, no value of ours has come to another key.
pub(super) fn moves() -> u64 {
    MOVES.load(Ordering::Relaxed)
}

/// The handle of a registered type. Set once, at load.
pub struct Handle(AtomicPtr<RawType>);

/// Writes a value into an RDB file or a `DUMP` payload.
pub struct RdbOut(*mut RawIo);

/// Reads a value. After the first error it returns nothing more.
pub struct RdbIn(*mut RawIo);

/// Writes the commands of an AOF rewrite for one key.
pub struct AofOut<'a> {
    io: *mut RawIo,
    key: Arg<'a>,
}

impl Handle {
    /// An empty handle.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The server's pointer; null before registration, which matches no value.
    pub(super) fn raw(&self) -> *mut RawType {
        self.0.load(Ordering::Relaxed)
    }
}

impl RdbOut {
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(io: *mut RawIo) -> Self {
        Self(io)
    }

    /// Writes a string.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the server's handle is valid for the length of the callback that made `self`; the server copies the bytes.
        unsafe { api::save_string_buffer(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

impl RdbIn {
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(io: *mut RawIo) -> Self {
        Self(io)
    }

    /// Reads a string.
    pub fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let mut len = 0;
        // SAFETY: the server's handle is valid for the length of the callback that made `self`. The server returns null, or a buffer of
        // `len` bytes that is ours to free.
        let buffer = unsafe { api::load_string_buffer(self.0, &raw mut len) };
        if buffer.is_null() {
            return Err("a string is missing".into());
        }
        // SAFETY: the buffer is `len` bytes long and not null, came from the server's allocator, and is not used after it is freed.
        let bytes = unsafe {
            let bytes = slice::from_raw_parts(buffer.cast::<u8>(), len).to_vec();
            api::free(buffer.cast());
            bytes
        };
        self.whole().map(|()| bytes)
    }

    /// The key that is being loaded, if the server tells it.
    pub fn key(&self) -> Option<KeyBuf> {
        // SAFETY: the handle is valid as above, and so is the name while the callback runs.
        unsafe {
            let name = api::get_key_name_from_io(self.0);
            let db = api::get_db_id_from_io(self.0);
            (!name.is_null()).then(|| KeyRef { db, key: Arg::new(name.cast_mut()).bytes() }.to_buf())
        }
    }

    /// The module has declared that it checks for short reads itself, so a short read does not stop the server.
    fn whole(&self) -> Result<(), String> {
        // SAFETY: as above.
        if unsafe { api::is_io_error(self.0) } == 0 { Ok(()) } else { Err("the data ends early".into()) }
    }
}

impl AofOut<'_> {
    /// Writes `COMMAND key word …`.
    pub fn command(&mut self, command: &CStr, words: &[&[u8]]) {
        let words: Vec<Name<'_>> = words.iter().map(|word| Name::make(word)).collect();
        let strings: Vec<*mut RawString> = words.iter().map(|word| word.arg().raw()).collect();
        // SAFETY: both pointers are valid for the callback that made `self`. The format announces a server string, and an array of server
        // strings with its length, exactly what follows; the server takes references of its own to them.
        unsafe {
            if let Some(emit) = raw::RedisModule_EmitAOF {
                emit(self.io, command.as_ptr(), c"sv".as_ptr(), self.key.raw(), strings.as_ptr(), strings.len());
            }
        }
    }
}

/// Registers the type `T`; false when the server refused.
pub fn register<T: DataType>(ctx: &Ctx<'_>) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(load::<T>),
        rdb_save: Some(save::<T>),
        aof_rewrite: Some(rewrite::<T>),
        // The plain forms of the callbacks below get neither key nor database.
        mem_usage: Some(memory::<T>),
        free_effort: None,
        unlink: None,
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: Some(load_aux::<T>),
        // The plain form writes a header even for empty data, so no file could be loaded without the module. Redis 7.0 has only the plain
        // form, so nothing but the keys is saved there.
        aux_save: None,
        aux_save_triggers: api::int(raw::REDISMODULE_AUX_BEFORE_RDB),
        // COPY is refused: a copied lock would be held twice, and a copied sale would sell its units twice.
        copy: None,
        copy2: None,
        // Values have no pointers that the server could move.
        defrag: None,
        mem_usage2: None,
        free_effort2: Some(effort::<T>),
        unlink2: Some(unlinked::<T>),
        aux_save2: Some(save_aux::<T>),
    };
    // SAFETY: the context is valid; the server copies the table.
    let raw = unsafe { api::create_data_type(ctx.raw(), T::NAME.as_ptr(), T::ENCODING, &raw mut methods) };
    T::handle().0.store(raw, Ordering::Relaxed);
    !raw.is_null()
}

/// The value behind a callback's pointer.
///
/// # Safety
/// `value` came from `Box::<T>::into_raw` and has not been freed, and nobody changes it for `'a`.
unsafe fn value<'a, T>(value: *const c_void) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { value.cast::<T>().as_ref() }
}

/// Checks that this version can read `encoding`.
fn readable<T: DataType>(encoding: c_int) -> Result<(), String> {
    match encoding {
        1.. if encoding <= T::ENCODING => Ok(()),
        1.. => Err(format!(
            "its encoding {encoding} is newer than {}, the newest this version of lockstock reads; use a newer one",
            T::ENCODING
        )),
        _ => Err(format!("no lockstock has written encoding {encoding}")),
    }
}

/// The value that `read` has read; `None` if it refuses the data, which the log tells.
fn accepted<R>(doing: &str, what: fmt::Arguments<'_>, read: impl FnOnce() -> Result<R, String>) -> Option<R> {
    let refused = |why: &String| log_line(Level::Warning, &format!("lockstock: {what} is refused: {why}"));
    guard(doing, read)?.inspect_err(refused).ok()
}

unsafe extern "C" fn load<T: DataType>(io: *mut RawIo, encoding: c_int) -> *mut c_void {
    MOVES.fetch_add(1, Ordering::Relaxed);
    let what = format_args!("a {}", T::NAME.to_string_lossy());
    let loaded = accepted("loading a value", what, || {
        readable::<T>(encoding)?;
        T::load(&mut RdbIn(io))
    });
    loaded.map_or(ptr::null_mut(), |value| Box::into_raw(Box::new(value)).cast())
}

unsafe extern "C" fn save<T: DataType>(io: *mut RawIo, raw: *mut c_void) {
    // SAFETY: the server passes a value of this type that it does not change while the callback runs.
    if let Some(value) = unsafe { value::<T>(raw) } {
        guard("saving a value", || value.save(&mut RdbOut(io))).unwrap_or_else(give_the_file_up);
    }
}

/// Aborts writing a file: a file that lacks a value must not replace one that has it. A child process exits, and the server keeps the old
/// file. The server itself (`SAVE`, `DUMP`) cannot abort a file; the written file is then refused when it is read.
fn give_the_file_up() {
    // SAFETY: without a context the server returns the flags of the process; exiting is what a failed child does.
    unsafe {
        let flags = api::get_context_flags(ptr::null_mut());
        if c_int::try_from(raw::REDISMODULE_CTX_FLAGS_IS_CHILD).is_ok_and(|child| flags & child != 0) {
            _exit(1);
        }
    }
}

unsafe extern "C" {
    /// The C library function: ends the process without running the parent's exit handlers.
    fn _exit(status: c_int) -> !;
}

unsafe extern "C" fn rewrite<T: DataType>(io: *mut RawIo, key: *mut RawString, raw: *mut c_void) {
    // SAFETY: as in `save`; the key's name lives as long as the callback.
    if let Some(value) = unsafe { value::<T>(raw) } {
        // SAFETY: as above.
        let key = unsafe { Arg::new(key) };
        guard("rewriting a value", || value.rewrite(&mut AofOut { io, key })).unwrap_or_else(give_the_file_up);
    }
}

unsafe extern "C" fn memory<T: DataType>(raw: *const c_void) -> usize {
    // SAFETY: as in `save`.
    let value = unsafe { value::<T>(raw) };
    value
        .and_then(|value| guard("measuring a value", || value.memory()))
        .map_or(0, |heap| heap.saturating_add(size_of::<T>()))
}

unsafe extern "C" fn effort<T: DataType>(_: *mut RawOptCtx, raw: *const c_void) -> usize {
    // SAFETY: as in `save`.
    let value = unsafe { value::<T>(raw) };
    // Never 0, because that would mean "always free on another thread".
    value.and_then(|value| guard("measuring a value", || value.free_effort())).unwrap_or_default().max(1)
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut RawDigest, raw: *mut c_void) {
    // SAFETY: as in `save`.
    if let Some(value) = unsafe { value::<T>(raw) } {
        guard("digesting a value", || {
            value.digest(&mut |part| {
                // SAFETY: the digest is valid for the callback; the server reads the bytes at once.
                unsafe {
                    api::digest_add_string_buffer(digest, part.as_ptr().cast(), part.len());
                    api::digest_end_sequence(digest);
                }
            });
        });
    }
}

unsafe extern "C" fn free<T: DataType>(raw: *mut c_void) {
    if !raw.is_null() {
        // SAFETY: the server frees each value once, and it came from `Box::<T>::into_raw`. This may run on another thread: `T` is `Send`,
        // `destroyed` may be called on any thread, and the drop uses nothing global.
        let mut value = unsafe { Box::from_raw(raw.cast::<T>()) };
        guard_unlocked("freeing a value", || {
            value.destroyed();
            drop(value);
        });
    }
}

unsafe extern "C" fn unlinked<T: DataType>(at: *mut RawOptCtx, raw: *const c_void) {
    MOVES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the value is alive, this thread has the server's lock, and no guard of this key is in use: see `Key::content`.
    let value = unsafe { raw.cast_mut().cast::<T>().as_mut() };
    // SAFETY: the server's context of the callback is valid while it runs.
    let (name, db) = unsafe { (api::get_key_name_from_opt_ctx(at), api::get_db_id_from_opt_ctx(at)) };
    if let Some(value) = value
        && !name.is_null()
    {
        // SAFETY: the name lives as long as the callback.
        let name = unsafe { Arg::new(name.cast_mut()) };
        guard("letting go of a value", || value.unlinked(KeyRef { db, key: name.bytes() }));
    }
}

unsafe extern "C" fn save_aux<T: DataType>(io: *mut RawIo, _when: c_int) {
    match guard("saving the module's data", T::save_aux) {
        Some(saved) if saved.is_empty() => {}
        Some(saved) => RdbOut(io).bytes(&saved),
        None => give_the_file_up(),
    }
}

unsafe extern "C" fn load_aux<T: DataType>(io: *mut RawIo, encoding: c_int, _when: c_int) -> c_int {
    let loaded = accepted("loading the module's data", format_args!("the module's data"), || {
        readable::<T>(encoding)?;
        T::load_aux(&RdbIn(io).bytes()?)
    });
    loaded.map_or(api::ERR, |()| api::OK)
}
