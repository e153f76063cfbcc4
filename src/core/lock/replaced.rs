//! What a token held before a grant that is on its way.
//!
//! A grant to a waiter may replace an earlier hold of the same token: an upgrade replaces its shared hold, a request for many keys
//! replaces what it held of them already. The owner knows of the earlier hold and may never hear of the grant. So the earlier hold is
//! kept here until the grant is known to have arrived, and comes back as it was if the grant is taken back.

use std::collections::BTreeMap;

use super::engine::Engine;
use super::settle::Turn;
use super::stats::count;
use super::terms::{End, Mode};
use super::value::{Hold, Lock};
use super::visit::{Changed, Open};
use crate::core::agenda::HomeId;
use crate::core::fence::Fence;

/// An earlier hold, and the mode that the lock had then.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) mode: Mode,
    pub(super) hold: Hold,
    /// Whether the connection that it was tied to has ended.
    pub(super) over: bool,
}

/// The earlier holds, by the lock and by the fence of the grant that replaced them. Its memory is that of the grants on their way.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    holds: BTreeMap<(HomeId, Fence), Before>,
    /// The fence of the grant that replaced the hold with this fence.
    by: BTreeMap<(HomeId, Fence), Fence>,
}

impl Replaced {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.by.is_empty()
    }

    /// What the grant `fence` replaced.
    fn get(&self, home: HomeId, fence: Fence) -> Option<&Before> {
        self.holds.get(&(home, fence))
    }

    fn keep(&mut self, home: HomeId, fence: Fence, before: Before) {
        self.by.insert((home, before.hold.fence), fence);
        self.holds.insert((home, fence), before);
    }

    fn take(&mut self, home: HomeId, fence: Fence) -> Option<Before> {
        let before = self.holds.remove(&(home, fence))?;
        self.by.remove(&(home, before.hold.fence));
        Some(before)
    }

    /// The connection has ended that the hold `fence` is tied to, which was replaced by a grant that is on its way.
    pub(super) fn end(&mut self, home: HomeId, fence: Fence) {
        let by = self.by.get(&(home, fence));
        if let Some(before) = by.and_then(|by| self.holds.get_mut(&(home, *by))) {
            before.over = true;
        }
    }

    /// Forgets what was replaced in a lock that is gone.
    pub(super) fn forget(&mut self, home: HomeId) {
        let first = (home, Fence(0));
        while let Some((home, fence)) =
            self.holds.range(first..).next().map(|(key, _)| *key).filter(|(other, _)| *other == home)
        {
            self.take(home, fence);
        }
    }
}

impl Engine {
    /// Keeps `before`, which the grant `fence` has replaced, until that is known to have arrived.
    pub(super) fn keep_replaced(&mut self, home: HomeId, fence: Fence, before: Option<Before>) {
        let Some(before) = before else { return };
        // It goes on ending with its connection.
        if let Some(client) = before.hold.session.filter(|_| !before.over) {
            self.sessions.tie(client, (home, before.hold.fence));
        }
        self.replaced.keep(home, fence, before);
    }

    /// The token of a hold that was changed is told of that at once. So it knows of whatever it was granted there before.
    pub(super) fn heard_of(&mut self, changed: Changed) {
        if let Changed { home, before: Some(before) } = changed {
            self.undelivered.prove(before.hold.fence, home);
            self.drop_replaced(home, before.hold.fence);
        }
    }

    /// The grant `fence` stands: what it replaced is over for good.
    pub(super) fn drop_replaced(&mut self, home: HomeId, fence: Fence) {
        if let Some(before) = self.replaced.take(home, fence) {
            self.untie_replaced(home, &before);
        }
    }

    /// A lock with the hold `fence` has moved from one home to another. What hangs on its hold follows, down to the oldest hold that may
    /// come back.
    pub(super) fn follow_grants(&mut self, mut fence: Fence, from: HomeId, to: HomeId, doubtful: bool) {
        loop {
            self.undelivered.follow(fence, from, to);
            let Some(before) = self.replaced.take(from, fence) else { return };
            let earlier = before.hold.fence;
            if let Some(client) = before.hold.session.filter(|_| doubtful) {
                self.doubtful.insert(client);
            }
            self.keep_replaced(to, fence, Some(before));
            fence = earlier;
        }
    }

    /// Takes the grant `fence` back. What its token held before comes back, unless that is over by now.
    pub(super) fn take_back(&mut self, turn: &mut Turn, open: &mut Open<'_>, fence: Fence) {
        let Some(home) = open.lock.home() else { return };
        let alive = self.replaced.get(home, fence).is_some_and(|before| self.is_tied(home, before));
        let before = self.replaced.take(home, fence);
        if let Some(before) = &before {
            self.untie_replaced(home, before);
        }
        if open.lock.hold_of(fence).is_none() {
            // A later grant, also on its way, has replaced it; that one has now replaced what was there before both.
            if let Some(later) = self.replaced.by.get(&(home, fence)).copied() {
                self.drop_replaced(home, later);
                self.keep_replaced(home, later, before.filter(|_| alive));
            }
            return;
        }
        match before {
            None => self.end_hold(open, fence, End::Undelivered),
            Some(before) if before.hold.deadline.reached(turn.now.ms) => {
                count(&mut self.stats.lapses);
                self.end_hold(open, fence, End::Lapsed);
            }
            Some(_) if !alive => self.end_hold(open, fence, End::Disconnected),
            Some(before) => {
                let token = before.hold.token.clone();
                let _ = self.set_hold(open, before.mode, before.hold);
                self.look_at_own(turn, open.at, &token);
            }
        }
    }

    /// The hold that counts where `hold` is found: itself, what it replaced if it is going to be taken back, or none if it is over.
    pub(super) fn standing_hold<'a>(&'a self, lock: &'a Lock, hold: &'a Hold) -> Option<(Mode, &'a Hold)> {
        let (mut mode, mut hold) = (lock.mode(), hold);
        while self.is_forfeit(lock, hold) {
            let home = lock.home()?;
            let before = self.replaced.get(home, hold.fence).filter(|before| self.is_tied(home, before))?;
            (mode, hold) = (before.mode, &before.hold);
        }
        Some((mode, hold))
    }

    /// Whether the connection that `before` ends with has not ended.
    fn is_tied(&self, home: HomeId, before: &Before) -> bool {
        let tied =
            |client| self.sessions.is_tied(client, (home, before.hold.fence)) && !self.sessions.has_ended(client);
        !before.over && before.hold.session.is_none_or(tied)
    }

    fn untie_replaced(&mut self, home: HomeId, before: &Before) {
        if let Some(client) = before.hold.session {
            self.sessions.untie(client, (home, before.hold.fence));
        }
    }
}
