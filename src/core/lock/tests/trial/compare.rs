//! What must be equal after every step.

use super::super::model::{Ask, Held, Key, Outcome, Serial};
use super::super::world::{Value, client, token};
use super::{Trial, all_keys, name, place};
use crate::core::fence::Fence;
use crate::core::key::KeyBuf;
use crate::core::lock::{Found, Keyspace, Lock, Mode, WaitResult};
use crate::core::time::Millis;

impl Trial {
    /// Whether a refusal names the keys of a circle.
    pub(super) fn is_circle(&self, ask: &Ask, keys: &[KeyBuf]) {
        let number = |key: &KeyBuf| all_keys().find(|known| place(*known) == *key).unwrap();
        let keys: Vec<Key> = keys.iter().map(number).collect();
        assert!(self.model.is_circle(ask, &keys), "{keys:?} {:?}", self.model);
    }

    /// Whether its token waits for nothing, or for just this.
    pub(in super::super) fn waits_for_nothing_else(&self, ask: &Ask) -> bool {
        let mut line = self.model.line.iter().filter(|parked| parked.ask.token == ask.token);
        line.all(|parked| parked.ask.keys == ask.keys)
    }

    /// A request once more, if any has gone with its connection and its place is kept.
    pub(in super::super) fn resent(&self, pick: usize, like: &Ask) -> Option<Ask> {
        self.model.resent(pick, like)
    }

    pub(in super::super) fn nobody_waits_in_a_circle(&self) {
        assert!(self.model.can_go_on(), "{:?}", self.model);
    }

    pub(super) fn number(&mut self, serial: Serial, fence: Fence) {
        let known = *self.fences.entry(serial).or_insert(fence);
        assert_eq!(known, fence, "serial {serial}");
        assert_eq!(self.fences.values().filter(|other| **other == fence).count(), 1, "{fence:?} was given twice");
    }

    pub(super) fn compare_told(&mut self) {
        let expected = std::mem::take(&mut self.model.told);
        let told = std::mem::take(&mut self.told);
        assert_eq!(told.len(), expected.len(), "told {told:?}, expected {expected:?}");
        for ((to, expected), (id, answer)) in expected.into_iter().zip(told) {
            assert_eq!(id, to);
            match (expected, answer) {
                (Outcome::Granted { token: owner, serial, lease }, WaitResult::Granted(grant)) => {
                    assert_eq!((grant.token, grant.lease), (token(&name(owner)), Millis(lease)));
                    self.number(serial, grant.fence);
                }
                (Outcome::TimedOut, WaitResult::TimedOut)
                | (Outcome::Replaced, WaitResult::Replaced)
                | (Outcome::Cancelled, WaitResult::Cancelled) => {}
                (Outcome::Failed(expected), WaitResult::Failed(error)) => assert_eq!(error, expected),
                (expected, answer) => panic!("expected {expected:?}, told {answer:?}"),
            }
        }
    }

    pub(super) fn compare(&mut self) {
        for key in all_keys() {
            self.compare_key(key);
        }
        assert_eq!(self.world.engine.waiters(), self.model.line.len());
        assert_eq!(self.world.engine.vacant_places(), self.model.vacant_places());
        assert_eq!(self.world.engine.waited().0, self.model.waited);
        assert_eq!(self.world.engine.stats().deadlocks, self.model.deadlocks);
    }

    fn compare_key(&mut self, key: Key) {
        let place = place(key);
        let mut held: Vec<&Held> = self.model.holds.iter().filter(|hold| hold.key == key).collect();
        held.sort_by_key(|hold| self.fences[&hold.serial]);
        let lock = match self.world.keys.values.get(&place) {
            Some(Value::Lock(lock)) => Some(lock),
            Some(Value::Foreign) => return assert!(held.is_empty() && self.model.foreign.contains(&key)),
            None => None,
        };
        let holds = lock.into_iter().flat_map(Lock::holds);
        let actual: Vec<_> =
            holds.map(|hold| (hold.token.clone(), hold.fence, hold.deadline.0, hold.limit, hold.session)).collect();
        let expected: Vec<_> = held
            .iter()
            .map(|hold| {
                let fence = self.fences[&hold.serial];
                (token(&name(hold.token)), fence, hold.deadline, hold.limit, hold.session.map(client))
            })
            .collect();
        assert_eq!(actual, expected, "holds of {key:?}");
        assert!(held.iter().all(|hold| Some(hold.mode) == lock.map(Lock::mode)));
        assert!(held.len() < 2 || held[0].mode != Mode::Exclusive);
        let info = self.world.engine.info(self.world.now, place.as_key(), lock);
        let waiters: Vec<_> = info
            .iter()
            .flat_map(|info| &info.waiters)
            .map(|it| (it.token.clone(), it.mode, it.waited.0, it.left.map(|left| left.0), it.client))
            .collect();
        let line: Vec<_> = self
            .model
            .queue(key)
            .map(|parked| {
                let waited = self.model.now - parked.since;
                let left = parked.ask.wait.filter(|wait| *wait > 0).map(|wait| (wait - waited).max(0));
                (token(&name(parked.ask.token)), parked.ask.wanted, waited, left, Some(client(parked.ask.client)))
            })
            .collect();
        assert_eq!(waiters, line, "queue of {key:?}");
        assert_eq!(info.map_or(0, |info| info.waiting), line.len());
        let copy = match self.replica.1.find(place.as_key()) {
            Found::Lock(copy) => Some(copy.encode()),
            _ => None,
        };
        assert_eq!(copy, lock.map(Lock::encode), "the replica's {key:?}");
    }
}
