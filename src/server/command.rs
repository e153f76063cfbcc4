//! The form of a command of the module: its description, and the function that runs it.

use std::ffi::{CStr, c_int};
use std::fmt;

use redis_module::raw;

use super::args::Args;
use super::ctx::Ctx;
use super::keyspec::Keys;

/// A command. It replies exactly once, or returns an error, which becomes the reply.
pub trait Command {
    /// Its description for the server.
    const SPEC: Spec;

    /// Carries out one call by a client, a script, the primary or the AOF; `args` are the arguments after the command's name.
    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), impl fmt::Display>;
}

/// The description of a command for the server.
pub struct Spec {
    /// The name that clients send.
    pub name: &'static CStr,
    /// The server's flags, separated by spaces. The ACL categories follow from them.
    pub flags: &'static CStr,
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
    pub args: &'static [Param],
}

/// A parameter, as `COMMAND DOCS` shows it.
#[derive(Clone, Copy)]
pub struct Param {
    pub(super) name: &'static CStr,
    pub(super) token: Option<&'static CStr>,
    pub(super) kind: raw::RedisModuleCommandArgType,
    /// Which of the command's keys it is; −1 if it is none.
    pub(super) key: c_int,
    pub(super) members: &'static [Self],
    pub(super) flags: u32,
    pub(super) since: Option<&'static CStr>,
}

impl Param {
    const fn new(name: &'static CStr, kind: raw::RedisModuleCommandArgType) -> Self {
        Self { name, token: None, kind, key: -1, members: &[], flags: raw::REDISMODULE_CMD_ARG_NONE, since: None }
    }

    /// The key.
    pub const fn key() -> Self {
        Self { key: 0, ..Self::new(c"key", raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY) }
    }

    /// The key after a word, which is the command's second key.
    pub const fn other_key(name: &'static CStr) -> Self {
        Self { name, key: 1, ..Self::key() }
    }

    /// A string.
    pub const fn string(name: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING)
    }

    /// An integer.
    pub const fn integer(name: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
    }

    /// A time since the epoch.
    pub const fn unix_time(name: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME)
    }

    /// A fixed word.
    pub const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self { token: Some(token), ..Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN) }
    }

    /// One of several choices.
    pub const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self { members: choices, ..Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF) }
    }

    /// Several parameters that belong together.
    pub const fn group(name: &'static CStr, members: &'static [Self]) -> Self {
        Self { members, ..Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK) }
    }

    /// The same parameter, preceded by the word `token`.
    pub const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The same parameter, made optional.
    pub const fn optional(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_OPTIONAL, ..self }
    }

    /// The same parameter, which is newer than its command: `version` introduced it.
    pub const fn since(self, version: &'static CStr) -> Self {
        Self { since: Some(version), ..self }
    }

    /// The same parameter, repeatable.
    pub const fn multiple(self) -> Self {
        Self { flags: self.flags | raw::REDISMODULE_CMD_ARG_MULTIPLE, ..self }
    }
}
