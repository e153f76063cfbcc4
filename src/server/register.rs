//! Registers commands with the server: name, key use and documentation.
//!
//! With this the server itself checks arity, routes in a cluster, applies ACL rules to the right keys, and answers `COMMAND DOCS`, from
//! which redis-cli gets its hints.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use redis_module::raw;

use super::api;
use super::command::{Command, Param};
use super::compat;
use super::ctx::{Ctx, c_text};
use super::entry;
use super::io_threads::{self, KeySearch};

/// The sizes of the structures below, for servers with longer ones. The header defines this too, but only in C.
static LAYOUT: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Registers the command `C`; false if the server refused.
pub fn register<C: Command>(ctx: &Ctx<'_>) -> bool {
    let spec = &C::SPEC;
    let mut args = RawParams::default();
    let args = args.build(spec.args);
    let by_asking = io_threads::search() == KeySearch::Asking;
    let mut keys = spec.keys.describe(by_asking);
    let info = raw::RedisModuleCommandInfo {
        version: &raw const LAYOUT,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: ptr::null_mut(),
        tips: if spec.tips.is_empty() { ptr::null() } else { spec.tips.as_ptr() },
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args,
    };
    let name = spec.name.as_ptr();
    // The server asks the function for keys only if the flags say so.
    let (run, flags): (raw::RedisModuleCmdFunc, CString) = match (spec.keys.is_first_only(), by_asking) {
        (true, _) => (Some(entry::command::<C>), spec.flags.into()),
        (false, true) => {
            (Some(entry::command_with_keys::<C>), c_text(&format!("{} getkeys-api", spec.flags.to_string_lossy())))
        }
        (false, false) => (Some(entry::command_that_checks_keys::<C>), spec.flags.into()),
    };
    // SAFETY: the context is valid. All texts are constants; the server copies them and both arrays. The arrays end with an empty entry, as
    // the server expects, and live until it has copied them.
    unsafe {
        if api::create_command(ctx.raw(), name, run, flags.as_ptr(), 0, 0, 0) != api::OK {
            return false;
        }
        let command = api::get_command(ctx.raw(), name);
        !command.is_null()
            && api::set_command_info(command, &raw const info) == api::OK
            && compat::set_acl_categories(command, &acl_categories(spec.flags))
    }
}

/// The ACL categories of a command with these flags.
fn acl_categories(flags: &CStr) -> CString {
    let flags = flags.to_string_lossy();
    let of_flag = |flag| match flag {
        "readonly" => "read",
        "admin" => "admin dangerous",
        "deny-oom" => "",
        same => same,
    };
    let speed = if flags.contains("fast") { "" } else { "slow" };
    let all: Vec<&str> = flags.split(' ').map(of_flag).chain([speed]).filter(|category| !category.is_empty()).collect();
    c_text(&all.join(" "))
}

/// The parameters in the server's form, kept alive while the server reads them.
#[derive(Default)]
struct RawParams {
    arrays: Vec<Box<[raw::RedisModuleCommandArg]>>,
}

impl RawParams {
    fn build(&mut self, args: &[Param]) -> *mut raw::RedisModuleCommandArg {
        let mut array: Vec<_> = args.iter().map(|arg| self.describe(arg)).collect();
        array.push(raw::RedisModuleCommandArg { name: ptr::null(), ..self.describe(&Param::key()) });
        let mut array = array.into_boxed_slice();
        let first = array.as_mut_ptr();
        self.arrays.push(array);
        first
    }

    fn describe(&mut self, arg: &Param) -> raw::RedisModuleCommandArg {
        raw::RedisModuleCommandArg {
            name: arg.name.as_ptr(),
            type_: arg.kind,
            key_spec_index: arg.key,
            token: arg.token.map_or(ptr::null(), CStr::as_ptr),
            summary: ptr::null(),
            since: arg.since.map_or(ptr::null(), CStr::as_ptr),
            flags: c_int::try_from(arg.flags).unwrap_or_default(),
            deprecated_since: ptr::null(),
            subargs: if arg.members.is_empty() { ptr::null_mut() } else { self.build(arg.members) },
            display_text: ptr::null(),
        }
    }
}
