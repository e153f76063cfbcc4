//! What the model grants, what of it is on its way, and what ends.

use super::{Ask, Held, Key, Model, Outcome, Parked, Serial};
use crate::core::lock::{Mode, WaiterId, Wanted};

/// A grant whose reply is on its way. It also says which of its holds their owner cannot know from another reply.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    pub(super) id: WaiterId,
    /// The request, with its place in line.
    pub(super) parked: Parked,
    pub(super) holds: Vec<Granted>,
    pub(super) lost: bool,
}

/// One hold of a grant, and what its token held there before.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    key: Key,
    serial: Serial,
    before: Option<Held>,
    /// Whether the lock is gone without a known next holder.
    gone: bool,
}

impl Granted {
    fn is(&self, hold: &Held) -> bool {
        !self.gone && (self.key, self.serial) == (hold.key, hold.serial)
    }

    /// Whether two requests of its token were granted the same hold.
    fn is_same(&self, other: &Self) -> bool {
        (self.gone, self.key, self.serial) == (other.gone, other.key, other.serial)
    }
}

impl Owed {
    /// Everything moves to where `to` says, or is gone.
    pub(super) fn relocate(&mut self, to: impl Fn(&Key) -> Option<Key>) {
        let moved = |granted: Granted| {
            let Some(key) = to(&granted.key).filter(|_| !granted.gone) else {
                return Granted { gone: true, before: None, ..granted };
            };
            Granted { key, before: granted.before.map(|hold| Held { key, ..hold }), ..granted }
        };
        self.holds = self.holds.drain(..).map(moved).collect();
    }
}

impl Model {
    /// Gives the holds of `ask`, which is told at once (`now`) or later, and has `waited` or not.
    pub(super) fn grant(&mut self, ask: &Ask, now: bool, waited: bool) -> (Outcome, Vec<Granted>) {
        let before: Vec<Option<Held>> = ask.keys.iter().map(|key| self.hold(*key, ask.token).cloned()).collect();
        let first = before[0].as_ref();
        let kept = first.filter(|first| {
            let same = before.iter().all(|hold| hold.as_ref().is_some_and(|hold| hold.serial == first.serial));
            same && !(first.mode == Mode::Shared && ask.wanted == Wanted::Exclusive)
        });
        let serial = kept.map_or(self.serials + 1, |hold| hold.serial);
        let fresh = kept.is_none();
        self.serials = self.serials.max(serial);
        let deadline = self.now + ask.lease;
        if now {
            before.iter().flatten().for_each(|hold| self.prove(hold));
        }
        // Of a hold that another request of the token was granted, and may never hear of, this one may be the first to hear.
        let on_its_way = |hold: &Held| self.owed.iter().flat_map(|owed| &owed.holds).find(|granted| granted.is(hold));
        let shared: Vec<Granted> = before.iter().flatten().filter_map(on_its_way).cloned().collect();
        for (key, before) in ask.keys.iter().zip(&before) {
            let inherited = before.as_ref().filter(|_| !fresh || !ask.is_wide()).and_then(|hold| hold.session);
            let session = if ask.session { Some(ask.client) } else { inherited };
            // What a request gets that waited takes nothing from a hold that its token has come to meanwhile.
            let stays = waited && before.as_ref().is_some_and(|hold| hold.mode == Mode::Exclusive);
            let wanted = if stays { Wanted::Exclusive } else { ask.wanted };
            let (mode, limit) = (wanted.mode(), wanted.limit());
            self.set(Held { key: *key, token: ask.token, mode, limit, serial, deadline, session });
        }
        let granted =
            ask.keys.iter().zip(before).map(|(key, before)| Granted { key: *key, serial, before, gone: false });
        let granted = if fresh { granted.collect() } else { shared };
        (Outcome::Granted { token: ask.token, serial, lease: ask.lease }, granted)
    }

    pub(super) fn set(&mut self, hold: Held) {
        self.holds.retain(|other| (other.key, other.token) != (hold.key, hold.token));
        self.holds.push(hold);
    }

    pub(super) fn prove(&mut self, hold: &Held) {
        for owed in &mut self.owed {
            owed.holds.retain(|granted| !granted.is(hold));
        }
    }

    /// Takes back what was granted and never heard of, the oldest first: what was there before is there again, also for a later grant
    /// that is on its way.
    fn take_back(&mut self) {
        let Self { owed, holds, elsewhere, .. } = self;
        let awaited: Vec<Granted> = owed.iter().filter(|owed| !owed.lost).flat_map(|owed| owed.holds.clone()).collect();
        for owed in owed.iter_mut().filter(|owed| owed.lost) {
            owed.holds.retain(|granted| !awaited.iter().any(|other| other.is_same(granted)));
        }
        let mut lost: Vec<Granted> = Vec::new();
        for owed in owed.iter_mut().filter(|owed| owed.lost) {
            owed.holds.retain(|granted| !granted.gone);
            lost.extend(owed.holds.extract_if(.., |granted| !elsewhere.contains(&granted.key)));
        }
        owed.retain(|owed| !owed.lost || !owed.holds.is_empty());
        lost.sort_by_key(|granted| granted.serial);
        while !lost.is_empty() {
            let next = lost.remove(0);
            if let Some(at) = holds.iter().position(|hold| next.is(hold)) {
                holds.remove(at);
                holds.extend(next.before);
            } else {
                let later = owed.iter_mut().flat_map(|owed| &mut owed.holds).chain(&mut lost);
                later
                    .filter(|later| later.before.as_ref().is_some_and(|hold| next.is(hold)))
                    .for_each(|later| later.before.clone_from(&next.before));
            }
        }
    }

    /// Ends what is over: by its deadline, with its connection, or because its owner never heard of it.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        self.end_those(|hold, _| hold.deadline <= now);
        self.take_back();
        self.end_those(|hold, gone| hold.deadline <= now || hold.session.is_some_and(|client| gone.contains(&client)));
    }

    fn end_those(&mut self, is_over: impl Fn(&Held, &[u64]) -> bool) {
        let Self { holds, elsewhere, gone, .. } = self;
        let over = |hold: &mut Held| is_over(hold, gone) && !elsewhere.contains(&hold.key);
        for ended in holds.extract_if(.., over).collect::<Vec<_>>() {
            self.prove(&ended);
        }
    }

    /// Whether a grant that is on its way is over, and the engine may not have noticed.
    pub(in super::super) fn may_be_over(&self) -> bool {
        let mut settled = self.clone();
        settled.expire();
        settled.owed.iter().any(|owed| owed.holds.is_empty()) || settled.owed.len() < self.owed.len()
    }

    /// All expirations have been noticed.
    pub(super) fn forget_what_is_over(&mut self) {
        self.owed.retain(|owed| !owed.holds.is_empty());
    }

    /// A token that asks again for all that it was granted at `keys` keeps what got lost on the way; with a `fence`, only that grant.
    pub(super) fn spare(
        &mut self,
        keys: &[Key],
        token: usize,
        fence: Option<Serial>,
        such: impl FnOnce(&[&Held]) -> bool,
    ) {
        let stands = |hold: &&Held| hold.deadline > self.now && hold.session.is_none_or(|by| !self.gone.contains(&by));
        let held = keys.iter().map(|key| self.claimed(*key, token, fence).filter(stands));
        let spared = held.collect::<Option<Vec<&Held>>>().filter(|held| such(held));
        for hold in spared.into_iter().flatten().cloned().collect::<Vec<_>>() {
            for owed in self.owed.iter_mut().filter(|owed| owed.lost) {
                owed.holds.retain(|granted| !granted.is(&hold));
            }
        }
    }

    /// The reply to the request `id` has been handed over.
    pub(in super::super) fn delivered(&mut self, id: WaiterId) {
        for told in self.owed.extract_if(.., |owed| owed.id == id).collect::<Vec<_>>() {
            for owed in &mut self.owed {
                owed.holds.retain(|granted| !told.holds.iter().any(|told| told.is_same(granted)));
            }
        }
    }
}
