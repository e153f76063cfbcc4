//! The positions of a command's keys, in the server's two forms: as a specification, or per call.

use std::ffi::{CStr, c_int};
use std::{iter, ptr};

use redis_module::raw::{self, RedisModuleCommandKeySpec as RawKeySpec};

use super::args::{Arg, ArgError, Args};
use super::delegate;

/// Where a command's keys are, and how it uses them.
#[derive(Clone, Copy)]
pub enum Keys {
    /// One key, the first argument.
    First(KeyUse),
    /// One key, the first argument, and another key after the word, which later commands change.
    FirstAndBehind(KeyUse, &'static CStr),
    /// Groups of this many arguments, each of which begins with a key. Their number is the argument at this position (counted from the
    /// command's name), right before them.
    Counted(i32, usize, KeyUse),
    /// One key, the first argument, and the keys of another command: the arguments that are left when this function has taken the others.
    FirstAndDelegated(KeyUse, fn(&mut Args<'_>) -> Result<(), ArgError>),
}

/// How a command uses a key.
#[derive(Clone, Copy)]
pub enum KeyUse {
    /// Reads it.
    Read,
    /// Changes its content, may create it, and returns something about the old content.
    Update,
    /// Creates it.
    Insert,
    /// Removes from its content, and may delete it.
    Delete,
}

/// Where the options begin in a command with a key after a word: after the name, the key and one more argument.
const OPTIONS: c_int = 3;

impl Keys {
    /// Whether the only key is the first argument. Otherwise servers that may do so ask the command for the keys of each call: cluster routing
    /// uses specifications only since Redis 8.2; older versions, and Valkey, can use no more than one range.
    pub(super) fn is_first_only(self) -> bool {
        matches!(self, Self::First(_))
    }

    /// Whether each key has arguments of its own behind it. Valkey 8.1 finds only half of such keys by a specification.
    pub(super) fn is_by_steps(self) -> bool {
        matches!(self, Self::Counted(_, each, _) if each > 1)
    }

    /// The positions of the keys in a call with these words, counted from the command's name.
    pub(super) fn positions(self, mut args: Args<'_>, count: c_int) -> Vec<(c_int, c_int)> {
        match self {
            Self::First(key_use) => vec![(1, key_use.flags_of_position())],
            Self::FirstAndBehind(key_use, word) => {
                let mut words = (1..count).zip(iter::from_fn(|| args.next().ok()));
                let is_word = |found: &Arg<'_>| found.bytes().eq_ignore_ascii_case(word.to_bytes());
                let at = words.find(|(at, found)| *at >= OPTIONS && is_word(found)).and_then(|_| words.next());
                let behind = at.map(|(at, _)| (at, KeyUse::Insert.flags_of_position()));
                [(1, key_use.flags_of_position())].into_iter().chain(behind).collect()
            }
            Self::Counted(position, each, key_use) => {
                let before = usize::try_from(position).unwrap_or_default().saturating_sub(1);
                let groups = args.skip(before).and_then(|()| args.count("numkeys", u64::MAX, each)).unwrap_or_default();
                let flags = key_use.flags_of_position();
                (position.saturating_add(1)..count).step_by(each).zip(0..groups).map(|(at, _)| (at, flags)).collect()
            }
            Self::FirstAndDelegated(key_use, take_own) => {
                let keys = take_own(&mut args).map(|()| delegate::keys(&args)).unwrap_or_default();
                let before = count.saturating_sub(args.len().try_into().unwrap_or(c_int::MAX));
                let keys = keys.into_iter().map(|(at, flags)| (at.saturating_add(before), flags));
                [(1, key_use.flags_of_position())].into_iter().chain(keys).collect()
            }
        }
    }

    /// At most two specifications for the server, and the empty entry that ends the list; `by_asking`: the server may also ask the command.
    pub(super) fn describe(self, by_asking: bool) -> [RawKeySpec; 3] {
        match self {
            Self::First(key_use) => [key_at(1, key_use), no_keys(), no_keys()],
            Self::FirstAndBehind(key_use, word) => [key_at(1, key_use), key_behind(word), no_keys()],
            // If one specification is incomplete, a server that may not ask finds no key at all.
            Self::FirstAndDelegated(key_use, _) => {
                [key_at(1, key_use), if by_asking { keys_of_another_command() } else { no_keys() }, no_keys()]
            }
            Self::Counted(position, each, key_use) => {
                let counted = counted_keys(position, each, key_use, by_asking);
                if by_asking {
                    [counted, no_keys(), no_keys()]
                } else {
                    // Of a call by a script or a module, these servers find only keys at fixed positions.
                    [key_at(position.saturating_add(1), key_use), counted, no_keys()]
                }
            }
        }
    }
}

impl KeyUse {
    /// The server's flags.
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Self::Update => {
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
            }
            Self::Insert => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
            Self::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        }
    }

    /// These flags, as the server takes them with the position of a key.
    fn flags_of_position(self) -> c_int {
        self.flags().try_into().unwrap_or_default()
    }
}

/// One key, at this position.
fn key_at(position: c_int, key_use: KeyUse) -> RawKeySpec {
    RawKeySpec {
        flags: key_use.flags().into(),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        bs: begin_at(position),
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        ..no_keys()
    }
}

fn key_behind(word: &'static CStr) -> RawKeySpec {
    RawKeySpec {
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD,
        bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
            keyword: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_2 {
                keyword: word.as_ptr(),
                startfrom: OPTIONS,
            },
        },
        ..key_at(0, KeyUse::Insert)
    }
}

fn counted_keys(position: c_int, each: usize, key_use: KeyUse, by_asking: bool) -> RawKeySpec {
    // Redis 7.0 finds only half of the keys by a specification with steps. With this flag servers ask the command instead.
    let by_asking = if each > 1 && by_asking { raw::REDISMODULE_CMD_KEY_VARIABLE_FLAGS } else { 0 };
    RawKeySpec {
        flags: (key_use.flags() | by_asking).into(),
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            keynum: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
                keynumidx: 0,
                firstkey: 1,
                keystep: c_int::try_from(each).unwrap_or(1),
            },
        },
        ..key_at(position, key_use)
    }
}

fn begin_at(pos: c_int) -> raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
    raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
        index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos },
    }
}

/// Keys that no specification finds: servers and clients ask the command for them.
fn keys_of_another_command() -> RawKeySpec {
    let by_asking = raw::REDISMODULE_CMD_KEY_INCOMPLETE | raw::REDISMODULE_CMD_KEY_VARIABLE_FLAGS;
    RawKeySpec {
        notes: c"The keys of the guarded command, used as it uses them.".as_ptr(),
        flags: (KeyUse::Update.flags() | by_asking).into(),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_UNKNOWN,
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_UNKNOWN,
        ..no_keys()
    }
}

/// The empty entry that ends a list of key specifications.
fn no_keys() -> RawKeySpec {
    RawKeySpec {
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
