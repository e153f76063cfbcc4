//! Finding values that were renamed.
//!
//! The server reports that a value loses its key, but not whether it gets another. Keyspace events tell the new key, if the module may
//! listen to them ([`renames`]). For other unlinked values a scan goes through the keyspace, a little at a time. One scan serves all of
//! them and repeats until every value is found. A command that finds a value first ends the search for it.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use crate::core::key::KeyBuf;
use crate::core::unlinked::UnlinkedWatch;
use crate::server::ctx::Ctx;
use crate::server::key::Shown;
use crate::server::keyspace_scan::KeyspaceScan;
use crate::server::renames;

/// The values that are being searched.
#[derive(Default)]
pub struct RenameScan {
    /// Unlinked before the current round began; so this round will pass them, under whatever key they are.
    sought: Lost,
    /// Unlinked since then. The scan may have passed them already, so they need another round.
    next: Lost,
    scan: Option<KeyspaceScan>,
    /// When it last paused.
    rested: Option<Instant>,
}

/// The values that were unlinked within one round.
#[derive(Default)]
struct Lost {
    watches: Vec<UnlinkedWatch>,
    /// When `watches` reaches this length, watches of destroyed values are dropped.
    clean_at: usize,
    /// Whether to search every lock and sale: after a module panic it is unknown which ones were lost.
    everything: bool,
}

/// A usual number of unlinked values at once; memory for these is kept.
const USUAL: usize = 1_000;

/// The scan works for this part of its pause, which is a fifth of all time; so the scan and its overhead stay below a quarter.
const PART: f32 = 0.25;

/// The bounds of one piece of scanning.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_micros(700);

impl Lost {
    /// Whether any of the values still exists unfound. Drops other watches at the end of the list, so that each call is short.
    fn is_missing(&mut self) -> bool {
        while self.watches.pop_if(|watch| !watch.is_missing()).is_some() {}
        self.everything || !self.watches.is_empty()
    }

    /// Adds one watch. While a file is loaded nothing checks whether the values still exist, and loading may delete any number of them. So
    /// the list is cleaned whenever it is twice as long as after the last cleaning.
    fn watch(&mut self, watch: UnlinkedWatch) {
        if self.watches.len() >= self.clean_at.max(USUAL) {
            self.watches.retain(UnlinkedWatch::is_missing);
            self.watches.shrink_to(USUAL);
            self.clean_at = self.watches.len().saturating_mul(2);
        }
        self.watches.push(watch);
    }

    fn add(&mut self, mut other: Self) {
        self.watches.append(&mut other.watches);
        self.everything |= other.everything;
    }
}

impl RenameScan {
    /// Also searches the value of this watch.
    pub fn add(&mut self, watch: UnlinkedWatch) {
        self.next.watch(watch);
    }

    /// Searches every lock and every sale.
    pub fn for_everything(&mut self) {
        self.next.everything = true;
    }

    /// Databases were swapped: an unfound value may now be where the scan has already been.
    pub fn begin_again(&mut self) {
        self.next.add(std::mem::take(&mut self.sought));
    }

    /// Scans a little further through the values of these `types`; returns whether there is more to scan. Passes the keys of those to `found`
    /// that are unlinked.
    pub fn go_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        types: &[&CStr],
        is_unlinked: impl Fn(&mut Shown<'_>) -> Option<bool>,
        mut found: impl FnMut(KeyBuf),
    ) -> bool {
        if !(self.sought.is_missing() | self.next.is_missing()) {
            // The usual case: most unlinked values were deleted and are destroyed by now.
            renames::stop(ctx);
            self.rested = None;
            return false;
        }
        if self.scan.is_none() {
            self.scan = KeyspaceScan::new();
        }
        let Some(scan) = &mut self.scan else { return true };
        let rest = self.rested.map_or(SHORTEST, |rested| rested.elapsed().mul_f32(PART));
        let everything = self.sought.everything || self.next.everything;
        let went_round = scan.go(ctx, types, rest.clamp(SHORTEST, LONGEST), &mut |at, key| {
            if is_unlinked(key).is_some_and(|is_unlinked| is_unlinked || everything) {
                found(at.to_buf());
            }
        });
        if went_round {
            // Values that a whole round did not find have no key any more; the server will free them.
            self.sought = std::mem::take(&mut self.next);
        }
        self.rested = Some(Instant::now());
        true
    }
}
