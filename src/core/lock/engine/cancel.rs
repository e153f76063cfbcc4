//! Ending the wait of a token.

use super::Engine;
use super::transition::Transition;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{Answer, WaiterId};

impl Engine {
    /// Ends every request of `token` that waits for any of these keys, and the places in line that are kept for it there, unless one of the
    /// keys holds a value of another type. The transition then looks at the queues that they headed.
    pub(super) fn cancel<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        places: &[KeyRef<'_>],
        token: &Ident,
        keyspace: &mut W,
    ) {
        let queues = places.iter().filter_map(|at| self.waiting.at(*at));
        let requests: Vec<WaiterId> = queues.flat_map(|queue| self.waiting.requests_at(queue, token)).collect();
        let nothing = requests.is_empty() && self.vacant.is_empty();
        if nothing || places.iter().any(|at| matches!(keyspace.find(*at), Found::Foreign)) {
            return;
        }
        for at in places {
            self.vacant.end(token, *at);
        }
        for request in requests {
            transition.step();
            // A request for many keys may be listed twice.
            let headed = self.dismiss(transition.now.ms, request, Answer::Cancelled, keyspace);
            transition.work.extend(headed);
        }
    }
}
