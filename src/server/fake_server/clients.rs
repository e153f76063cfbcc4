//! Client commands without a server: fakes the functions they use, with one key and one client at a time.
//!
//! It blocks clients as a server does, or refuses to.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, Once, PoisonError};
use std::{slice, thread};

use redis_module::raw;

use crate::cmd::lock_reply;
use crate::core::lock::Lock;
use crate::module::blocked::BLOCKED;
use crate::module::inbox;
use crate::server::api::{self, RawBlocked, RawCtx, RawKey, RawString, RawType};
use crate::server::cell;
use crate::server::command::Command;
use crate::server::ctx::Ctx;
use crate::server::entry;

/// How the server reacts to a request to block a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blocking {
    /// It blocks the client.
    #[default]
    Done,
    /// It refuses.
    Refused,
    /// It sends the client an error of its own, and returns a handle all the same.
    Feigned,
}

/// Frees the private data of a client that was blocked.
type OnFree = unsafe extern "C" fn(*mut RawCtx, *mut c_void);

/// A client that the server has blocked, or claims to have blocked.
#[derive(Clone, Copy)]
struct Blocked {
    on_answer: raw::RedisModuleCmdFunc,
    on_free: Option<OnFree>,
    data: *mut c_void,
}

#[derive(Default)]
struct Host {
    blocking: Blocking,
    /// The replies since the last call.
    replies: Vec<String>,
    blocked: Option<Blocked>,
    /// Whether the client is blocked.
    is_blocked: bool,
    /// Whether it is to be released after the running call, as a server does.
    is_released: bool,
    /// The lock under the key.
    value: *mut c_void,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

/// Runs `f` on a new thread, which is the main thread of a fake server.
pub fn serve(blocking: Blocking, f: impl FnOnce() + Send) {
    // The module has one state, and one main thread.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    super::install();
    install();
    let served = thread::scope(|scope| {
        let serving = || {
            cell::claim_main_thread();
            with(|host| host.blocking = blocking);
            BLOCKED.install(&ctx(), inbox::client_unblocked, lock_reply::answer);
            f();
        };
        scope.spawn(serving).join()
    });
    if let Err(fault) = served {
        std::panic::resume_unwind(fault);
    }
}

/// Runs the command `C` for the client, and returns all replies that were sent meanwhile.
pub fn call<C: Command>(words: &str) -> Vec<String> {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let mut strings: Vec<*mut RawString> = words.iter().map(|word| ptr::from_ref(word).cast_mut().cast()).collect();
    let count = c_int::try_from(strings.len()).unwrap_or(c_int::MAX);
    // SAFETY: this is the main thread; the strings have the form that `string_ptr_len` expects, and outlive the call.
    unsafe { entry::command::<C>(context(), strings.as_mut_ptr(), count) };
    release();
    with(|host| std::mem::take(&mut host.replies))
}

/// Asks for the reply to the client that was unblocked, if one was, and releases it.
fn release() {
    let released = with(|host| std::mem::take(&mut host.is_released).then_some(host.blocked).flatten());
    let Some(Blocked { on_answer, on_free, data }) = released else { return };
    if let Some(answer) = on_answer {
        // SAFETY: this is the module's own function, called as a server does.
        unsafe { answer(context(), ptr::null_mut(), 0) };
    }
    with(|host| (host.is_blocked, host.blocked) = (false, None));
    if let Some(free) = on_free {
        // SAFETY: as above.
        unsafe { free(context(), data) };
    }
}

/// The current context.
pub fn ctx() -> Ctx<'static> {
    // SAFETY: nothing in here dereferences the pointer.
    unsafe { Ctx::new(context()) }
}

fn context() -> *mut RawCtx {
    NonNull::dangling().as_ptr()
}

fn with<R>(f: impl FnOnce(&mut Host) -> R) -> R {
    HOST.with_borrow_mut(f)
}

fn tell(reply: impl Into<String>) -> c_int {
    with(|host| host.replies.push(reply.into()));
    api::OK
}

fn install() {
    static ONCE: Once = Once::new();
    // SAFETY: as in the outer module: nobody else sets these pointers, and nobody reads them before this has run once.
    ONCE.call_once(|| unsafe {
        raw::RedisModule_GetClientId = Some(get_client_id);
        raw::RedisModule_GetClientInfoById = Some(get_client_info_by_id);
        raw::RedisModule_GetClientUserNameById = Some(get_client_user_name_by_id);
        raw::RedisModule_CreateString = Some(create_string);
        raw::RedisModule_FreeString = Some(free_string);
        raw::RedisModule_GetSelectedDb = Some(get_selected_db);
        raw::RedisModule_SelectDb = Some(select_db);
        raw::RedisModule_CreateTimer = Some(create_timer);
        raw::RedisModule_StopTimer = Some(stop_timer);
        raw::RedisModule_OpenKey = Some(open_key);
        raw::RedisModule_CloseKey = Some(close_key);
        raw::RedisModule_KeyType = Some(key_type);
        raw::RedisModule_ModuleTypeGetType = Some(module_type_get_type);
        raw::RedisModule_ModuleTypeGetValue = Some(module_type_get_value);
        raw::RedisModule_ModuleTypeSetValue = Some(module_type_set_value);
        raw::RedisModule_SetExpire = Some(set_expire);
        raw::RedisModule_DeleteKey = Some(delete_key);
        raw::RedisModule_SignalModifiedKey = Some(signal_modified_key);
        raw::RedisModule_ReplicateVerbatim = Some(replicate_verbatim);
        raw::RedisModule_NotifyKeyspaceEvent = Some(notify_keyspace_event);
        raw::RedisModule_ReplyWithNull = Some(reply_with_null);
        raw::RedisModule_ReplyWithError = Some(reply_with_error);
        raw::RedisModule_ReplyWithArray = Some(reply_with_array);
        raw::RedisModule_ReplyWithLongLong = Some(reply_with_long_long);
        raw::RedisModule_ReplyWithStringBuffer = Some(reply_with_string_buffer);
        raw::RedisModule_BlockClientOnKeys = Some(block_client_on_keys);
        raw::RedisModule_BlockClientOnKeysWithFlags = Some(block_client_on_keys_with_flags);
        raw::RedisModule_SetDisconnectCallback = Some(set_disconnect_callback);
        raw::RedisModule_UnblockClient = Some(unblock_client);
        raw::RedisModule_GetBlockedClientPrivateData = Some(get_blocked_client_private_data);
    });
}

unsafe extern "C" fn get_client_id(_: *mut RawCtx) -> u64 {
    1
}

unsafe extern "C" fn get_client_info_by_id(info: *mut c_void, _: u64) -> c_int {
    // SAFETY: if there is a structure, it is the caller's.
    if let Some(info) = unsafe { info.cast::<raw::RedisModuleClientInfo>().as_mut() } {
        let blocked = with(|host| host.is_blocked);
        info.flags = if blocked { u64::from(raw::REDISMODULE_CLIENTINFO_FLAG_BLOCKED) } else { 0 };
    }
    api::OK
}

unsafe extern "C" fn get_client_user_name_by_id(ctx: *mut RawCtx, _: u64) -> *mut RawString {
    // SAFETY: the text is static.
    unsafe { create_string(ctx, c"default".as_ptr(), c"default".count_bytes()) }
}

/// Strings are addresses of slices, as in the outer module.
unsafe extern "C" fn create_string(_: *mut RawCtx, bytes: *const c_char, len: usize) -> *mut RawString {
    // SAFETY: the caller has `len` bytes there.
    let bytes: Box<[u8]> = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) }.into();
    Box::into_raw(Box::new(Box::into_raw(bytes))).cast()
}

unsafe extern "C" fn free_string(_: *mut RawCtx, string: *mut RawString) {
    // SAFETY: `create_string` made it, and it is not used any more.
    unsafe { drop(Box::from_raw(*Box::from_raw(string.cast::<*mut [u8]>()))) };
}

unsafe extern "C" fn get_selected_db(_: *mut RawCtx) -> c_int {
    0
}

unsafe extern "C" fn select_db(_: *mut RawCtx, _: c_int) -> c_int {
    api::OK
}

/// No time passes.
unsafe extern "C" fn create_timer(
    _: *mut RawCtx,
    _: raw::mstime_t,
    _: raw::RedisModuleTimerProc,
    _: *mut c_void,
) -> raw::RedisModuleTimerID {
    1
}

unsafe extern "C" fn stop_timer(_: *mut RawCtx, _: raw::RedisModuleTimerID, _: *mut *mut c_void) -> c_int {
    api::OK
}

unsafe extern "C" fn open_key(_: *mut RawCtx, _: *mut RawString, _: c_int) -> *mut RawKey {
    NonNull::dangling().as_ptr()
}

unsafe extern "C" fn close_key(_: *mut RawKey) {}

unsafe extern "C" fn key_type(_: *mut RawKey) -> c_int {
    let empty = with(|host| host.value.is_null());
    api::int(if empty { raw::REDISMODULE_KEYTYPE_EMPTY } else { raw::REDISMODULE_KEYTYPE_MODULE })
}

/// No type is registered.
unsafe extern "C" fn module_type_get_type(_: *mut RawKey) -> *mut RawType {
    ptr::null_mut()
}

unsafe extern "C" fn module_type_get_value(_: *mut RawKey) -> *mut c_void {
    with(|host| host.value)
}

unsafe extern "C" fn module_type_set_value(_: *mut RawKey, _: *mut RawType, value: *mut c_void) -> c_int {
    with(|host| host.value = value);
    api::OK
}

unsafe extern "C" fn set_expire(_: *mut RawKey, _: raw::mstime_t) -> c_int {
    api::OK
}

unsafe extern "C" fn delete_key(_: *mut RawKey) -> c_int {
    let value = with(|host| std::mem::replace(&mut host.value, ptr::null_mut()));
    // SAFETY: only locks are stored there, each as its own box.
    unsafe { drop(Box::from_raw(value.cast::<Lock>())) };
    api::OK
}

unsafe extern "C" fn signal_modified_key(_: *mut RawCtx, _: *mut RawString) -> c_int {
    api::OK
}

unsafe extern "C" fn replicate_verbatim(_: *mut RawCtx) -> c_int {
    api::OK
}

unsafe extern "C" fn notify_keyspace_event(_: *mut RawCtx, _: c_int, _: *const c_char, _: *mut RawString) -> c_int {
    api::OK
}

unsafe extern "C" fn reply_with_null(_: *mut RawCtx) -> c_int {
    tell("null")
}

unsafe extern "C" fn reply_with_error(_: *mut RawCtx, text: *const c_char) -> c_int {
    // SAFETY: the caller has a C string there.
    tell(unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

unsafe extern "C" fn reply_with_array(_: *mut RawCtx, len: c_long) -> c_int {
    tell(format!("array of {len}"))
}

unsafe extern "C" fn reply_with_long_long(_: *mut RawCtx, number: c_longlong) -> c_int {
    tell(number.to_string())
}

unsafe extern "C" fn reply_with_string_buffer(_: *mut RawCtx, bytes: *const c_char, len: usize) -> c_int {
    // SAFETY: the caller has `len` bytes there.
    tell(String::from_utf8_lossy(unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) }))
}

unsafe extern "C" fn block_client_on_keys(
    _: *mut RawCtx,
    _: raw::RedisModuleCmdFunc,
    on_answer: raw::RedisModuleCmdFunc,
    on_free: Option<OnFree>,
    _: c_longlong,
    _: *mut *mut RawString,
    _: c_int,
    data: *mut c_void,
) -> *mut RawBlocked {
    let blocking = with(|host| host.blocking);
    if blocking == Blocking::Refused {
        return ptr::null_mut();
    }
    if blocking == Blocking::Feigned {
        tell("ERR timeout is out of range");
    }
    with(|host| {
        host.is_blocked = blocking == Blocking::Done;
        host.blocked = Some(Blocked { on_answer, on_free, data });
    });
    NonNull::dangling().as_ptr()
}

/// Never called; its presence only marks the kind of server.
unsafe extern "C" fn block_client_on_keys_with_flags(
    _: *mut RawCtx,
    _: raw::RedisModuleCmdFunc,
    _: raw::RedisModuleCmdFunc,
    _: Option<OnFree>,
    _: c_longlong,
    _: *mut *mut RawString,
    _: c_int,
    _: *mut c_void,
    _: c_int,
) -> *mut RawBlocked {
    ptr::null_mut()
}

unsafe extern "C" fn set_disconnect_callback(_: *mut RawBlocked, _: raw::RedisModuleDisconnectFunc) {}

/// Releases the client after the running call.
unsafe extern "C" fn unblock_client(_: *mut RawBlocked, _: *mut c_void) -> c_int {
    if with(|host| host.is_blocked) {
        with(|host| host.is_released = true);
        return api::OK;
    }
    tell("(the server ends)")
}

unsafe extern "C" fn get_blocked_client_private_data(_: *mut RawCtx) -> *mut c_void {
    with(|host| host.blocked.as_ref().map_or(ptr::null_mut(), |blocked| blocked.data))
}
