//! Tells the server about a command: its name, what it does to its keys, and its documentation.
//!
//! With this, the server itself checks arity, routes in a cluster, applies ACL rules to the right keys, and answers `COMMAND
//! DOCS`, from which redis-cli takes its hints.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use redis_module::raw;

use super::api::{self, RawCtx, RawString};
use super::args;
use super::compat;
use super::ctx::{Ctx, c_text};
use super::entry::{self, Run};

/// A command of the module.
pub trait Command: Run {
    /// What the server is told of it.
    const SPEC: Spec;
}

/// Everything the server wants to know of a command.
pub struct Spec {
    /// The name that clients send.
    pub name: &'static CStr,
    /// The server's flags, separated by blanks.
    pub flags: &'static CStr,
    /// The ACL categories, separated by blanks.
    pub acl: &'static CStr,
    /// How many words a call has, its name included; negative for "at least".
    pub arity: i32,
    /// One line for a person.
    pub summary: &'static CStr,
    /// The cost in big-O notation.
    pub complexity: &'static CStr,
    /// Hints for clients that send a command to several nodes; null-like empty for none.
    pub tips: &'static CStr,
    /// Where the keys are.
    pub keys: Keys,
    /// The arguments in order.
    pub args: &'static [Arg],
}

/// How the structures below are laid out, for servers that know longer ones. The header defines this too, but only in C.
static LAYOUT: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// The version of lockstock that first had the commands.
const SINCE: &CStr = c"0.1.0";

/// Where a command's keys are, and what it does to them.
#[derive(Clone, Copy)]
pub enum Keys {
    /// One key, the first argument.
    First(KeyUse),
    /// One key, the first argument, and another one behind the word, which is changed later on.
    FirstAndBehind(KeyUse, &'static CStr),
    /// As many as the argument at this position (counted from the command's name) says, right behind it.
    Counted(i32, KeyUse),
}

/// What a command does to a key.
#[derive(Clone, Copy)]
pub enum KeyUse {
    /// Reads it.
    Read,
    /// Changes what it holds, may create it, and tells something of what it held.
    Update,
    /// Creates it.
    Insert,
    /// Takes from what it holds, and may delete it.
    Delete,
}

/// An argument, as `COMMAND DOCS` shows it.
#[derive(Clone, Copy)]
pub struct Arg {
    name: &'static CStr,
    token: Option<&'static CStr>,
    kind: Kind,
    flags: u32,
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
}

impl Arg {
    const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self { name, token: None, kind, flags: raw::REDISMODULE_CMD_ARG_NONE }
    }

    /// The key.
    pub const fn key() -> Self {
        Self::new(c"key", Kind::Key)
    }

    /// The key behind a word, which is the second one the command has.
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

    /// A word that stands for itself.
    pub const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self { token: Some(token), ..Self::new(name, Kind::Token) }
    }

    /// One of several.
    pub const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, Kind::OneOf(choices))
    }

    /// The same argument behind the word `token`.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The same argument, which may be left out.
    pub const fn optional(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL, ..self }
    }

    /// The same argument, any number of times.
    pub const fn multiple(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE, ..self }
    }
}

/// Registers the command `C`; false when the server refused.
pub fn register<C: Command>(ctx: Ctx<'_>) -> bool {
    let spec = &C::SPEC;
    let mut args = Args::default();
    let args = args.build(spec.args);
    let mut keys = [spec.keys.describe(), spec.keys.describe_other(), no_keys()];
    let info = raw::RedisModuleCommandInfo {
        version: &raw const LAYOUT,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: SINCE.as_ptr(),
        history: ptr::null_mut(),
        tips: if spec.tips.is_empty() { ptr::null() } else { spec.tips.as_ptr() },
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args,
    };
    let name = spec.name.as_ptr();
    let (run, flags): (raw::RedisModuleCmdFunc, CString) = match spec.keys {
        Keys::First(_) => (Some(entry::command::<C>), spec.flags.into()),
        // Routing in a cluster looks at the specification of keys from Redis 8.2 on; before, and on Valkey, it asks the command.
        Keys::Counted(..) => (Some(counted::<C>), c_text(&format!("{} getkeys-api", spec.flags.to_string_lossy()))),
    };
    // SAFETY: the context is valid. All texts are constants; the server copies them and both arrays, which end with an
    // empty entry as it expects and live until it has done so.
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

/// The function that the server calls for a command with a number of keys: to run it, or to be told where its keys are.
unsafe extern "C" fn counted<C: Command>(ctx: *mut RawCtx, words: *mut *mut RawString, count: c_int) -> c_int {
    // SAFETY: the server's own call, passed on; the context is valid.
    unsafe {
        if api::is_keys_position_request(ctx) == 0 {
            return entry::command::<C>(ctx, words, count);
        }
    }
    if let Keys::Counted(position, key_use) = C::SPEC.keys {
        // SAFETY: the words live until this function returns.
        let mut args = unsafe { args::Args::new(words, count) };
        let before = usize::try_from(position).unwrap_or_default().saturating_sub(1);
        let keys = args.skip(before).and_then(|()| args.counted("numkeys")).unwrap_or_default();
        for (at, _) in (position.saturating_add(1)..count).zip(keys) {
            // SAFETY: the context is that of a request for positions, and the word at this position exists.
            unsafe { api::key_at_pos_with_flags(ctx, at, c_int::try_from(key_use.flags()).unwrap_or_default()) };
        }
    }
    api::OK
}

/// The server's form of the arguments, kept alive while the server reads it.
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
            },
            key_spec_index: match arg.kind {
                Kind::Key => 0,
                Kind::OtherKey => 1,
                _ => -1,
            },
            token: arg.token.map_or(ptr::null(), CStr::as_ptr),
            summary: ptr::null(),
            since: ptr::null(),
            flags: c_int::try_from(arg.flags).unwrap_or_default(),
            deprecated_since: ptr::null(),
            subargs: match arg.kind {
                Kind::OneOf(choices) => self.build(choices),
                _ => ptr::null_mut(),
            },
            display_text: ptr::null(),
        }
    }
}

impl KeyUse {
    /// The server's flags.
    fn flags(self) -> u32 {
        match self {
            Self::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Self::Update => {
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
            }
            Self::Insert => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
            Self::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        }
    }
}

impl Keys {
    /// The key behind a word; the empty entry if there is none.
    fn describe_other(self) -> raw::RedisModuleCommandKeySpec {
        let Self::FirstAndBehind(_, word) = self else { return no_keys() };
        raw::RedisModuleCommandKeySpec {
            flags: u64::from(KeyUse::Insert.flags()),
            begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD,
            bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
                keyword: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_2 {
                    keyword: word.as_ptr(),
                    // Behind the name, the key and the total.
                    startfrom: 3,
                },
            },
            ..one_key()
        }
    }

    fn describe(self) -> raw::RedisModuleCommandKeySpec {
        let (Self::First(key_use) | Self::FirstAndBehind(key_use, _) | Self::Counted(_, key_use)) = self;
        let flags = u64::from(key_use.flags());
        match self {
            Self::First(_) | Self::FirstAndBehind(..) => raw::RedisModuleCommandKeySpec {
                flags,
                begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
                bs: begin_at(1),
                ..one_key()
            },
            Self::Counted(position, _) => raw::RedisModuleCommandKeySpec {
                flags,
                begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
                bs: begin_at(position),
                find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM,
                fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
                    keynum: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
                        keynumidx: 0,
                        firstkey: 1,
                        keystep: 1,
                    },
                },
                ..no_keys()
            },
        }
    }
}

/// A specification of one key that is still to be found.
fn one_key() -> raw::RedisModuleCommandKeySpec {
    raw::RedisModuleCommandKeySpec {
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 { lastkey: 0, keystep: 1, limit: 0 },
        },
        ..no_keys()
    }
}

fn begin_at(pos: c_int) -> raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
    raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
        index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos },
    }
}

/// The empty entry that ends a list of key specifications.
fn no_keys() -> raw::RedisModuleCommandKeySpec {
    raw::RedisModuleCommandKeySpec {
        notes: ptr::null(),
        flags: 0,
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INVALID,
        bs: begin_at(0),
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_OMITTED,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 { lastkey: 0, keystep: 1, limit: 0 },
        },
    }
}
