//! What the engine needs of the keyspace, and what it tells it.

use super::terms::{Answer, ClientId, EndReason, Mode, WaiterId};
use super::value::{Hold, Lock};
use crate::core::id::Ident;
use crate::core::key::KeyRef;

/// What a key holds.
#[derive(Debug)]
pub enum Found<'a> {
    /// Nothing.
    Nothing,
    /// A lock.
    Lock(&'a mut Lock),
    /// A value of another type.
    Foreign,
}

/// What the engine needs of the keyspace, and what it tells it.
///
/// The order of the calls of `held` and `ended` is the order in which replicas must see them.
pub trait Keyspace {
    /// Looks at a key. May be asked for any key at any time.
    fn find(&mut self, at: KeyRef<'_>) -> Found<'_>;
    /// Keeps `lock` under a key that held nothing.
    fn put(&mut self, at: KeyRef<'_>, lock: Lock);
    /// Deletes a key whose lock is free now. The engine need not be told that it vanished.
    fn delete(&mut self, at: KeyRef<'_>);
    /// A hold began or changed, by grant, renewal, extension, upgrade or downgrade; this is what it is now.
    fn held(&mut self, at: KeyRef<'_>, mode: Mode, hold: Hold);
    /// The hold of `token` ended.
    fn ended(&mut self, at: KeyRef<'_>, token: Ident, why: EndReason);
    /// The lock at `at` was free for a moment and is held again, without having left its key. Were the key deleted in between, as it
    /// is where nobody waits and on every replica, then an `EXPIRE` that was set on it would be gone; so it has to go.
    fn clear_expire(&mut self, at: KeyRef<'_>);
    /// Blocks the client whose request this is, which has to wait; `false` where that cannot be. Asked before anything is changed for
    /// the sake of waiting. After a `true` the request is put in line, come what may.
    fn block_client(&mut self) -> bool;
    /// The client that was blocked just now waits under this id.
    fn client_blocked(&mut self, waiter: WaiterId);
    /// A parked client gets its reply.
    fn answer(&mut self, waiter: WaiterId, answer: Answer);
    /// Told before the grant of a waiter that has waited long: it should be found out whether `client` has something unsent, which its
    /// reply will be behind.
    fn look_first(&mut self, waiter: WaiterId, client: ClientId);
    /// Whether this node still serves the key. Asked only when work is done outside of a command.
    fn owns_slot(&mut self, at: KeyRef<'_>) -> bool;
    /// Whether what `may_grant` has just denied would be denied for every key.
    fn serves_nothing(&mut self) -> bool {
        false
    }
}
