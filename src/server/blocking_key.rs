//! The key that the clients are blocked on which wait for a lock.
//!
//! It is not the lock's own key. When a key is created that clients are blocked on, the server asks each of them whether it can be served
//! now, in Valkey 9.1 at a cost that grows with their square; and a lock that was deleted under its waiters is created again at once. So they
//! are blocked on a key that nobody can create, because nobody can guess its name. In a cluster it lies in the slot of the lock, and what
//! the server does with blocked clients when a slot moves it does with these.

use uuid::Uuid;

use super::api;
use super::args::Arg;
use super::key::Name;
use crate::core::slot;

/// Names of such keys, for one run of the server.
pub(super) struct BlockingKeys {
    secret: [u8; 16],
    /// The one for all locks, unless the server is a member of a cluster.
    everywhere: Option<Name<'static>>,
}

/// The key for one client.
pub(super) enum BlockingKey<'a> {
    Kept(Arg<'a>),
    Made(Name<'static>),
}

// SAFETY: the name's string is only used on the main thread: it is kept in a `MainCell`.
unsafe impl Send for BlockingKeys {}

impl BlockingKeys {
    pub(super) fn new(is_cluster: bool) -> Self {
        let secret = Uuid::new_v4().into_bytes();
        let everywhere = (!is_cluster).then(|| Name::make(&secret));
        Self { secret, everywhere }
    }

    /// The key for a client that waits for `lock`.
    pub(super) fn for_lock<'a>(&'a self, lock: Arg<'a>) -> BlockingKey<'a> {
        if let Some(everywhere) = &self.everywhere {
            return BlockingKey::Kept(everywhere.arg());
        }
        // Where no other name lies in the slot, it is the lock's own.
        match slot::neighbour(lock.bytes(), &self.secret) {
            Some(name) => BlockingKey::Made(Name::make(&name)),
            None => BlockingKey::Kept(lock),
        }
    }
}

impl BlockingKey<'_> {
    /// The server's string.
    pub(super) fn raw(&self) -> *mut api::RawString {
        match self {
            Self::Kept(arg) => arg.raw(),
            Self::Made(name) => name.arg().raw(),
        }
    }
}
