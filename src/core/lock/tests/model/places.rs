//! Places in line that are kept for tokens whose connections have ended.

use super::{Ask, Key, Model, Parked};
use crate::core::lock::Mode;

#[derive(Clone, Debug)]
pub(super) struct Vacant {
    token: usize,
    keys: Vec<Key>,
    many: bool,
    mode: Mode,
    rank: i64,
    until: i64,
}

impl Vacant {
    fn is_of(&self, ask: &Ask) -> bool {
        let same = (self.token, self.many, self.mode) == (ask.token, ask.many, ask.wanted.mode());
        same && self.keys == ask.keys
    }
}

impl Model {
    /// Keeps the place of a waiter whose connection has ended.
    pub(super) fn keep_place(&mut self, Parked { ask, rank, .. }: Parked) {
        if self.grace > 0 {
            self.take_up(&ask);
            let Ask { token, keys, many, wanted, .. } = ask;
            let until = self.now + self.grace;
            self.vacant.push(Vacant { token, keys, many, mode: wanted.mode(), rank, until });
        }
    }

    /// The rank that is kept for `ask`.
    pub(super) fn kept_rank(&self, ask: &Ask) -> Option<i64> {
        self.vacant.iter().find(|vacant| vacant.is_of(ask) && vacant.until > self.now).map(|vacant| vacant.rank)
    }

    pub(super) fn take_up(&mut self, ask: &Ask) {
        self.vacant.retain(|vacant| !vacant.is_of(ask));
    }

    pub(super) fn end_places(&mut self, keys: &[Key], token: usize) {
        self.vacant.retain(|vacant| vacant.token != token || !keys.iter().any(|key| vacant.keys.contains(key)));
    }

    pub(in super::super) fn vacant_places(&self) -> usize {
        self.vacant.iter().filter(|vacant| vacant.until > self.now).count()
    }
}
