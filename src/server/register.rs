//! Registers commands with the server: name, key use and documentation.
//!
//! With this the server itself checks arity, routes in a cluster, applies ACL rules to the right keys, and answers `COMMAND DOCS`, from
//! which redis-cli gets its hints.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use redis_module::raw;

use super::api;
use super::compat;
use super::ctx::{Ctx, c_text};
use super::entry::{self, Run};
use super::keyspec::{self, HasKeys, Keys, no_keys};

/// A command of the module.
pub trait Command: Run {
    /// Its description for the server.
    const SPEC: Spec;
}

impl<C: Command> HasKeys for C {
    const KEYS: Keys = C::SPEC.keys;
}

/// The description of a command for the server.
pub struct Spec {
    /// The name that clients send.
    pub name: &'static CStr,
    /// The server's flags, separated by spaces.
    pub flags: &'static CStr,
    /// The ACL categories, separated by spaces.
    pub acl: &'static CStr,
    /// The number of words in a call, including the name; negative for "at least".
    pub arity: i32,
    /// A summary of one line.
    pub summary: &'static CStr,
    /// The version of the module that introduced it.
    pub since: &'static CStr,
    /// The cost in big-O notation.
    pub complexity: &'static CStr,
    /// Hints for clients that send a command to several nodes; empty for none.
    pub tips: &'static CStr,
    /// Where the keys are.
    pub keys: Keys,
    /// The arguments in order.
    pub args: &'static [Arg],
}

/// The sizes of the structures below, for servers with longer ones. The header defines this too, but only in C.
static LAYOUT: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// An argument, as `COMMAND DOCS` shows it.
#[derive(Clone, Copy)]
pub struct Arg {
    name: &'static CStr,
    token: Option<&'static CStr>,
    kind: Kind,
    flags: u32,
    since: Option<&'static CStr>,
}

#[derive(Clone, Copy)]
enum Kind {
    Key,
    OtherKey,
    String,
    Integer,
    UnixTime,
    Token,
    OneOf(&'static [Arg]),
    Group(&'static [Arg]),
}

impl Arg {
    const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self { name, token: None, kind, flags: raw::REDISMODULE_CMD_ARG_NONE, since: None }
    }

    /// The key.
    pub const fn key() -> Self {
        Self::new(c"key", Kind::Key)
    }

    /// The key after a word, which is the command's second key.
    pub const fn other_key(name: &'static CStr) -> Self {
        Self::new(name, Kind::OtherKey)
    }

    /// A string.
    pub const fn string(name: &'static CStr) -> Self {
        Self::new(name, Kind::String)
    }

    /// An integer.
    pub const fn integer(name: &'static CStr) -> Self {
        Self::new(name, Kind::Integer)
    }

    /// A time since the epoch.
    pub const fn unix_time(name: &'static CStr) -> Self {
        Self::new(name, Kind::UnixTime)
    }

    /// A fixed word.
    pub const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self { token: Some(token), ..Self::new(name, Kind::Token) }
    }

    /// One of several choices.
    pub const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(choices))
    }

    /// Several arguments that belong together.
    pub const fn group(name: &'static CStr, members: &'static [Self]) -> Self {
        Self::new(name, Kind::Group(members))
    }

    /// The same argument, preceded by the word `token`.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The same argument, made optional.
    pub const fn optional(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL, ..self }
    }

    /// The same argument, which is newer than its command: `version` introduced it.
    pub const fn since(self, version: &'static CStr) -> Self {
        Self { since: Some(version), ..self }
    }

    /// The same argument, repeatable.
    pub const fn multiple(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE, ..self }
    }
}

/// Registers the command `C`; false if the server refused.
pub fn register<C: Command>(ctx: &Ctx<'_>) -> bool {
    let spec = &C::SPEC;
    let mut args = Args::default();
    let args = args.build(spec.args);
    let mut keys = [spec.keys.describe(), spec.keys.describe_other(), no_keys()];
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
    let (run, flags): (raw::RedisModuleCmdFunc, CString) = if spec.keys.must_be_asked_for() {
        (Some(keyspec::command::<C>), c_text(&format!("{} getkeys-api", spec.flags.to_string_lossy())))
    } else {
        (Some(entry::command::<C>), spec.flags.into())
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
            && compat::set_acl_categories(command, spec.acl)
    }
}

/// The arguments in the server's form, kept alive while the server reads them.
#[derive(Default)]
struct Args {
    arrays: Vec<Box<[raw::RedisModuleCommandArg]>>,
}

impl Args {
    fn build(&mut self, args: &[Arg]) -> *mut raw::RedisModuleCommandArg {
        let mut array: Vec<_> = args.iter().map(|arg| self.describe(arg)).collect();
        array.push(raw::RedisModuleCommandArg { name: ptr::null(), ..self.describe(&Arg::key()) });
        let mut array = array.into_boxed_slice();
        let first = array.as_mut_ptr();
        self.arrays.push(array);
        first
    }

    fn describe(&mut self, arg: &Arg) -> raw::RedisModuleCommandArg {
        raw::RedisModuleCommandArg {
            name: arg.name.as_ptr(),
            type_: match arg.kind {
                Kind::Key | Kind::OtherKey => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
                Kind::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
                Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
                Kind::UnixTime => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
                Kind::Token => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
                Kind::OneOf(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
                Kind::Group(_) => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
            },
            key_spec_index: match arg.kind {
                Kind::Key => 0,
                Kind::OtherKey => 1,
                _ => -1,
            },
            token: arg.token.map_or(ptr::null(), CStr::as_ptr),
            summary: ptr::null(),
            since: arg.since.map_or(ptr::null(), CStr::as_ptr),
            flags: c_int::try_from(arg.flags).unwrap_or_default(),
            deprecated_since: ptr::null(),
            subargs: match arg.kind {
                Kind::OneOf(args) | Kind::Group(args) => self.build(args),
                _ => ptr::null_mut(),
            },
            display_text: ptr::null(),
        }
    }
}
