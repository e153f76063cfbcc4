//! Ending the wait of a token.

use super::Engine;
use super::transition::Transition;
use crate::core::key::KeyRef;
use crate::core::lock::claim::Claim;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::terms::{WaitResult, WaiterId};
use crate::core::lock::waiter::Headed;

impl Engine {
    /// Ends every request of the token that waits for any of these locks, and the places in line that are kept for it there, unless one of the
    /// keys holds a value of another type. The transition then looks at the queues that they headed. A claim that names a fence is about a
    /// hold alone, and ends no request.
    pub(super) fn cancel<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        locks: &[KeyRef<'_>],
        claim: Claim<'_>,
        keyspace: &mut W,
    ) {
        let Claim { token, fence: None } = claim else { return };
        let queues = locks.iter().filter_map(|at| self.waiting.at(*at));
        let requests: Vec<WaiterId> = queues.flat_map(|queue| self.waiting.requests_at(queue, token)).collect();
        let nothing = requests.is_empty() && self.vacant_places.is_empty();
        if nothing || locks.iter().any(|at| matches!(keyspace.find(*at), Found::Foreign)) {
            return;
        }
        for at in locks {
            self.vacant_places.end(token, *at);
        }
        let mut headed = Headed::new();
        for request in requests {
            // A request for many keys may be listed twice.
            let Some(waiter) = self.waiting.waiter(request) else { continue };
            let queues = waiter.scope.queues().len();
            if transition.budget == 0 && queues > 1 {
                // It hears at once, and `tick` takes it out of its queues.
                if let Some(recipient) = self.waiting.retire(transition.now.ms, request) {
                    recipient.tell(request, WaitResult::Cancelled, keyspace);
                }
            } else {
                transition.steps(queues);
                headed.extend(self.answer_and_remove(transition.now.ms, request, WaitResult::Cancelled, keyspace));
            }
        }
        // Requests for many keys head the same queues one after another.
        headed.sort_unstable();
        headed.dedup();
        headed.retain(|queue| self.waiting.queue(*queue).is_some());
        transition.work.extend(headed);
    }
}
