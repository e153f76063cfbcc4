//! An open key, and the value of ours behind it.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

use super::api::{self, RawKey};
use super::args::Arg;
use super::ctx::Ctx;
use super::datatype::DataType;
use super::faults;
use crate::core::time::UnixMs;

/// What a command means to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look at it; a key that is not there does not open.
    Read,
    /// Change, create or delete it.
    Write,
}

/// What a key holds.
pub enum Content<'k, T> {
    /// Nothing.
    Nothing,
    /// A value of our type.
    Value(&'k mut T),
    /// Something else.
    Foreign,
}

/// A name of a key: an argument of the running call, or a string made for it.
pub struct Name<'a> {
    arg: Arg<'a>,
    owner: Option<Ctx<'a>>,
}

/// A key that is open until it is dropped.
pub struct Key<'a> {
    raw: Option<NonNull<RawKey>>,
    call: PhantomData<Ctx<'a>>,
}

impl<'a> Name<'a> {
    /// The name that `arg` spells.
    pub fn of(arg: Arg<'a>) -> Self {
        Self { arg, owner: None }
    }

    /// The name that `bytes` spell, as a new string of the server.
    pub fn make(ctx: Ctx<'a>, bytes: &[u8]) -> Self {
        // SAFETY: the context is valid for `'a`; the server copies the bytes. The string is ours until `drop` frees it,
        // which is before `'a` ends.
        let arg = unsafe { Arg::new(api::create_string(ctx.raw(), bytes.as_ptr().cast(), bytes.len())) };
        Self { arg, owner: Some(ctx) }
    }

    /// The server's string.
    pub fn arg(&self) -> Arg<'_> {
        self.arg
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.arg.bytes()
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        if let Some(ctx) = self.owner {
            // SAFETY: `make` created this string for this value alone, with the same context.
            unsafe { api::free_string(ctx.raw(), self.arg.raw()) };
        }
    }
}

impl<'a> Key<'a> {
    /// Opens the key `name` in the database of `ctx`. A key whose own time to live is over is deleted by this and then not there.
    pub fn open(ctx: Ctx<'a>, name: &Name<'_>, access: Access) -> Self {
        faults::point();
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: the context is valid for `'a`, the name is a live string. The server keeps its own reference to it.
        let raw = unsafe { api::open_key(ctx.raw(), name.arg.raw(), c_int::try_from(mode).unwrap_or_default()) };
        Self { raw: NonNull::new(raw), call: PhantomData }
    }

    /// Closes the key before the guard is dropped: it holds nothing from here on.
    pub fn close(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: the key is open, and the guard forgets it.
            unsafe { api::close_key(raw.as_ptr()) };
        }
    }

    /// A key that the server opened and will close, for as long as it says.
    ///
    /// # Safety
    /// `raw` is open for `'a`, no other guard of the key is in use, and the guard made here is not dropped.
    pub(super) unsafe fn lent(raw: NonNull<RawKey>) -> Self {
        Self { raw: Some(raw), call: PhantomData }
    }

    /// What the key holds. The value cannot be kept past the next use of the key.
    pub fn content<T: DataType>(&mut self) -> Content<'_, T> {
        let Some(raw) = self.raw else { return Content::Nothing };
        let key = raw.as_ptr();
        // SAFETY: the key is open. Its value was put there as a `Box<T>` by `set` or by the load callback of the type `T` and
        // is freed by the free callback only, so it lives as long as the key holds it. The borrow of `self` keeps the
        // key from being opened for deletion through this guard meanwhile; the rings above never hold two guards of
        // one key at a time.
        unsafe {
            let kind = api::key_type(key);
            if kind == api::int(raw::REDISMODULE_KEYTYPE_EMPTY) {
                return Content::Nothing;
            }
            if kind != api::int(raw::REDISMODULE_KEYTYPE_MODULE) || api::module_type_get_type(key) != T::handle().raw()
            {
                return Content::Foreign;
            }
            match api::module_type_get_value(key).cast::<T>().as_mut() {
                Some(value) => Content::Value(value),
                None => Content::Foreign,
            }
        }
    }

    /// Puts `value` into a key that was opened for writing; whatever was there is gone. False when the server refused.
    pub fn set<T: DataType>(&mut self, value: T) -> bool {
        faults::point();
        let Some(raw) = self.raw else { return false };
        let value = Box::into_raw(Box::new(value));
        // SAFETY: the key is open; the server owns the box from here on, and frees it by the type's free callback.
        let stored = unsafe { api::module_type_set_value(raw.as_ptr(), T::handle().raw(), value.cast()) == api::OK };
        if !stored {
            // SAFETY: the server did not take the box, so it is still ours.
            drop(unsafe { Box::from_raw(value) });
        }
        stored
    }

    /// When the key's own time to live is over, if it has one.
    pub fn expires(&self) -> Option<UnixMs> {
        let key = self.raw?.as_ptr();
        // SAFETY: the key is open. Redis 8.6 crashes when it is asked this of one that holds nothing.
        let at = unsafe {
            let holds = api::key_type(key) != api::int(raw::REDISMODULE_KEYTYPE_EMPTY);
            holds.then(|| api::get_abs_expire(key))
        };
        at.filter(|at| *at != raw::mstime_t::from(raw::REDISMODULE_NO_EXPIRE)).map(UnixMs)
    }

    /// Takes the time to live away from a key that was opened for writing, if it has one.
    pub fn persist(&mut self) {
        faults::point();
        if let Some(raw) = self.raw {
            // SAFETY: the key is open.
            unsafe { api::set_expire(raw.as_ptr(), raw::mstime_t::from(raw::REDISMODULE_NO_EXPIRE)) };
        }
    }

    /// Deletes what a key that was opened for writing holds.
    pub fn delete(&mut self) {
        faults::point();
        if let Some(raw) = self.raw {
            // SAFETY: the key is open; no borrow of its value exists, because `self` is borrowed here.
            unsafe { api::delete_key(raw.as_ptr()) };
        }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells the server that the key has changed: `WATCH` and client-side caches depend on it.
///
/// The module asks the server not to conclude this from an open for writing, since a refused request changes nothing.
pub fn touched(ctx: Ctx<'_>, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call.
    unsafe { api::signal_modified_key(ctx.raw(), name.arg.raw()) };
}

/// Publishes the module's event `event` for the key, as a keyspace notification of the class `d`.
pub fn notify(ctx: Ctx<'_>, event: &CStr, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call; the server copies the event's name.
    unsafe { api::notify_keyspace_event(ctx.raw(), raw::REDISMODULE_NOTIFY_MODULE, event.as_ptr(), name.arg.raw()) };
}
