//! An open key, and the value of ours behind it.
//!
//! An open key and a value behind it must not outlive any other code of the server: a command that the module runs, a listener of another
//! module, a key's own time to live may free both. So a [`Key`] keeps the context that it was opened in, and whoever needs that
//! context for such a call gets it from [`Key::ctx`], which closes the key. The borrow checker does the rest.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use redis_module::raw;

use super::api::{self, RawKey};
use super::args::Arg;
use super::ctx::Ctx;
use super::datatype::{self, DataType};
use super::faults;
use crate::core::time::UnixMs;

/// What a command means to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look at it; a key that is not there does not open.
    Read,
    /// As `Read`, and the server does not count it as a use of the key. Redis 7.0 does.
    Glance,
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
    made: bool,
}

/// A context, and the one key of it that may be open.
pub struct Key<'a> {
    ctx: Ctx<'a>,
    raw: Option<NonNull<RawKey>>,
}

/// A key that the server has opened and will close again, shown for the length of a callback.
pub struct Shown<'a> {
    raw: NonNull<RawKey>,
    callback: PhantomData<&'a mut RawKey>,
}

impl<'a> Name<'a> {
    /// The name that `arg` spells.
    pub fn of(arg: Arg<'a>) -> Self {
        Self { arg, made: false }
    }

    /// The name that `bytes` spell, as a new string of the server.
    pub fn make(bytes: &[u8]) -> Self {
        // SAFETY: without a context the string is ours alone until `drop` frees it; the server copies the bytes.
        let arg = unsafe { Arg::new(api::create_string(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len())) };
        Self { arg, made: true }
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
        if self.made {
            // SAFETY: `make` created this string for this value alone, without a context.
            unsafe { api::free_string(ptr::null_mut(), self.arg.raw()) };
        }
    }
}

impl<'a> Key<'a> {
    /// No key yet.
    pub fn closed(ctx: Ctx<'a>) -> Self {
        Self { ctx, raw: None }
    }

    /// The key `name` of the database of `ctx`; see [`Key::reopen`].
    pub fn open(ctx: Ctx<'a>, name: &Name<'_>, access: Access) -> Self {
        let mut key = Self::closed(ctx);
        key.reopen(name, access);
        key
    }

    /// Opens the key `name` in the database of the context, in place of the one that was open. A key whose own time to live is over is
    /// deleted by this, and then not there.
    ///
    /// The server tells listeners of that in the middle, and shows the key as it was before they came. So if a value of ours has moved
    /// meanwhile, perhaps to this very key, it is opened once more. That time nothing of it is over.
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
        // SAFETY: the context is valid for `'a`, the name is a live string. The server keeps its own reference to it. The deletion of
        // a key may run listeners; none is open here.
        let raw = unsafe { api::open_key(self.ctx.raw(), name.arg.raw(), c_int::try_from(mode).unwrap_or_default()) };
        self.raw = NonNull::new(raw);
    }

    /// The key, if it is open, as a callback would be shown it.
    pub fn show(&mut self) -> Option<Shown<'_>> {
        self.raw.map(|raw| Shown { raw, callback: PhantomData })
    }

    /// Whether a key is open. One that is opened for reading and not there never is.
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

    /// The context, for calls that may run other code of the server: the key is closed first.
    pub fn ctx(&mut self) -> &mut Ctx<'a> {
        self.close();
        &mut self.ctx
    }

    /// The context, for calls that run no other code: the key stays open.
    pub fn quiet(&self) -> &Ctx<'a> {
        &self.ctx
    }

    /// What the key holds. The value cannot be kept past the next use of the key.
    pub fn content<T: DataType>(&mut self) -> Content<'_, T> {
        self.content_and_ctx().0
    }

    /// What the key holds, and the context for calls that run no other code.
    pub fn content_and_ctx<T: DataType>(&mut self) -> (Content<'_, T>, &Ctx<'a>) {
        let content = match self.raw {
            // SAFETY: the key is open. The borrow of `self` keeps it so, and keeps its value from being deleted or replaced by way of this
            // guard. Nothing else runs on the server meanwhile: what may run other code needs the context by `&mut`, and `self` has it.
            Some(raw) => unsafe { content(raw) },
            None => Content::Nothing,
        };
        (content, &self.ctx)
    }

    /// Puts `value` into a key that was opened for writing; whatever was there is gone. False when the server refused.
    ///
    /// The server tells listeners of a new key, so this closes the key.
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

    /// Whether the key holds something that is no stream.
    pub fn is_no_stream(&self) -> bool {
        // SAFETY: the key is open.
        let kind = self.raw.map(|raw| unsafe { api::key_type(raw.as_ptr()) });
        let streams = [raw::REDISMODULE_KEYTYPE_EMPTY, raw::REDISMODULE_KEYTYPE_STREAM].map(api::int);
        kind.is_some_and(|kind| !streams.contains(&kind))
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

impl Shown<'_> {
    /// Wraps the key of a callback.
    ///
    /// # Safety
    /// `raw` is open for the lifetime of the result, and nobody else uses the value behind it.
    pub(super) unsafe fn new(raw: NonNull<RawKey>) -> Self {
        Self { raw, callback: PhantomData }
    }

    /// What the key holds.
    pub fn content<T: DataType>(&mut self) -> Content<'_, T> {
        // SAFETY: `new` was promised that the key is open and its value ours alone.
        unsafe { content(self.raw) }
    }
}

/// What the open key `raw` holds.
///
/// # Safety
/// The key stays open for `'k`, and its value is neither replaced nor used by anybody else.
unsafe fn content<'k, T: DataType>(raw: NonNull<RawKey>) -> Content<'k, T> {
    let key = raw.as_ptr();
    // SAFETY: the key is open. Its value was put there as a `Box<T>` by `set` or by the load callback of the type `T` and
    // is freed by the free callback only, so it lives as long as the key holds it. The caller vouches for the rest.
    unsafe {
        let kind = api::key_type(key);
        if kind == api::int(raw::REDISMODULE_KEYTYPE_EMPTY) {
            return Content::Nothing;
        }
        if kind != api::int(raw::REDISMODULE_KEYTYPE_MODULE) || api::module_type_get_type(key) != T::handle().raw() {
            return Content::Foreign;
        }
        match api::module_type_get_value(key).cast::<T>().as_mut() {
            Some(value) => Content::Value(value),
            None => Content::Foreign,
        }
    }
}

/// Tells the server that the key has changed: `WATCH` and client-side caches depend on it. Runs no other code.
///
/// The module asks the server not to conclude this from an open for writing, since a refused request changes nothing.
pub fn touched(ctx: &Ctx<'_>, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call.
    unsafe { api::signal_modified_key(ctx.raw(), name.arg.raw()) };
}

/// Publishes the module's event `event` for the key, as a keyspace notification of the class `d`.
///
/// Listeners of other modules run in here and may do anything, to this key as well. So this comes last: nothing that was known of the
/// keyspace before is known afterwards.
pub fn notify(ctx: &mut Ctx<'_>, event: &CStr, name: &Name<'_>) {
    faults::point();
    // SAFETY: the context and the name are valid for this call; the server copies the event's name.
    unsafe { api::notify_keyspace_event(ctx.raw(), raw::REDISMODULE_NOTIFY_MODULE, event.as_ptr(), name.arg.raw()) };
}
