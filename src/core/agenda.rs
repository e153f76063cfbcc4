//! The agenda: at which place something falls due next.
//!
//! One entry, a *home*, per value that has a deadline: a lock with its earliest lease, a sale with its earliest hold.
//! The home knows the value's name, so that a single timer can find what is due without looking through the keyspace.

use std::collections::BTreeSet;

use super::arena::{Arena, Id};
use super::place::{At, Place};
use super::time::UnixMs;

/// A value's entry in an [`Agenda`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeId(Id);

/// Places by the deadline of what lives there.
///
/// The order is a B-tree: nothing of an ended entry stays behind that would have to be swept up later, and no single call
/// pays for all entries. Memory: about 70 bytes and the key per entry.
#[derive(Debug, Default)]
pub struct Agenda {
    homes: Arena<Home>,
    order: BTreeSet<(UnixMs, HomeId)>,
}

#[derive(Debug)]
struct Home {
    place: Place,
    deadline: UnixMs,
    /// Where the order has it: at its deadline or before. A deadline that moves later leaves it where it is until the
    /// earlier time has come; so a lease that is renewed often moves in the order only once per lease.
    listed: UnixMs,
}

impl Agenda {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.homes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Opens an entry for the value at `at`. O(log n), with one allocation: the key.
    pub fn arm(&mut self, at: At<'_>, deadline: UnixMs) -> HomeId {
        let home = HomeId(self.homes.insert(Home { place: at.keep(), deadline, listed: deadline }));
        self.order.insert((deadline, home));
        home
    }

    /// Moves the deadline of `home`. O(1) if it moves later, else O(log n).
    pub fn rearm(&mut self, home: HomeId, deadline: UnixMs) {
        if let Some(entry) = self.homes.get_mut(home.0) {
            entry.deadline = deadline;
            if deadline < entry.listed {
                self.order.remove(&(entry.listed, home));
                self.order.insert((deadline, home));
                entry.listed = deadline;
            }
        }
    }

    /// Closes the entry `home`. O(log n).
    pub fn disarm(&mut self, home: HomeId) {
        if let Some(entry) = self.homes.remove(home.0) {
            self.order.remove(&(entry.listed, home));
        }
    }

    /// Where the value of `home` lives; `None` once the entry is closed.
    #[must_use]
    pub fn place(&self, home: HomeId) -> Option<At<'_>> {
        self.homes.get(home.0).map(|entry| entry.place.at())
    }

    /// Whether the entry `home` is open.
    #[must_use]
    pub fn knows(&self, home: HomeId) -> bool {
        self.homes.get(home.0).is_some()
    }

    /// The next entry whose deadline has come at `now`. It stays in the agenda; the caller moves or closes it.
    ///
    /// Putting off an entry that was due once but has moved later costs one of `steps`; with none left, `None`.
    pub fn due(&mut self, now: UnixMs, steps: &mut usize) -> Option<HomeId> {
        while *steps > 0 {
            let &(listed, home) = self.order.first().filter(|(listed, _)| listed.reached(now))?;
            let entry = self.homes.get_mut(home.0);
            if let Some(entry) = &entry
                && entry.deadline.reached(now)
            {
                return Some(home);
            }
            *steps = steps.saturating_sub(1);
            self.order.remove(&(listed, home));
            if let Some(entry) = entry {
                entry.listed = entry.deadline;
                self.order.insert((entry.deadline, home));
            }
        }
        None
    }

    /// When to look for due entries next: never later than the earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<UnixMs> {
        self.order.first().map(|(listed, _)| *listed)
    }

    /// Closes all entries of the database `db`, or of all of them, and names them. O(n).
    pub fn flush(&mut self, db: Option<i32>) -> Vec<HomeId> {
        let homes: Vec<HomeId> = self
            .homes
            .iter()
            .filter(|(_, entry)| db.is_none_or(|db| entry.place.db == db))
            .map(|(id, _)| HomeId(id))
            .collect();
        if homes.len() == self.len() {
            self.homes.clear();
            self.order.clear();
        } else {
            for home in &homes {
                self.disarm(*home);
            }
        }
        homes
    }

    /// Follows the data when two databases trade places. O(n).
    pub fn swap(&mut self, one: i32, other: i32) {
        for entry in self.homes.values_mut() {
            entry.place.swap(one, other);
        }
    }
}
