//! What each command does.

use std::collections::VecDeque;

use super::{Ask, Held, Key, Model, Outcome, Parked, Serial};
use crate::core::lock::{LockError, Mode, WaiterId, Wanted};

impl Model {
    pub(in super::super) fn acquire(&mut self, ask: &Ask, may_wait: bool, script: &mut VecDeque<WaiterId>) -> Outcome {
        self.spare(&ask.keys, ask.token, None, |held| {
            held.iter().all(|hold| hold.mode == ask.wanted.mode() && hold.serial == held[0].serial)
        });
        self.follow(script);
        let outcome = self.decide(ask, may_wait && ask.wait.is_some(), script);
        self.follow(script);
        self.check(script, |other| !other.is_wide() && ask.keys.contains(&other.keys[0]));
        outcome
    }

    fn decide(&mut self, ask: &Ask, patient: bool, script: &mut VecDeque<WaiterId>) -> Outcome {
        if ask.keys.iter().any(|key| self.foreign.contains(key)) {
            return Outcome::Failed(LockError::WrongType);
        }
        let modes: Vec<Mode> =
            ask.keys.iter().filter_map(|key| self.hold(*key, ask.token)).map(|hold| hold.mode).collect();
        let upgrades = !ask.is_wide() && modes == [Mode::Shared] && ask.wanted == Wanted::Exclusive;
        let downgrades = !ask.is_wide() && modes == [Mode::Exclusive] && ask.wanted == Wanted::Shared;
        if !modes.iter().all(|mode| *mode == ask.wanted.mode()) && !upgrades && !downgrades {
            return Outcome::Failed(LockError::OtherMode);
        }
        let same = |parked: &&Parked| parked.ask.token == ask.token && parked.ask.keys == ask.keys;
        let earlier = self.line.iter().find(same).cloned();
        let earlier_rank = earlier.as_ref().map(|earlier| earlier.rank).or_else(|| self.kept_rank(ask));
        let free = ask.keys.iter().all(|key| {
            let held = self.hold(*key, ask.token).is_some();
            let rank = earlier_rank.filter(|_| patient).unwrap_or(i64::MAX);
            self.fits(*key, ask.token, ask.wanted) && (held || self.first(*key, rank))
        });
        if free {
            let held = modes.len() == ask.keys.len();
            if let Some(earlier) = earlier.filter(|it| !held || it.ask.wanted.mode() == ask.wanted.mode()) {
                self.replace(&earlier, ask, patient, script);
            }
            if patient {
                self.take_up(ask);
            }
            return self.grant(ask, true, false).0;
        }
        if !patient {
            return Outcome::Refused;
        }
        let rival = |parked: &&Parked| {
            let other = &parked.ask;
            let holds = self.hold(other.keys[0], other.token).is_some_and(|hold| hold.mode == Mode::Shared);
            other.keys == ask.keys && other.token != ask.token && other.wanted == Wanted::Exclusive && holds
        };
        if upgrades && self.line.iter().any(|parked| rival(&parked)) {
            self.deadlocks += 1;
            return Outcome::Deadlock;
        }
        let mut rank = match earlier_rank {
            _ if upgrades => -self.ranks - 1,
            Some(earlier) => earlier,
            None => self.ranks + 1,
        };
        if self.detects {
            if !upgrades && self.would_wait_for_itself(ask, rank, earlier.as_ref()).in_line {
                self.see("places not taken up because that would close a circle");
                rank = self.ranks + 1;
            }
            if self.would_wait_for_itself(ask, rank, earlier.as_ref()).held {
                self.deadlocks += 1;
                self.see(match (ask.wanted, ask.notify) {
                    _ if ask.is_wide() => "circles refused: several keys",
                    (_, Some(_)) => "circles refused: notified requests",
                    _ if upgrades => "circles refused: upgrades",
                    (Wanted::Exclusive, _) => "circles refused: exclusive",
                    (Wanted::Shared, _) => "circles refused: shared",
                    (Wanted::Limit(_), _) => "circles refused: permits",
                });
                return Outcome::Deadlock;
            }
        }
        self.ranks += 1;
        self.take_up(ask);
        if let Some(earlier) = &earlier {
            self.replace(earlier, ask, patient, script);
        }
        self.line.push(Parked { id: None, ask: ask.clone(), since: self.now, rank });
        Outcome::Parked
    }

    pub(super) fn leave(&mut self, who: impl Fn(&Parked) -> bool) {
        let Self { line, waited, now, .. } = self;
        line.extract_if(.., |parked| who(parked)).for_each(|parked| *waited += *now - parked.since);
    }

    /// `ask` takes the place of `parked`, which is told so, unless it is the same request once more.
    fn replace(&mut self, parked: &Parked, ask: &Ask, patient: bool, script: &mut VecDeque<WaiterId>) {
        self.leave(|other| other.rank == parked.rank);
        let same = |earlier: &Ask| earlier.client == ask.client && earlier.notify == ask.notify;
        if patient && ask.notify.is_some() && same(&parked.ask) {
            self.see("notified requests repeated");
        } else {
            assert_eq!(script.pop_front(), parked.id);
            self.told.push((parked.id.unwrap(), Outcome::Replaced));
            self.see("requests replaced");
        }
    }

    /// Ends whatever `token` waits for at one of `keys`. In which order its requests hear of that is left to the engine.
    fn cancel(&mut self, keys: &[Key], token: usize, script: &mut VecDeque<WaiterId>) {
        let is_ended = |ask: &Ask| ask.token == token && ask.keys.iter().any(|key| keys.contains(key));
        while self.line.iter().any(|parked| is_ended(&parked.ask)) {
            let id = script.pop_front();
            assert!(self.line.iter().any(|parked| parked.id == id && is_ended(&parked.ask)));
            let ended = self.line.iter().find(|parked| parked.id == id).unwrap();
            self.see(match (ended.ask.notify, ended.ask.is_wide()) {
                (Some(_), _) => "notified requests cancelled",
                (None, true) => "requests for several keys cancelled",
                (None, false) => "requests for one key cancelled",
            });
            self.leave(|parked| parked.id == id);
            self.told.push((id.unwrap(), Outcome::Cancelled));
        }
    }

    pub(in super::super) fn release(
        &mut self,
        keys: &[Key],
        token: usize,
        fence: Option<Serial>,
        script: &mut VecDeque<WaiterId>,
    ) -> Result<u64, LockError> {
        if !keys.iter().any(|key| self.foreign.contains(key)) {
            for key in keys {
                self.spare(&[*key], token, fence, |_| true);
            }
        }
        if fence.is_none() && !keys.iter().any(|key| self.foreign.contains(key)) {
            self.cancel(keys, token, script);
            self.end_places(keys, token);
        }
        self.follow(script);
        let mut released = Err(LockError::WrongType);
        if !keys.iter().any(|key| self.foreign.contains(key)) {
            let is_meant = |hold: &Held| fence.is_none_or(|fence| fence == hold.serial);
            let is_its = |hold: &mut Held| hold.token == token && keys.contains(&hold.key) && is_meant(hold);
            let ended: Vec<Held> = self.holds.extract_if(.., is_its).collect();
            for hold in &ended {
                self.prove(hold);
                self.see(if fence.is_some() { "releases of one fence" } else { "releases of any fence" });
            }
            if fence.is_some() && keys.iter().any(|key| self.hold(*key, token).is_some()) {
                self.see("releases of another fence");
            }
            released = Ok(ended.len() as u64);
        }
        self.follow(script);
        self.check(script, |other| !other.is_wide() && keys.contains(&other.keys[0]));
        released
    }

    /// Without a lease of its own (`only_later`) it makes no hold end sooner.
    pub(in super::super) fn extend(
        &mut self,
        keys: &[Key],
        (token, fence): (usize, Option<Serial>),
        lease: i64,
        only_later: bool,
        script: &mut VecDeque<WaiterId>,
    ) -> Result<bool, LockError> {
        // Without a fence the token means the hold that it knows, which comes back if a lost grant has replaced it.
        let mut settled = self.clone();
        settled.expire();
        let comes_back = |held: &Held| {
            settled.hold(held.key, token).is_some_and(|known| fence.is_none() && known.serial != held.serial)
        };
        if keys.iter().filter_map(|key| self.hold(*key, token)).any(comes_back) {
            self.see("extensions of holds that come back");
        }
        self.spare(keys, token, fence, |held| !held.iter().any(|held| comes_back(held)));
        self.follow(script);
        self.check(script, |other| !other.is_wide() && keys.contains(&other.keys[0]));
        if keys.iter().any(|key| self.foreign.contains(key)) {
            return Err(LockError::WrongType);
        }
        let held: Vec<Held> = keys.iter().filter_map(|key| self.claimed(*key, token, fence)).cloned().collect();
        if held.len() < keys.len() {
            return Ok(false);
        }
        for hold in held {
            self.prove(&hold);
            let deadline = self.now + lease;
            self.set(Held { deadline: if only_later { deadline.max(hold.deadline) } else { deadline }, ..hold });
        }
        Ok(true)
    }
}
