//! A command that releases holds, replicated verbatim when it equals its effect.

use smallvec::SmallVec;

use crate::config;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::EndReason;
use crate::module::lock_effect::LockChange;
use crate::module::repair;
use crate::server::args::Name;

/// The releases by a command so far. If the command has done nothing else in the end, it equals its effect.
pub struct VerbatimRelease<'a> {
    token: Ident,
    /// The keys that were released, all in the database of the command. This has not been sent yet.
    released: SmallVec<[Name<'a>; 1]>,
}

impl<'a> VerbatimRelease<'a> {
    /// For a command that releases the holds of `token`; `None` if words are never sent.
    pub fn new(token: &Ident) -> Option<Self> {
        config::REPLICATE_COMMANDS.is_yes().then(|| Self { token: token.clone(), released: SmallVec::new() })
    }

    /// Takes a change of the lock `name` over, if the words say it.
    pub fn take_over(&mut self, name: &Name<'a>, change: &LockChange) -> bool {
        let released = change.ended.as_ref().is_some_and(|(of, why)| *of == self.token && *why == EndReason::Released);
        let is_all = released && change.held.is_none();
        if is_all {
            self.released.push(name.again());
        }
        is_all
    }

    /// Whether there is anything to be sent.
    pub fn has_any(&self) -> bool {
        !self.released.is_empty()
    }

    /// The released keys, with the effect on each.
    pub fn effects(self) -> impl Iterator<Item = (Name<'a>, LockChange)> {
        let Self { token, released } = self;
        released
            .into_iter()
            .map(move |name| (name, LockChange { ended: Some((token.clone(), EndReason::Released)), held: None }))
    }

    /// A panic has cut the command, which runs in `db`, short, so replicas have missed all of it.
    pub fn mark_for_repair(&self, db: i32) {
        for name in &self.released {
            repair::schedule(KeyRef { db, key: name.bytes() }, Vec::new());
        }
    }
}
