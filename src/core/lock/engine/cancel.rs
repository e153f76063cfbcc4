//! Ending the wait of a token.

use super::transition::Transition;
use crate::core::key::KeyRef;
use crate::core::lock::hold::Claim;
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::terms::{WaitResult, WaiterId};
use crate::core::lock::waiter::Headed;

impl<W: Keyspace> Transition<'_, W> {
    /// Ends every request of the token that waits for any of these locks, and the places in line that are kept for it there, unless one of the
    /// keys holds a value of another type. The transition then looks at the queues that they headed. A claim that names a fence is about a
    /// hold alone, and ends no request.
    pub(super) fn cancel(&mut self, locks: &[KeyRef<'_>], claim: Claim<'_>) {
        let Claim { token, fence: None } = claim else { return };
        let waiting = &self.engine.waiting;
        if waiting.len() == 0 && self.engine.vacant_places.is_empty() {
            return;
        }
        let queues = locks.iter().filter_map(|at| waiting.at(*at));
        let requests: Vec<WaiterId> = queues.flat_map(|queue| waiting.requests_at(queue, token)).collect();
        let nothing = requests.is_empty() && self.engine.vacant_places.is_empty();
        if nothing || locks.iter().any(|at| self.is_foreign(*at)) {
            return;
        }
        for at in locks {
            self.engine.vacant_places.end(token, *at);
        }
        let mut headed = Headed::new();
        for request in requests {
            // A request for many keys may be listed twice.
            let Some(waiter) = self.engine.waiting.waiter(request) else { continue };
            let queues = waiter.scope.queues().len();
            if self.course.budget == 0 && queues > 1 {
                // It hears at once, and `tick` takes it out of its queues.
                if let Some(wait) = self.engine.waiting.retire(self.course.now.ms, request) {
                    wait.tell(request, WaitResult::Cancelled, self.keyspace);
                }
            } else {
                self.course.steps(queues);
                headed.extend(self.answer_and_remove(request, WaitResult::Cancelled));
            }
        }
        // Requests for many keys head the same queues one after another.
        headed.sort_unstable();
        headed.dedup();
        headed.retain(|queue| self.engine.waiting.queue(*queue).is_some());
        self.course.work.extend(headed);
    }
}
