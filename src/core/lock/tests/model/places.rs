//! Places in line that are kept for tokens whose connections have ended.

use super::{Ask, Key, Model, Parked};
use crate::core::lock::{Mode, Wanted};

#[derive(Clone, Debug)]
pub(super) struct Vacant {
    token: usize,
    keys: Vec<Key>,
    mode: Mode,
    rank: i64,
    until: i64,
}

impl Vacant {
    fn is_of(&self, ask: &Ask) -> bool {
        let same = (self.token, self.mode) == (ask.token, ask.wanted.mode());
        same && self.keys == ask.keys
    }
}

impl Model {
    /// Keeps the place of a waiter whose connection has ended.
    pub(super) fn keep_place(&mut self, Parked { ask, rank, .. }: Parked) {
        if self.grace > 0 {
            self.see("places kept");
            self.vacant.retain(|vacant| !vacant.is_of(&ask));
            let Ask { token, keys, wanted, .. } = ask;
            let until = self.now + self.grace;
            self.vacant.push(Vacant { token, keys, mode: wanted.mode(), rank, until });
        }
    }

    /// The rank that is kept for `ask`.
    pub(super) fn kept_rank(&self, ask: &Ask) -> Option<i64> {
        self.vacant.iter().find(|vacant| vacant.is_of(ask) && vacant.until > self.now).map(|vacant| vacant.rank)
    }

    /// `ask` takes the place up that is kept for it.
    pub(super) fn take_up(&mut self, ask: &Ask) {
        if self.kept_rank(ask).is_some() {
            self.see(match (ask.is_wide(), ask.notify) {
                (true, _) => "places taken up: several keys",
                (false, Some(_)) => "places taken up: notified",
                (false, None) => "places taken up: one key",
            });
        }
        self.vacant.retain(|vacant| !vacant.is_of(ask));
    }

    /// The request whose place is kept, as `like` asks otherwise.
    pub(in super::super) fn resent(&self, pick: usize, like: &Ask) -> Option<Ask> {
        let Vacant { token, keys, mode, .. } = self.vacant.get(pick % self.vacant.len().max(1))?.clone();
        let wanted = match mode {
            Mode::Exclusive => Wanted::Exclusive,
            Mode::Shared => Wanted::Shared,
            Mode::Limit => Wanted::Limit(2),
        };
        Some(Ask { token, many: keys.len() > 1, keys, wanted, ..like.clone() })
    }

    pub(super) fn end_places(&mut self, keys: &[Key], token: usize) {
        let before = self.vacant_places();
        self.vacant.retain(|vacant| vacant.token != token || !keys.iter().any(|key| vacant.keys.contains(key)));
        for _ in self.vacant_places()..before {
            self.see("places ended by a release");
        }
    }

    pub(in super::super) fn vacant_places(&self) -> usize {
        self.vacant.iter().filter(|vacant| vacant.until > self.now).count()
    }
}
