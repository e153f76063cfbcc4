//! Servers that look for the keys of a command on an I/O thread, before the command runs.
//!
//! Redis 8.6 does so, and Valkey 8.1 and 9.1 in a cluster, if `io-threads` is above 1. To ask a module's command for its keys, they make and
//! free a context on this thread. This runs work that belongs to the main thread, and crashes the server. So on these servers no command may
//! be asked. They find what they can by the specifications of a command, and the command checks the rest itself.

use std::sync::OnceLock;

use super::ctx::Ctx;
use super::server_facts;

/// How the server finds the keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySearch {
    /// It may ask the command.
    Asking,
    /// By all specifications of the command (Redis since 8.2).
    Specs,
    /// For the cluster by the first specification, if it is a fixed position; for ACLs by all (Valkey).
    FirstSpec,
}

static SEARCH: OnceLock<KeySearch> = OnceLock::new();

/// Finds out how this server may find keys. Called once, at load, before the commands are registered.
pub fn learn(ctx: &mut Ctx<'_>) {
    let has_threads = server_facts::setting(ctx, c"io-threads").is_none_or(|number| number != "1");
    let search = if !has_threads {
        KeySearch::Asking
    } else if server_facts::is_valkey() {
        if ctx.flags().is_cluster() { KeySearch::FirstSpec } else { KeySearch::Asking }
    } else if server_facts::of_info(c"server", c"redis_version").is_some_and(|version| uses_specs(&version)) {
        KeySearch::Specs
    } else {
        KeySearch::Asking
    };
    SEARCH.get_or_init(|| search);
}

/// Whether this version of Redis finds the keys of every command by its specifications.
fn uses_specs(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(8), Some(2))
}

/// How this server finds keys.
pub fn search() -> KeySearch {
    SEARCH.get().copied().unwrap_or(KeySearch::Asking)
}

#[cfg(test)]
mod tests {
    use super::uses_specs;

    #[test]
    fn redis_uses_specifications_since_8_2() {
        assert_eq!(["7.0.15", "7.4.1", "8.0.2", ""].map(uses_specs), [false; 4]);
        assert_eq!(["8.2.0", "8.6.3", "8.10.0", "9.0.0"].map(uses_specs), [true; 4]);
    }
}
