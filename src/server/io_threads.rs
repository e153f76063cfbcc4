//! Servers that look for the keys of a command on an I/O thread, before the command runs.
//!
//! Redis 8.6 does so, and Valkey 8.1 and 9.1 in a cluster, if `io-threads` is above 1. To ask a module's command for its keys, they make and
//! free a context on this thread. This runs work that belongs to the main thread, and crashes the server. So on these servers no command may
//! be asked. They find what they can by the specifications of a command, and the command checks the rest itself.
//!
//! How the keys of a command are found is fixed when the command is registered. A node of Valkey 9 may get I/O threads later, so it never asks.

use std::sync::OnceLock;

use super::ctx::Ctx;
use super::server_facts;

/// How the server finds the keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySearch {
    /// It may ask the command.
    Asking,
    /// By all specifications of the command; in calls by scripts and modules, by the first one only, like Valkey. (Redis since 8.2)
    Specs,
    /// For the cluster by the first specification, if it is a fixed position; for ACLs by all. (Valkey)
    FirstSpec,
}

static SEARCH: OnceLock<KeySearch> = OnceLock::new();

/// Finds out how this server may find keys. Called once, at load, before the commands are registered.
pub fn learn(ctx: &mut Ctx<'_>) {
    let has_threads = server_facts::setting(ctx, c"io-threads").is_none_or(|number| number != "1");
    let is_since =
        |field, first| server_facts::of_info(c"server", field).is_some_and(|version| is_since(&version, first));
    let search = if server_facts::is_valkey() {
        let may_have_threads = has_threads || is_since(c"valkey_version", (9, 0));
        if ctx.flags().is_cluster() && may_have_threads { KeySearch::FirstSpec } else { KeySearch::Asking }
    } else if has_threads && is_since(c"redis_version", (8, 2)) {
        KeySearch::Specs
    } else {
        KeySearch::Asking
    };
    SEARCH.get_or_init(|| search);
}

/// Whether a version is `first` or a later one.
fn is_since(version: &str, first: (u32, u32)) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) >= first)
}

/// How this server finds keys.
pub fn search() -> KeySearch {
    SEARCH.get().copied().unwrap_or(KeySearch::Asking)
}

#[cfg(test)]
mod tests {
    use super::is_since;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(
            ["7.0.15", "8.0.2", "8.10", "8.2.0", "8.10.0", "9.0.0"].map(|version| is_since(version, (8, 2))),
            [false, false, true, true, true, true]
        );
        assert_eq!(["", "8", "unstable"].map(|version| is_since(version, (8, 0))), [false; 3]);
    }
}
