//! Requests for one key: acquire, release.

use super::Engine;

use smallvec::SmallVec;

use super::lock_mut::{LockMut, Outcome};
use super::places::Position;
use super::transition::Transition;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::claim::Claim;
use crate::core::lock::compatibility::Compatibility;
use crate::core::lock::keyspace::{Found, Keyspace};
use crate::core::lock::recipient::Recipient;
use crate::core::lock::stats::count;
use crate::core::lock::terms::{Acquired, ClientId, Grant, LockError, Request, Wait, WaitResult, WaiterId, Wanted};
use crate::core::lock::tickets::Ticket;
use crate::core::lock::value::{HoldRef, Lock};
use crate::core::lock::waiter::{Joined, QueueId, Scope, Waiter};
use crate::core::time::Now;

/// The decision on a request after looking at its lock.
enum Verdict {
    Granted(Grant),
    Refused,
    Failed(LockError),
    /// Another holder already waits to be the only one.
    Deadlock,
    /// It may wait. `in_front` puts it at the head of the queue, because its token already holds the lock.
    Wait {
        in_front: bool,
    },
}

impl Engine {
    /// The transition of a command on `keys`, which are in order. Work for other clients beyond the bound is left to `tick`. No request overtakes:
    /// while a waiter of a key still has to be served, the key counts as taken.
    pub(super) fn command<'k>(&self, now: Now, keys: &[KeyRef<'k>]) -> Transition<'k> {
        Transition::command(now, keys, self.bound.0.saturating_add(keys.len()))
    }

    /// Asks for the lock at `at` on behalf of `client`.
    ///
    /// With [`Wait::No`] the request never waits, whatever it says. It does not wait either if the server cannot block its client.
    ///
    /// O(log n) in the holds of the lock and the waiters of its queue, plus the cost of settling the key.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire<W: Keyspace>(
        &mut self,
        now: Now,
        at: KeyRef<'_>,
        client: ClientId,
        request: &Request,
        wait: Wait<'_>,
        keyspace: &mut W,
    ) -> Result<Acquired, LockError> {
        now.ms.plus(request.lease).ok_or(LockError::LeaseTooLong)?;
        let patient = !matches!(wait, Wait::No) && request.wait.is_some();
        self.pardon(at, Claim::of(&request.token), keyspace);
        if !patient && self.is_taken(now, at, &request.token, keyspace) {
            return Ok(Acquired::Refused);
        }
        let mut transition = self.command(now, &[at]);
        let (_, visit) = self.settle_then(&mut transition, at, keyspace, |engine, transition, open, queue| {
            engine.decide(transition, open, queue, client, request, if patient { wait } else { Wait::No })
        });
        let verdict = self.finish_visit(&mut transition, at, visit, keyspace);
        match verdict.ok_or(LockError::WrongType)? {
            Verdict::Granted(grant) => Ok(Acquired::Granted(grant)),
            Verdict::Refused => Ok(Acquired::Refused),
            Verdict::Failed(error) => Err(error),
            Verdict::Deadlock => {
                count(&mut self.stats.deadlocks);
                Ok(Acquired::Deadlock(vec![at.to_buf()]))
            }
            Verdict::Wait { in_front } => Ok(match self.position(now.ms, &[at], false, request, in_front, keyspace) {
                Err(circle) => Acquired::Deadlock(circle),
                Ok(place) => self.wait(&mut transition, &[at], None, client, request, wait, place, keyspace),
            }),
        }
    }

    /// Whether one look shows that the lock is another token's and nothing has to be done there. It is what most refused requests find.
    fn is_taken<W: Keyspace>(&self, now: Now, at: KeyRef<'_>, token: &Ident, keyspace: &mut W) -> bool {
        self.revoked.is_empty()
            && self.waiting.at(at).is_none()
            && matches!(keyspace.find(at), Found::Lock(lock) if self.is_registered(lock) && lock.is_held_against(token, now.ms))
    }

    fn decide(
        &mut self,
        transition: &mut Transition,
        open: &mut LockMut<'_>,
        queue: Option<QueueId>,
        client: ClientId,
        request: &Request,
        wait: Wait<'_>,
    ) -> Verdict {
        self.end_own_if_over(transition, open, &request.token);
        let compatibility = open.lock.compatibility(&request.token, request.mode);
        let patient = !matches!(wait, Wait::No);
        let later = |in_front| if patient { Verdict::Wait { in_front } } else { Verdict::Refused };
        match (compatibility, queue) {
            (Compatibility::OtherMode, _) => return Verdict::Failed(LockError::OtherMode),
            (Compatibility::UpgradeLater, Some(queue))
                if patient && self.other_upgrader(open.lock, queue, &request.token) =>
            {
                return Verdict::Deadlock;
            }
            (Compatibility::UpgradeLater, _) => return later(true),
            (Compatibility::Full, _) => return later(false),
            (Compatibility::Join, Some(queue)) => {
                // Others are in front, unless this request takes over the first place from an earlier request of its token.
                let asked = [open.at];
                let earlier = self.waiting.waiting_request(&request.token, &Scope::One(queue));
                let ticket = self.earlier_ticket(transition.now.ms, request.for_keys(&asked, false), earlier);
                let ticket = ticket.filter(|_| patient).unwrap_or(Ticket::LAST);
                if !self.is_first(queue, ticket) {
                    return later(false);
                }
            }
            (Compatibility::Downgrade, Some(queue)) => transition.work.push(queue),
            (Compatibility::Join | Compatibility::Renew | Compatibility::Downgrade | Compatibility::Upgrade, _) => {}
        }
        if patient {
            self.vacant_places.take_up(request.for_keys(&[open.at], false));
        }
        // This answer also settles an earlier request of the token for this key, so that one need not wait any more.
        let earlier = queue.and_then(|queue| self.waiting.waiting_request(&request.token, &Scope::One(queue)));
        if let Some(earlier) =
            earlier.filter(|id| compatibility == Compatibility::Join || self.wants(*id, request.mode))
            && let Some(departed) = self.waiting.leave(transition.now.ms, earlier)
        {
            transition.work.extend(departed.headed);
            if !departed.waiter.recipient.is_repeated(wait) {
                open.outcomes.push(Outcome::Answered(earlier, departed.waiter.recipient, WaitResult::Replaced));
            }
        }
        match self.grant(transition, open, compatibility, Some(client), request) {
            Ok((grant, changed)) => {
                if compatibility.needs_a_fence() {
                    self.look_at_own(transition, open.at, &request.token);
                }
                self.heard_of(changed);
                Verdict::Granted(grant)
            }
            Err(error) => Verdict::Failed(error),
        }
    }

    /// Whether the request `waiter` wants its lock in the same mode.
    fn wants(&self, waiter: WaiterId, wanted: Wanted) -> bool {
        self.waiting.waiter(waiter).is_some_and(|waiter| waiter.wanted().mode() == wanted.mode())
    }

    /// Whether another holder of `lock` waits in its queue to upgrade. O(log n) in the longer and O(n) in the shorter of holds and queue.
    fn other_upgrader(&self, lock: &Lock, queue: QueueId, token: &Ident) -> bool {
        let Some(in_line) = self.waiting.queue(queue) else { return false };
        let upgrades = |waiter: WaiterId| {
            self.waiting.waiter(waiter).is_some_and(|waiter| {
                let other = &waiter.request.token;
                let alone = matches!(waiter.scope, Scope::One(_));
                alone && other != token && lock.compatibility(other, waiter.wanted()) == Compatibility::UpgradeLater
            })
        };
        if lock.len() < in_line.len() {
            let claim = |hold: HoldRef<'_>| self.waiting.waiting_request(hold.token, &Scope::One(queue));
            lock.holds().filter_map(claim).any(upgrades)
        } else {
            in_line.line().any(upgrades)
        }
    }

    /// Queues a request at this position, after its client was blocked if it is to be. An earlier request of the same token for the
    /// same keys is replaced. `obstacle` is the key that a request for many keys cannot have now. If the client cannot be blocked,
    /// nothing changes, not even for the earlier request.
    #[expect(clippy::too_many_arguments, reason = "one request in one situation")]
    pub(super) fn wait<W: Keyspace>(
        &mut self,
        transition: &mut Transition,
        locks: &[KeyRef<'_>],
        obstacle: Option<KeyRef<'_>>,
        client: ClientId,
        request: &Request,
        wait: Wait<'_>,
        Position { ticket, earlier }: Position,
        keyspace: &mut W,
    ) -> Acquired {
        let is_full = self.most_waiting.is_some_and(|most| self.waiting.len() >= most);
        if is_full && earlier.is_none() {
            return Acquired::Full;
        }
        let recipient = match wait {
            Wait::Parked if keyspace.block_client() => Recipient::Parked(client),
            Wait::No | Wait::Parked => return Acquired::Refused,
            Wait::Notified(notice) => Recipient::Notified(Box::new(notice.clone())),
        };
        let mut queues: SmallVec<[QueueId; 1]> = locks.iter().map(|at| self.waiting.open(*at)).collect();
        queues.sort_unstable();
        let scope = match queues.first() {
            Some(queue) if obstacle.is_none() => Scope::One(*queue),
            _ => Scope::Many(queues.as_slice().into()),
        };
        let before = earlier.and_then(|earlier| self.waiting.waiter(earlier));
        // If the earlier request had no obstacle because it was at the head itself, its replacement has none either.
        let obstacle = before.and_then(|before| before.obstacle).or_else(|| self.waiting.at(obstacle?));
        let ticket = match ticket {
            Ticket::FIRST => self.waiting.front_ticket(),
            Ticket::LAST => self.waiting.next_ticket(),
            earlier => earlier,
        };
        self.vacant_places.take_up(request.for_keys(locks, obstacle.is_some()));
        let since = transition.now.ms;
        let waiter = Waiter { recipient, request: request.clone(), since, scope, ticket, obstacle };
        let Joined { id, longest, replaced, headed } = self.waiting.join(waiter, earlier);
        if matches!(wait, Wait::Parked) {
            keyspace.client_blocked(id);
        }
        if let (Some(earlier), Some(replaced)) = (earlier, replaced) {
            replaced.recipient.tell_replaced(earlier, wait, keyspace);
        }
        if !headed.is_empty() {
            transition.work.extend(headed);
            self.commit(transition, keyspace);
        }
        count(&mut self.stats.waits);
        self.stats.longest_queue = self.stats.longest_queue.max(u64::try_from(longest).unwrap_or(u64::MAX));
        match wait {
            Wait::Notified(_) => Acquired::Notified { waiter: id, place: self.waiting.place(id) },
            Wait::No | Wait::Parked => Acquired::Parked(id),
        }
    }

    /// Ends the claimed hold of the lock at `at`, and, unless the claim names a fence, every request of the token that waits for this key;
    /// `false` if there was no such hold.
    ///
    /// # Errors
    /// [`LockError::WrongType`].
    pub fn release<W: Keyspace>(
        &mut self,
        now: Now,
        at: KeyRef<'_>,
        claim: Claim<'_>,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let mut transition = self.command(now, &[at]);
        self.pardon(at, claim, keyspace);
        self.cancel(&mut transition, &[at], claim, keyspace);
        let (queue, visit) = self.settle_then(&mut transition, at, keyspace, |engine, transition, open, _| {
            engine.release_hold(transition, open, claim)
        });
        let ended = visit.map(|visit| self.defer_handover(&mut transition, at, queue, visit, keyspace));
        self.commit(&mut transition, keyspace);
        ended.ok_or(LockError::WrongType)
    }
}
