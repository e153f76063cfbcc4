//! The key on which clients are blocked that wait for a lock.
//!
//! It is not the key of the lock itself. When a key is created that clients are blocked on, the server asks each of them whether it can be
//! served, in Valkey 9.1 at quadratic cost; and a lock that is deleted while clients wait for it is created again at once. So they are
//! blocked on a key that nobody can create, because its name cannot be guessed. In a cluster it is in the slot of the lock, so the server
//! treats these clients correctly when the slot moves.

use uuid::Uuid;

use super::api;
use super::args::Arg;
use super::key::Name;
use crate::core::slot;

/// The names of such keys, for one run of the server.
pub(super) struct BlockingKeys {
    secret: [u8; 16],
    /// One key for all locks, if the server is not in a cluster.
    everywhere: Option<Name<'static>>,
}

/// The key for one client.
pub(super) enum BlockingKey<'a> {
    Kept(Arg<'a>),
    Made(Name<'static>),
}

// SAFETY: the string of the name is only used with the server's lock: it is kept in a `ServerCell`.
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
        // If no other name in that slot is found, use the key of the lock itself.
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
