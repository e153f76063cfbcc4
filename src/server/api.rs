//! The functions of the module API that lockstock uses.
//!
//! The bindings hold each function as an `Option`, because a server may be older than the header. Every name in the table below exists on
//! every supported server. [`missing`] checks this once, at load; after that the wrappers call without a check. Functions that only some
//! servers have are in [`super::compat`].

use std::ffi::{c_char, c_int, c_long, c_longlong, c_ulonglong, c_void};

use redis_module::raw;

pub use redis_module::raw::{
    RedisModuleBlockedClient as RawBlocked, RedisModuleCallReply as RawReply, RedisModuleCommand as RawCommand,
    RedisModuleCtx as RawCtx, RedisModuleDigest as RawDigest, RedisModuleIO as RawIo, RedisModuleInfoCtx as RawInfo,
    RedisModuleKey as RawKey, RedisModuleKeyOptCtx as RawOptCtx, RedisModuleScanCursor as RawCursor,
    RedisModuleServerInfoData as RawServerInfo, RedisModuleString as RawString, RedisModuleType as RawType,
    RedisModuleUser as RawUser,
};

/// The server's return value for success.
pub const OK: c_int = int(raw::REDISMODULE_OK);
/// The return value for failure, from the server and from callbacks.
pub const ERR: c_int = int(raw::REDISMODULE_ERR);

/// A constant of the header as a C `int`; the bindings have widened its type.
#[expect(clippy::cast_possible_truncation, reason = "constants of the header are small")]
pub const fn int(constant: isize) -> c_int {
    constant as c_int
}

macro_rules! required {
    ($($wrapper:ident = $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)* ; direct $($direct:ident),*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            /// The requirements in the server's documentation of the function; and [`missing`] has returned `None`.
            #[inline]
            pub unsafe fn $wrapper($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: `missing` has seen this pointer set, and nothing unsets it. The rest is the caller's duty.
                unsafe { (raw::$name.unwrap_unchecked())($($arg),*) }
            }
        )*

        /// The first function of the table that this server does not have.
        pub fn missing() -> Option<&'static str> {
            // SAFETY: these are plain reads of pointers that only module initialisation writes, on this thread.
            unsafe {
                $(if (&raw const raw::$name).read().is_none() {
                    return Some(stringify!($name));
                })*
                $(if (&raw const raw::$direct).read().is_none() {
                    return Some(stringify!($direct));
                })*
            }
            None
        }
    };
}

required! {
    alloc = RedisModule_Alloc(bytes: usize) -> *mut c_void;
    realloc = RedisModule_Realloc(ptr: *mut c_void, bytes: usize) -> *mut c_void;
    free = RedisModule_Free(ptr: *mut c_void);

    create_command = RedisModule_CreateCommand(ctx: *mut RawCtx, name: *const c_char, run: raw::RedisModuleCmdFunc, flags: *const c_char, first_key: c_int, last_key: c_int, key_step: c_int) -> c_int;
    get_command = RedisModule_GetCommand(ctx: *mut RawCtx, name: *const c_char) -> *mut RawCommand;
    is_keys_position_request = RedisModule_IsKeysPositionRequest(ctx: *mut RawCtx) -> c_int;
    key_at_pos_with_flags = RedisModule_KeyAtPosWithFlags(ctx: *mut RawCtx, position: c_int, flags: c_int);
    set_command_info = RedisModule_SetCommandInfo(command: *mut RawCommand, info: *const raw::RedisModuleCommandInfo) -> c_int;
    set_module_options = RedisModule_SetModuleOptions(ctx: *mut RawCtx, options: c_int);
    load_configs = RedisModule_LoadConfigs(ctx: *mut RawCtx) -> c_int;
    register_info_func = RedisModule_RegisterInfoFunc(ctx: *mut RawCtx, write: raw::RedisModuleInfoFunc) -> c_int;
    info_add_section = RedisModule_InfoAddSection(info: *mut RawInfo, name: *const c_char) -> c_int;
    info_add_field_c_string = RedisModule_InfoAddFieldCString(info: *mut RawInfo, field: *const c_char, value: *const c_char) -> c_int;
    info_add_field_ulong_long = RedisModule_InfoAddFieldULongLong(info: *mut RawInfo, field: *const c_char, value: c_ulonglong) -> c_int;
    subscribe_to_server_event = RedisModule_SubscribeToServerEvent(ctx: *mut RawCtx, event: raw::RedisModuleEvent, callback: raw::RedisModuleEventCallback) -> c_int;
    subscribe_to_keyspace_events = RedisModule_SubscribeToKeyspaceEvents(ctx: *mut RawCtx, classes: c_int, callback: raw::RedisModuleNotificationFunc) -> c_int;
    get_detached_thread_safe_context = RedisModule_GetDetachedThreadSafeContext(ctx: *mut RawCtx) -> *mut RawCtx;

    get_context_flags = RedisModule_GetContextFlags(ctx: *mut RawCtx) -> c_int;
    get_client_id = RedisModule_GetClientId(ctx: *mut RawCtx) -> c_ulonglong;
    get_selected_db = RedisModule_GetSelectedDb(ctx: *mut RawCtx) -> c_int;
    select_db = RedisModule_SelectDb(ctx: *mut RawCtx, db: c_int) -> c_int;
    avoid_replica_traffic = RedisModule_AvoidReplicaTraffic() -> c_int;
    create_timer = RedisModule_CreateTimer(ctx: *mut RawCtx, period: raw::mstime_t, callback: raw::RedisModuleTimerProc, data: *mut c_void) -> raw::RedisModuleTimerID;
    event_loop_add_one_shot = RedisModule_EventLoopAddOneShot(func: raw::RedisModuleEventLoopOneShotFunc, data: *mut c_void) -> c_int;
    stop_timer = RedisModule_StopTimer(ctx: *mut RawCtx, id: raw::RedisModuleTimerID, data: *mut *mut c_void) -> c_int;

    get_client_info_by_id = RedisModule_GetClientInfoById(info: *mut c_void, id: u64) -> c_int;
    get_client_user_name_by_id = RedisModule_GetClientUserNameById(ctx: *mut RawCtx, id: u64) -> *mut RawString;
    scan_cursor_create = RedisModule_ScanCursorCreate() -> *mut RawCursor;
    scan_cursor_restart = RedisModule_ScanCursorRestart(cursor: *mut RawCursor);
    scan = RedisModule_Scan(ctx: *mut RawCtx, cursor: *mut RawCursor, seen: raw::RedisModuleScanCB, data: *mut c_void) -> c_int;
    call_reply_string_ptr = RedisModule_CallReplyStringPtr(reply: *mut RawReply, len: *mut usize) -> *const c_char;
    free_call_reply = RedisModule_FreeCallReply(reply: *mut RawReply);

    string_ptr_len = RedisModule_StringPtrLen(string: *const RawString, len: *mut usize) -> *const c_char;
    create_string = RedisModule_CreateString(ctx: *mut RawCtx, ptr: *const c_char, len: usize) -> *mut RawString;
    free_string = RedisModule_FreeString(ctx: *mut RawCtx, string: *mut RawString);

    publish_message = RedisModule_PublishMessage(ctx: *mut RawCtx, channel: *mut RawString, message: *mut RawString) -> c_int;
    get_current_user_name = RedisModule_GetCurrentUserName(ctx: *mut RawCtx) -> *mut RawString;
    get_module_user_from_user_name = RedisModule_GetModuleUserFromUserName(name: *mut RawString) -> *mut RawUser;
    free_module_user = RedisModule_FreeModuleUser(user: *mut RawUser);
    acl_check_channel_permissions = RedisModule_ACLCheckChannelPermissions(user: *mut RawUser, channel: *mut RawString, flags: c_int) -> c_int;
    acl_check_key_permissions = RedisModule_ACLCheckKeyPermissions(user: *mut RawUser, key: *mut RawString, flags: c_int) -> c_int;
    acl_add_log_entry = RedisModule_ACLAddLogEntry(ctx: *mut RawCtx, user: *mut RawUser, object: *mut RawString, reason: raw::RedisModuleACLLogEntryReason);

    reply_with_call_reply = RedisModule_ReplyWithCallReply(ctx: *mut RawCtx, reply: *mut RawReply) -> c_int;
    get_command_keys_with_flags = RedisModule_GetCommandKeysWithFlags(ctx: *mut RawCtx, words: *mut *mut RawString, count: c_int, keys: *mut c_int, flags: *mut *mut c_int) -> *mut c_int;

    reply_with_long_long = RedisModule_ReplyWithLongLong(ctx: *mut RawCtx, value: c_longlong) -> c_int;
    reply_with_string_buffer = RedisModule_ReplyWithStringBuffer(ctx: *mut RawCtx, buf: *const c_char, len: usize) -> c_int;
    reply_with_empty_string = RedisModule_ReplyWithEmptyString(ctx: *mut RawCtx) -> c_int;
    reply_with_array = RedisModule_ReplyWithArray(ctx: *mut RawCtx, len: c_long) -> c_int;
    reply_with_map = RedisModule_ReplyWithMap(ctx: *mut RawCtx, len: c_long) -> c_int;
    reply_with_null = RedisModule_ReplyWithNull(ctx: *mut RawCtx) -> c_int;
    reply_with_error = RedisModule_ReplyWithError(ctx: *mut RawCtx, text: *const c_char) -> c_int;
    reply_with_simple_string = RedisModule_ReplyWithSimpleString(ctx: *mut RawCtx, text: *const c_char) -> c_int;

    set_disconnect_callback = RedisModule_SetDisconnectCallback(handle: *mut RawBlocked, callback: raw::RedisModuleDisconnectFunc);
    unblock_client = RedisModule_UnblockClient(handle: *mut RawBlocked, data: *mut c_void) -> c_int;
    blocked_client_disconnected = RedisModule_BlockedClientDisconnected(ctx: *mut RawCtx) -> c_int;
    get_blocked_client_private_data = RedisModule_GetBlockedClientPrivateData(ctx: *mut RawCtx) -> *mut c_void;

    open_key = RedisModule_OpenKey(ctx: *mut RawCtx, name: *mut RawString, mode: c_int) -> *mut RawKey;
    close_key = RedisModule_CloseKey(key: *mut RawKey);
    delete_key = RedisModule_DeleteKey(key: *mut RawKey) -> c_int;
    get_abs_expire = RedisModule_GetAbsExpire(key: *mut RawKey) -> raw::mstime_t;
    set_expire = RedisModule_SetExpire(key: *mut RawKey, expire: raw::mstime_t) -> c_int;
    key_type = RedisModule_KeyType(key: *mut RawKey) -> c_int;
    signal_modified_key = RedisModule_SignalModifiedKey(ctx: *mut RawCtx, name: *mut RawString) -> c_int;
    notify_keyspace_event = RedisModule_NotifyKeyspaceEvent(ctx: *mut RawCtx, class: c_int, event: *const c_char, key: *mut RawString) -> c_int;
    create_data_type = RedisModule_CreateDataType(ctx: *mut RawCtx, name: *const c_char, encver: c_int, methods: *mut raw::RedisModuleTypeMethods) -> *mut RawType;
    module_type_get_type = RedisModule_ModuleTypeGetType(key: *mut RawKey) -> *mut RawType;
    module_type_get_value = RedisModule_ModuleTypeGetValue(key: *mut RawKey) -> *mut c_void;
    module_type_set_value = RedisModule_ModuleTypeSetValue(key: *mut RawKey, of: *mut RawType, value: *mut c_void) -> c_int;
    get_key_name_from_opt_ctx = RedisModule_GetKeyNameFromOptCtx(ctx: *mut RawOptCtx) -> *const RawString;
    get_db_id_from_opt_ctx = RedisModule_GetDbIdFromOptCtx(ctx: *mut RawOptCtx) -> c_int;

    call_reply_type = RedisModule_CallReplyType(reply: *mut RawReply) -> c_int;
    call_reply_array_element = RedisModule_CallReplyArrayElement(reply: *mut RawReply, index: usize) -> *mut RawReply;
    call_reply_integer = RedisModule_CallReplyInteger(reply: *mut RawReply) -> c_longlong;

    get_server_info = RedisModule_GetServerInfo(ctx: *mut RawCtx, section: *const c_char) -> *mut RawServerInfo;
    server_info_get_field_c = RedisModule_ServerInfoGetFieldC(data: *mut RawServerInfo, field: *const c_char) -> *const c_char;
    free_server_info = RedisModule_FreeServerInfo(ctx: *mut RawCtx, data: *mut RawServerInfo);

    replicate_verbatim = RedisModule_ReplicateVerbatim(ctx: *mut RawCtx) -> c_int;

    get_key_name_from_io = RedisModule_GetKeyNameFromIO(io: *mut RawIo) -> *const RawString;
    get_db_id_from_io = RedisModule_GetDbIdFromIO(io: *mut RawIo) -> c_int;
    save_string_buffer = RedisModule_SaveStringBuffer(io: *mut RawIo, buf: *const c_char, len: usize);
    load_string_buffer = RedisModule_LoadStringBuffer(io: *mut RawIo, len: *mut usize) -> *mut c_char;
    is_io_error = RedisModule_IsIOError(io: *mut RawIo) -> c_int;
    digest_add_string_buffer = RedisModule_DigestAddStringBuffer(digest: *mut RawDigest, buf: *const c_char, len: usize);
    digest_end_sequence = RedisModule_DigestEndSequence(digest: *mut RawDigest);

    // Called directly: those with any number of arguments, and those with eight and more.
    ; direct RedisModule_Log, RedisModule_Replicate, RedisModule_EmitAOF, RedisModule_Call, RedisModule_RegisterNumericConfig, RedisModule_RegisterBoolConfig, RedisModule_BlockClientOnKeys
}

/// Declares that Valkey 9's atomic slot migration can move this module's data; otherwise it is refused. The data is sent as the commands of
/// an AOF rewrite followed by effects, so nothing more is needed. Other servers ignore the bit.
pub const OPTION_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
