//! The settings: what the operator may choose, within which limits, and what follows.

use std::ffi::CStr;

use crate::core::time::Millis;
use crate::server::args::Range;
use crate::server::ctx::Ctx;
use crate::server::settings::{self, Setting, Switch};

/// `lockstock.default-lease-ms`: the lease of a hold whose owner named none.
///
/// Too short, and work outlives its lease; too long, and a crashed holder keeps everybody waiting.
pub static DEFAULT_LEASE_MS: Setting = Setting::new(c"default-lease-ms", Range::new(1..=9_007_199_254_740_991), 30_000);

/// `lockstock.max-waiters`: how many requests may wait for locks at one time.
///
/// Each is a connection, so `maxclients` bounds them, too; this keeps some of those for everybody else.
pub static MAX_WAITERS: Setting = Setting::new(c"max-waiters", Range::new(0..=9_007_199_254_740_991), 100_000);

/// `lockstock.max-keys`: how many keys one `LOCK.MACQUIRE` may name.
///
/// Whoever frees one of the keys that a request waits for pays for a look at all of them.
pub static MAX_KEYS: Setting = Setting::new(c"max-keys", Range::new(1..=1_000_000), 1_000);

/// `lockstock.accept-effects`: whether `LOCK.APPLY` and `STOCK.APPLY` are taken from anybody.
///
/// For tools that copy a server by sending its commands. Whoever may run these two can then make holds and orders out of nothing.
pub static ACCEPT_EFFECTS: Switch = Switch::new(c"accept-effects", false);

/// Every number, in the order of redis.conf.example.
static ALL: [&Setting; 3] = [&DEFAULT_LEASE_MS, &MAX_WAITERS, &MAX_KEYS];

/// The lease of a hold whose owner named none.
pub fn default_lease() -> Millis {
    Millis(DEFAULT_LEASE_MS.get())
}

/// How many requests may wait at one time.
pub fn max_waiters() -> usize {
    usize::try_from(MAX_WAITERS.get()).unwrap_or(usize::MAX)
}

/// The most keys of one `LOCK.MACQUIRE`.
pub fn max_keys() -> u64 {
    MAX_KEYS.get().unsigned_abs()
}

/// Reads the words behind `loadmodule`, makes the settings known to the server and takes what redis.conf says. The error is a
/// line for the log, and the module does not load: a setting that is not what the operator meant is worse than a server
/// that does not start.
pub fn load(ctx: &Ctx<'_>, words: &[&[u8]]) -> Result<(), String> {
    read(words)?;
    for setting in ALL {
        if !settings::register(ctx, setting) {
            return Err(format!("the server refused the setting {}", text(setting.name)));
        }
    }
    if !settings::register_switch(ctx, &ACCEPT_EFFECTS) {
        return Err(format!("the server refused the setting {}", text(ACCEPT_EFFECTS.name)));
    }
    if settings::load(ctx) { Ok(()) } else { Err("a lockstock.* setting of the configuration is refused".into()) }
}

/// What each setting is, and may be.
#[cfg(any(test, fuzzing))]
pub fn values() -> Vec<(i64, Range)> {
    ALL.iter().map(|setting| (setting.get(), setting.range)).collect()
}

/// Takes the settings that `words` name.
pub fn read(words: &[&[u8]]) -> Result<(), String> {
    let mut pairs = words.chunks_exact(2);
    for pair in pairs.by_ref() {
        if let [name, value] = pair {
            set(name, value)?;
        }
    }
    match pairs.remainder() {
        [name, ..] => Err(format!("'{}' behind loadmodule has no value", name.escape_ascii())),
        [] => Ok(()),
    }
}

fn set(name: &[u8], value: &[u8]) -> Result<(), String> {
    if ACCEPT_EFFECTS.name.to_bytes().eq_ignore_ascii_case(name) {
        let choice =
            [(&b"yes"[..], true), (b"no", false)].into_iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
        let (_, choice) = choice.ok_or_else(|| {
            format!("{} must be yes or no, not '{}'", text(ACCEPT_EFFECTS.name), value.escape_ascii())
        })?;
        ACCEPT_EFFECTS.set(choice);
        return Ok(());
    }
    let setting = ALL
        .iter()
        .find(|setting| setting.name.to_bytes().eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("'{}' behind loadmodule is no setting of lockstock", name.escape_ascii()))?;
    let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
    if number.is_some_and(|number| setting.set(number)) {
        return Ok(());
    }
    let Range { min, max } = setting.range;
    Err(format!("{} must be an integer from {min} to {max}, not '{}'", text(setting.name), value.escape_ascii()))
}

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}
