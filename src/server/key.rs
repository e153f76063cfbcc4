//! An open key and its value.
//!
//! An open key and its value must not be held while other code of the server runs: a command that the module runs, a listener of another
//! module, or the key's own expiry may free both. So a [`Key`] keeps its context, and code that needs the context for such a call gets it
//! from [`Key::ctx`], which closes the key. The borrow checker enforces this.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use redis_module::raw;

use super::api::{self, RawKey};
use super::args::Name;
use super::ctx::Ctx;
use super::datatype::{self, DataType};
use super::faults;
use crate::core::time::UnixMs;

/// How a command uses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it; a missing key is not opened.
    Read,
    /// Like `Read`, but the server does not count it as a use of the key. Redis 7.0 does count it.
    Glance,
    /// Change, create or delete it.
    Write,
}

/// The content of a key: a value of our type, or nothing.
pub type Content<'k, T> = Result<Option<&'k mut T>, Foreign>;

/// The key holds a value of another type.
pub struct Foreign;

/// A context, and its one key that may be open.
pub struct Key<'a> {
    ctx: Ctx<'a>,
    raw: Option<NonNull<RawKey>>,
}

/// A key that the server opens and closes itself, for the length of a callback.
pub struct Shown<'a> {
    raw: NonNull<RawKey>,
    callback: PhantomData<&'a mut RawKey>,
}

impl<'a> Key<'a> {
    /// No open key yet.
    pub fn closed(ctx: Ctx<'a>) -> Self {
        Self { ctx, raw: None }
    }

    /// The key `name` in the database of `ctx`; see [`Key::reopen`].
    pub fn open(ctx: Ctx<'a>, name: &Name<'_>, access: Access) -> Self {
        let mut key = Self::closed(ctx);
        key.reopen(name, access);
        key
    }

    /// Opens the key `name` in the database of the context, and closes the one that was open. If the key's own TTL has expired, this
    /// deletes it, and the key is empty.
    ///
    /// The server notifies listeners of that deletion in between, and returns the key as it was before. So if one of our values has moved
    /// since, perhaps to this key, the key is opened once more. The second time no TTL has expired.
    pub fn reopen(&mut self, name: &Name<'_>, access: Access) {
        faults::point();
        let before = datatype::moves();
        self.open_once(name, access);
        if datatype::moves() != before {
            self.open_once(name, access);
        }
    }

    fn open_once(&mut self, name: &Name<'_>, access: Access) {
        self.close();
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Glance => raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOEFFECTS,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: the context is valid for `'a`, the name is a live string. The server keeps its own reference to it. Deleting an expired
        // key may run listeners; no key is open here.
        let raw = unsafe { api::open_key(self.ctx.raw(), name.arg().raw(), c_int::try_from(mode).unwrap_or_default()) };
        self.raw = NonNull::new(raw);
    }

    /// The key in the form for callbacks, if it is open.
    pub fn show(&mut self) -> Option<Shown<'_>> {
        self.raw.map(|raw| Shown { raw, callback: PhantomData })
    }

    /// Whether a key is open. A missing key that was opened for reading is not.
    pub fn is_open(&self) -> bool {
        self.raw.is_some()
    }

    /// Closes the key.
    pub fn close(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: the key is open, and the guard forgets it.
            unsafe { api::close_key(raw.as_ptr()) };
        }
    }

    /// The context, for calls that may run other code of the server; closes the key first.
    pub fn ctx(&mut self) -> &mut Ctx<'a> {
        self.close();
        &mut self.ctx
    }

    /// The context, for calls that run no other code; the key stays open.
    pub fn quiet(&self) -> &Ctx<'a> {
        &self.ctx
    }

    /// The content of the key. The value cannot be kept past the next use of the key.
    pub fn content<T: DataType>(&mut self) -> Content<'_, T> {
        self.content_and_ctx().0
    }

    /// The content of the key, and the context for calls that run no other code.
    pub fn content_and_ctx<T: DataType>(&mut self) -> (Content<'_, T>, &Ctx<'a>) {
        let content = match self.raw {
            // SAFETY: the key is open. The borrow of `self` keeps it open, and prevents deleting or replacing its value through this guard.
            // Nothing else runs on the server meanwhile: a call that may run other code needs the context by `&mut`, and `self` owns it.
            Some(raw) => unsafe { content(raw) },
            None => Ok(None),
        };
        (content, &self.ctx)
    }

    /// Stores `value` in a key that was opened for writing, and replaces the old value. False if the server refused.
    ///
    /// The server notifies listeners of a new key, so this closes the key.
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
        self.close();
        stored
    }

    /// Whether the key holds a value that is not a stream.
    pub fn is_no_stream(&self) -> bool {
        // SAFETY: the key is open.
        let kind = self.raw.map(|raw| unsafe { api::key_type(raw.as_ptr()) });
        let streams = [raw::REDISMODULE_KEYTYPE_EMPTY, raw::REDISMODULE_KEYTYPE_STREAM].map(api::int);
        kind.is_some_and(|kind| !streams.contains(&kind))
    }

    /// When the key's own TTL ends, if it has one.
    pub fn expires(&self) -> Option<UnixMs> {
        let key = self.raw?.as_ptr();
        // SAFETY: the key is open. Redis 8.6 crashes when it is asked this for an empty key.
        let at = unsafe {
            let holds = api::key_type(key) != api::int(raw::REDISMODULE_KEYTYPE_EMPTY);
            holds.then(|| api::get_abs_expire(key))
        };
        at.filter(|at| *at != raw::mstime_t::from(raw::REDISMODULE_NO_EXPIRE)).map(UnixMs)
    }

    /// Removes the TTL, if any, from a key that was opened for writing.
    pub fn persist(&mut self) {
        faults::point();
        if let Some(raw) = self.raw {
            // SAFETY: the key is open.
            unsafe { api::set_expire(raw.as_ptr(), raw::mstime_t::from(raw::REDISMODULE_NO_EXPIRE)) };
        }
    }

    /// Deletes the content of a key that was opened for writing.
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

impl Shown<'_> {
    /// Wraps the key of a callback.
    ///
    /// # Safety
    /// `raw` is open for the lifetime of the result, and nothing else uses its value.
    pub(super) unsafe fn new(raw: NonNull<RawKey>) -> Self {
        Self { raw, callback: PhantomData }
    }

    /// The content of the key.
    pub fn content<T: DataType>(&mut self) -> Content<'_, T> {
        // SAFETY: `new` was promised that the key is open and its value is used by nobody else.
        unsafe { content(self.raw) }
    }
}

/// The content of the open key `raw`.
///
/// # Safety
/// The key stays open for `'k`, and nobody else replaces or uses its value.
unsafe fn content<'k, T: DataType>(raw: NonNull<RawKey>) -> Content<'k, T> {
    let key = raw.as_ptr();
    // SAFETY: the key is open. `set` or the load callback of the type `T` stored its value as a `Box<T>`, and only the free callback frees
    // it, so it lives as long as the key holds it. The caller guarantees the rest.
    unsafe {
        let kind = api::key_type(key);
        if kind == api::int(raw::REDISMODULE_KEYTYPE_EMPTY) {
            return Ok(None);
        }
        if kind != api::int(raw::REDISMODULE_KEYTYPE_MODULE) || api::module_type_get_type(key) != T::handle().raw() {
            return Err(Foreign);
        }
        api::module_type_get_value(key).cast::<T>().as_mut().map(Some).ok_or(Foreign)
    }
}

/// Whether the key `name` exists in the database of `ctx`. The server counts no use of it.
pub fn exists(ctx: &mut Ctx<'_>, name: &Name<'_>) -> bool {
    Key::open(ctx.reborrow(), name, Access::Glance).is_open()
}

/// Signals that the key has changed; `WATCH` and client-side caches depend on it. Runs no other code.
///
/// The module asks the server not to infer this from an open for writing, because a refused request changes nothing.
pub fn touched(ctx: &Ctx<'_>, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call.
    unsafe { api::signal_modified_key(ctx.raw(), name.arg().raw()) };
}

/// Publishes the module's event `event` for the key, as a keyspace notification of the class `d`.
///
/// Listeners of other modules run in here and may do anything, to this key as well. So this comes last: afterwards nothing known about the
/// keyspace is valid any more.
pub fn notify(ctx: &mut Ctx<'_>, event: &CStr, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call; the server copies the event's name.
    unsafe { api::notify_keyspace_event(ctx.raw(), raw::REDISMODULE_NOTIFY_MODULE, event.as_ptr(), name.arg().raw()) };
}
