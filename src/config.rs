//! The settings of the module, with their ranges and effects.

use std::ffi::CStr;

use crate::core::limits::MAX_EXACT;
use crate::core::lock;
use crate::core::time::Millis;
use crate::server::args::Range;
use crate::server::ctx::Ctx;
use crate::server::settings::{self, Setting};

/// `lockstock.default-lease-ms`: the lease of a request that names none.
///
/// If it is too short, work takes longer than its lease; if it is too long, a crashed holder keeps all waiters waiting.
pub static DEFAULT_LEASE_MS: Setting = Setting::number(c"default-lease-ms", Range::up_to(MAX_EXACT), 30_000);

/// `lockstock.max-waiters`: how many requests may wait for locks at the same time.
///
/// Each waiter without `NOTIFY` is a connection, so `maxclients` limits them, too; this setting reserves some connections for other clients.
pub static MAX_WAITERS: Setting = Setting::number(c"max-waiters", Range::below(MAX_EXACT), 100_000);

/// `lockstock.max-keys`: the most keys in one `LOCK.MACQUIRE`, and the most sales in one `STOCK.MDECR_ONCE`, `STOCK.MCONFIRM` or
/// `STOCK.MCANCEL`.
///
/// When one of these locks becomes free, the command that freed it pays for a check of all of them. A request to many sales is one step,
/// during which no other client is served.
pub static MAX_KEYS: Setting = Setting::number(c"max-keys", Range::new(1..=1_000_000), 1_000);

/// `lockstock.place-grace-ms`: how long the place in line of a waiter is kept whose connection has ended; 0: not at all.
///
/// It should be longer than clients need to connect and ask again.
pub static PLACE_GRACE_MS: Setting = Setting::number(c"place-grace-ms", Range::new(0..=3_600_000), 1_000);

/// `lockstock.accept-effects`: whether `LOCK.APPLY` and `STOCK.APPLY` are accepted from any client.
///
/// It is meant for tools that copy a server by sending its commands. Every client with permission for these two commands can then create
/// holds and orders out of nothing.
pub static ACCEPT_EFFECTS: Setting = Setting::switch(c"accept-effects", false);

/// `lockstock.detect-deadlocks`: whether a request that would close a circle of waiting tokens gets an error instead of waiting.
///
/// Without it such tokens wait for each other until a lease or a time limit ends. A second holder that waits to become exclusive gets the
/// error in any case.
pub static DETECT_DEADLOCKS: Setting = Setting::switch(c"detect-deadlocks", true);

/// `lockstock.replicate-commands`: whether commands whose words are what came of them are sent to replicas and files as they are.
///
/// It is cheaper than to make an effect. Lockstock 0.1, and a tool that sends commands to another server as a client, would decide on such
/// a command again.
pub static REPLICATE_COMMANDS: Setting = Setting::switch(c"replicate-commands", true);

/// All of them, in the order of redis.conf.example.
static ALL: [&Setting; 7] = [
    &DEFAULT_LEASE_MS,
    &MAX_WAITERS,
    &MAX_KEYS,
    &PLACE_GRACE_MS,
    &DETECT_DEADLOCKS,
    &ACCEPT_EFFECTS,
    &REPLICATE_COMMANDS,
];

/// The lease of a request that names none.
pub fn default_lease() -> Millis {
    Millis(DEFAULT_LEASE_MS.get())
}

/// The settings of the lock engine.
pub fn for_locks() -> lock::Settings {
    lock::Settings {
        detects_deadlocks: DETECT_DEADLOCKS.is_yes(),
        most_waiting: usize::try_from(MAX_WAITERS.get()).unwrap_or(usize::MAX),
        place_grace: Millis(PLACE_GRACE_MS.get()),
    }
}

/// The most keys of one request.
pub fn max_keys() -> u64 {
    MAX_KEYS.get().unsigned_abs()
}

/// Reads the words after `loadmodule`, registers the settings with the server, and loads their values from redis.conf. The error is a line
/// for the log, and then the module does not load: a server that does not start is better than one with a setting that the operator did not
/// mean.
pub fn load(ctx: &Ctx<'_>, words: &[&[u8]]) -> Result<(), String> {
    read(words)?;
    for setting in ALL {
        if !settings::register(ctx, setting) {
            return Err(format!("the server refused the setting {}", text(setting.name)));
        }
    }
    if settings::load(ctx) { Ok(()) } else { Err("a lockstock.* setting of the configuration is refused".into()) }
}

/// The value and the range of each setting.
#[cfg(any(test, fuzzing))]
pub fn values() -> Vec<(i64, Range)> {
    ALL.iter().map(|setting| (setting.get(), setting.range)).collect()
}

/// Sets the settings in `words`.
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
    let setting = ALL
        .iter()
        .find(|setting| setting.name.to_bytes().eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("'{}' behind loadmodule is no setting of lockstock", name.escape_ascii()))?;
    let number = match value {
        yes if setting.is_switch && yes.eq_ignore_ascii_case(b"yes") => Some(1),
        no if setting.is_switch && no.eq_ignore_ascii_case(b"no") => Some(0),
        _ if setting.is_switch => None,
        number => std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()),
    };
    if number.is_some_and(|number| setting.set(number)) {
        return Ok(());
    }
    let Range { min, max } = setting.range;
    let wanted = if setting.is_switch { "yes or no".into() } else { format!("an integer from {min} to {max}") };
    Err(format!("{} must be {wanted}, not '{}'", text(setting.name), value.escape_ascii()))
}

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}
