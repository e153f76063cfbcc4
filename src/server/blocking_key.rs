//! The key on which clients are blocked that wait for a lock.
//!
//! It is not the key of the lock itself. When a key is created that clients are blocked on, the server asks each of them whether it can be
//! served, in Valkey 9.1 at quadratic cost; and a lock that is deleted while clients wait for it is created again at once. So they are
//! blocked on a key that no client can create, because its name cannot be guessed. In a cluster it is in the slot of the lock, so the
//! server treats these clients correctly when the slot moves.

use uuid::Uuid;

use super::args::{Arg, Name};
use crate::core::slot;

/// The names of such keys, for one run of the server.
pub(super) struct BlockingKeys {
    secret: [u8; 16],
    /// One key for all locks, if the server is not in a cluster.
    everywhere: Option<Name<'static>>,
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
    pub(super) fn for_lock<'a>(&'a self, lock: Arg<'a>) -> Name<'a> {
        if let Some(everywhere) = &self.everywhere {
            return Name::of(everywhere.arg());
        }
        // If no other name in that slot is found, use the key of the lock itself.
        slot::neighbour(lock.bytes(), &self.secret).map_or(Name::of(lock), |name| Name::make(&name))
    }
}
