//! The context of one call from the server, as a safe type.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use redis_module::raw;

use super::api::{self, RawCtx};
use super::faults;

/// The context that the server passes to a command, a timer or an event.
///
/// Valid for `'a`, the length of that call; only the entry functions of this ring create one.
///
/// Some calls into the server run other code before they return: a server command, listeners of other modules, our own callbacks. Any of it
/// may delete a key and free its value. Such calls take the context by `&mut`, all others by `&`. An open key borrows the context
/// ([`Key`](super::key::Key)), so no key can be open during a call of the first kind.
pub struct Ctx<'a> {
    raw: *mut RawCtx,
    call: PhantomData<&'a mut RawCtx>,
}

/// The current state of the server and the caller.
#[derive(Clone, Copy)]
pub struct Flags(c_int);

/// The severity of a log line.
#[derive(Clone, Copy)]
pub enum Level {
    /// Informational.
    Notice,
    /// Needs attention.
    Warning,
}

impl Ctx<'_> {
    /// Wraps the pointer of a callback.
    ///
    /// # Safety
    /// `raw` is a context of this module and stays valid for `'a`, and this thread has the server's lock.
    pub(super) unsafe fn new(raw: *mut RawCtx) -> Self {
        Self { raw, call: PhantomData }
    }

    /// The server's pointer.
    pub(super) fn raw(&self) -> *mut RawCtx {
        self.raw
    }

    /// The same context, borrowed for a part of the call.
    pub fn reborrow(&mut self) -> Ctx<'_> {
        Ctx { raw: self.raw, call: PhantomData }
    }

    /// The database of the call.
    pub fn db(&self) -> i32 {
        // SAFETY: the context is valid for the length of its lifetime.
        unsafe { api::get_selected_db(self.raw) }
    }

    /// Selects the database of the call; false if there is no such database.
    pub fn select(&self, db: i32) -> bool {
        // SAFETY: the context is valid for `'a`.
        unsafe { api::select_db(self.raw, db) == api::OK }
    }

    /// The id of the client that sent the command.
    pub fn client_id(&self) -> u64 {
        // SAFETY: the context is valid for `'a`.
        unsafe { api::get_client_id(self.raw) }
    }

    /// The state of the server and the caller. Costs about 200 instructions, so do not use it in hot paths.
    pub fn flags(&self) -> Flags {
        // SAFETY: the context is valid for `'a`.
        Flags(unsafe { api::get_context_flags(self.raw) })
    }

    /// Whether this server may write now: it is a primary with its data loaded, and writes are not paused.
    pub fn may_write(&self) -> bool {
        let flags = self.flags();
        // SAFETY: the function takes nothing and only reads the server's state.
        let quiet = flags.is_loading() || unsafe { api::avoid_replica_traffic() } != 0;
        flags.is_primary() && !quiet
    }

    /// Sets the module options in the server. Called once, at load.
    pub(super) fn set_options(&self) {
        let options =
            // A damaged payload must be refused without stopping the server; every load callback checks for errors itself.
            raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            // Opening a key for writing does not mean that it changed; see `key::touched`.
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | api::OPTION_ATOMIC_SLOT_MIGRATION;
        // SAFETY: the context is that of the module's load.
        unsafe { api::set_module_options(self.raw, c_int::try_from(options).unwrap_or_default()) };
    }

    /// Writes a line into the server's log.
    pub fn log(&self, level: Level, text: &str) {
        log(self.raw, level, text);
    }

    /// Replies with an integer. A value above the signed 64-bit maximum, which nothing here produces, becomes that maximum.
    pub fn reply_int(&self, value: impl TryInto<i64>) {
        faults::reply_point();
        let value = value.try_into().unwrap_or(i64::MAX);
        // SAFETY: the context is valid for `'a`.
        unsafe { api::reply_with_long_long(self.raw, value) };
    }

    /// Replies with a binary-safe string.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            // The same reply, at a fifth of the price.
            // SAFETY: the context is valid for `'a`.
            unsafe { api::reply_with_empty_string(self.raw) };
            return;
        }
        // SAFETY: the context is valid for `'a`; the server copies the bytes.
        unsafe { api::reply_with_string_buffer(self.raw, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Replies with a field of a map that has a number.
    pub fn reply_int_field(&self, name: &str, value: impl TryInto<i64>) {
        self.reply_bytes(name.as_bytes());
        self.reply_int(value);
    }

    /// Replies with a field of a map that has a string.
    pub fn reply_bytes_field(&self, name: &str, value: &[u8]) {
        self.reply_bytes(name.as_bytes());
        self.reply_bytes(value);
    }

    /// Replies with null, in the form of the client's protocol.
    pub fn reply_null(&self) {
        faults::reply_point();
        // SAFETY: the context is valid for `'a`.
        unsafe { api::reply_with_null(self.raw) };
    }

    /// Begins an array reply of `len` elements.
    pub fn reply_array(&self, len: usize) {
        faults::reply_point();
        // SAFETY: the context is valid for `'a`.
        unsafe { api::reply_with_array(self.raw, len.try_into().unwrap_or(0)) };
    }

    /// Begins a map reply of `pairs` fields with values: a map in RESP3, a flat array in RESP2.
    pub fn reply_map(&self, pairs: usize) {
        faults::reply_point();
        // SAFETY: the context is valid for `'a`. In RESP2 the server itself doubles the length.
        unsafe { api::reply_with_map(self.raw, pairs.try_into().unwrap_or(0)) };
    }

    /// Replies with `+OK`.
    pub fn reply_ok(&self) {
        faults::reply_point();
        // SAFETY: the context is valid for `'a`; the text is a constant C string.
        unsafe { api::reply_with_simple_string(self.raw, c"OK".as_ptr()) };
    }

    /// Replies with an error. `text` begins with its error code.
    pub fn reply_error(&self, text: &str) {
        let text = c_text(text);
        // SAFETY: the context is valid for `'a`; the server copies the text.
        unsafe { api::reply_with_error(self.raw, text.as_ptr()) };
    }
}

impl Flags {
    fn has(self, flag: u32) -> bool {
        c_int::try_from(flag).is_ok_and(|flag| self.0 & flag != 0)
    }

    /// This server is a primary, so it decides.
    pub fn is_primary(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MASTER)
    }

    /// Data is being loaded from disk or from the primary.
    pub fn is_loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING) || self.has(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
    }

    /// The client must be answered at once: it is in a transaction or a script, or must not block, or the server is a writable replica,
    /// where there is never a hand-over.
    pub fn denies_blocking(self) -> bool {
        !self.is_primary()
            || self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
            || self.is_script()
            || self.is_transaction()
            || self.is_decided()
    }

    /// The command is one of a transaction. The server has checked the keys of all its commands before the first.
    pub fn is_transaction(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MULTI)
    }

    /// This server decides on the request of the command.
    pub fn decides(self) -> bool {
        self.is_primary() && !self.is_decided()
    }

    /// The command comes from the primary, from a file or from a slot's former owner, so it was decided there.
    pub fn is_decided(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED) || self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// The command came over a link from the primary, or from the node that a slot is moving from.
    pub fn is_replicated(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
    }

    /// A script or a function runs the command.
    pub fn is_script(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// The server is a cluster node.
    pub fn is_cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }
}

impl Level {
    fn name(self) -> &'static CStr {
        match self {
            Self::Notice => c"notice",
            Self::Warning => c"warning",
        }
    }
}

/// The state of the server, outside of a call.
pub fn flags() -> Flags {
    // SAFETY: without a context the server returns only its own state.
    Flags(unsafe { api::get_context_flags(ptr::null_mut()) })
}

/// Whether the client with this id has a user.
pub fn has_user(ctx: &Ctx<'_>, client: u64) -> bool {
    // SAFETY: the context is valid; the name, if there is one, is ours to free.
    unsafe {
        let name = api::get_client_user_name_by_id(ctx.raw, client);
        if !name.is_null() {
            api::free_string(ctx.raw, name);
        }
        !name.is_null()
    }
}

/// Whether the connection with this id still exists.
pub fn is_connected(client: u64) -> bool {
    // SAFETY: without a structure to fill in, the server only looks up the id.
    unsafe { api::get_client_info_by_id(ptr::null_mut(), client) == api::OK }
}

/// Whether the server considers the connection with this id blocked.
pub(super) fn is_blocked(client: u64) -> bool {
    let mut info = MaybeUninit::<raw::RedisModuleClientInfo>::zeroed();
    // SAFETY: the structure is plain numbers, so zeros are valid; its version tells the server how much of it to fill in.
    let flags = unsafe {
        (*info.as_mut_ptr()).version = u64::from(raw::REDISMODULE_CLIENTINFO_VERSION);
        if api::get_client_info_by_id(info.as_mut_ptr().cast(), client) != api::OK {
            return false;
        }
        info.assume_init().flags
    };
    flags & u64::from(raw::REDISMODULE_CLIENTINFO_FLAG_BLOCKED) != 0
}

/// Writes a line into the server's log, from any place: `ctx` may be null.
pub(super) fn log(ctx: *mut RawCtx, level: Level, text: &str) {
    let text = c_text(text);
    // SAFETY: the pointer is set (see `api::missing`). The format is always "%s": the server uses it like printf, so with our text as the
    // format every '%' in it would read the stack.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(ctx, level.name().as_ptr(), c"%s".as_ptr(), text.as_ptr());
        }
    }
}

/// `text` as a C string; NUL bytes, which would end it early, are dropped.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}
