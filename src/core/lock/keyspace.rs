//! The keyspace as the lock engine sees it.

use super::hold::Hold;
use super::terms::{EndReason, Mode, Notice, WaitResult, WaiterId};
use super::value::Lock;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::time::Millis;

/// The content of a key.
#[derive(Debug)]
pub enum Found<'a> {
    /// Nothing.
    Nothing,
    /// A lock.
    Lock(&'a mut Lock),
    /// A value of another type.
    Foreign,
}

/// The keyspace as the engine needs it, and the engine's reports to it.
///
/// The calls of `held` and `ended` come in the order in which replicas must see them.
pub trait Keyspace {
    /// Looks at a key. May be asked for any key at any time.
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_>;
    /// Keeps `lock` under a key that held nothing.
    fn put(&mut self, at: KeyRef<'_>, lock: Lock);
    /// Deletes a key whose lock is free now. The engine needs no notice of this deletion.
    fn delete(&mut self, at: KeyRef<'_>);
    /// A hold began or changed: by grant, renewal, extension, upgrade or downgrade. `hold` is its new state.
    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold);
    /// The hold of `token` ended.
    fn ended(&mut self, at: KeyRef<'_>, token: Ident, why: EndReason);
    /// The lock at `at` was free for a moment and is held again, and its key stayed. Without a waiter the key would have been deleted in
    /// between, as it is on every replica, and an `EXPIRE` set on it would be gone. So that `EXPIRE` must be removed.
    fn clear_expire(&mut self, at: KeyRef<'_>);
    /// Blocks the client of the current request for at most `limit`, or without limit if that is zero; `false` if it cannot be blocked. The engine calls this before it changes anything for a
    /// waiter, and after `true` it always queues the request.
    fn block_client(&mut self, limit: Millis) -> bool;
    /// The waiter id of the client that was just blocked.
    fn client_blocked(&mut self, waiter: WaiterId);
    /// A blocked client gets its reply.
    fn answer(&mut self, waiter: WaiterId, answer: WaitResult);
    /// The outcome of a request whose client is not blocked is published.
    fn publish(&mut self, notice: Box<Notice>, outcome: WaitResult);
    /// Whether this node still serves the key. Asked before a grant to a waiter, unless the running command names the key.
    fn owns_slot(&mut self, at: KeyRef<'_>) -> bool;
    /// Whether this key, which the running command names, has moved to another node since the server checked it: by an earlier command of the
    /// same transaction.
    fn has_moved(&mut self, _: KeyRef<'_>) -> bool {
        false
    }
    /// Whether [`owns_slot`](Self::owns_slot), which has just returned `false`, would return `false` for every key.
    fn serves_nothing(&mut self) -> bool {
        false
    }
}
