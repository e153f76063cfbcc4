//! Looking for values that were renamed.
//!
//! A value hears that it lost its name, not whether it got another. Keyspace events tell, where the module may listen to them
//! ([`renames`]). What was lost without hearing is looked for, key by key, a little at a time, in one scan for all of it that goes round and
//! round until everything is found. Commands that meet a value first end the search for it.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use crate::core::key::KeyBuf;
use crate::core::lock::Lock;
use crate::core::unlinked::UnlinkedWatch;
use crate::module::sale_type::SaleValue;
use crate::server::ctx::Ctx;
use crate::server::datatype::DataType;
use crate::server::key::{Content, Shown};
use crate::server::keyspace_scan::KeyspaceScan;
use crate::server::renames;

/// What is being looked for.
#[derive(Default)]
pub struct RenameScan {
    /// Lost before the scan began its present round, which therefore passes them, wherever they are.
    sought: Lost,
    /// Lost since then: they may be behind it, so they have another round.
    next: Lost,
    scan: Option<KeyspaceScan>,
    /// When it rested last.
    rested: Option<Instant>,
}

/// What was lost within one round.
#[derive(Default)]
struct Lost {
    watches: Vec<UnlinkedWatch>,
    /// How many of them there may be before those are forgotten whose value is gone.
    session: usize,
    /// Whether that is every lock and sale: after a fault nobody knows what was lost.
    everything: bool,
}

/// The types of the values that are looked for.
const KINDS: [&CStr; 2] = [Lock::NAME, SaleValue::NAME];

/// So many may well be lost at once, time and again.
const USUAL: usize = 1_000;

/// It works for this part of the time that it has rested: a fifth of all time, so that with what goes with it a quarter is not reached.
const PART: f32 = 0.25;

/// It works so long at once.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_micros(700);

impl Lost {
    /// Whether any of it is still out there. What is at the end of the list is forgotten if it is not, so that nothing is looked at for
    /// long.
    fn is_missing(&mut self) -> bool {
        while self.watches.pop_if(|watch| !watch.is_missing()).is_some() {}
        self.everything || !self.watches.is_empty()
    }

    /// Watches for one more. While a file is loaded nobody looks whether the values are still there, and it may delete any number
    /// of them; so the list is gone through when it has become twice as long as it was after the last time.
    fn watch(&mut self, watch: UnlinkedWatch) {
        if self.watches.len() >= self.session.max(USUAL) {
            self.watches.retain(UnlinkedWatch::is_missing);
            self.watches.shrink_to(USUAL);
            self.session = self.watches.len().saturating_mul(2);
        }
        self.watches.push(watch);
    }

    fn add(&mut self, mut other: Self) {
        self.watches.append(&mut other.watches);
        self.everything |= other.everything;
    }
}

impl RenameScan {
    /// Looks for the value under this watch, too.
    pub fn add(&mut self, watch: UnlinkedWatch) {
        self.next.watch(watch);
    }

    /// Looks for every lock and every sale there is.
    pub fn for_everything(&mut self) {
        self.next.everything = true;
    }

    /// Databases have traded places: what is being looked for may be where the scan has been already.
    pub fn begin_again(&mut self) {
        self.next.add(std::mem::take(&mut self.sought));
    }

    /// Searches a little further; true if there is more to search. The places of lost values go to `found`.
    pub fn go_on(&mut self, ctx: &mut Ctx<'_>, mut found: impl FnMut(KeyBuf)) -> bool {
        if !(self.sought.is_missing() | self.next.is_missing()) {
            // As a rule: most of what lost its name was deleted, and is gone by now.
            renames::stop(ctx);
            self.rested = None;
            return false;
        }
        if self.scan.is_none() {
            self.scan = KeyspaceScan::new(ctx);
        }
        let Some(scan) = &mut self.scan else { return true };
        let rest = self.rested.map_or(SHORTEST, |rested| rested.elapsed().mul_f32(PART));
        let everything = self.sought.everything || self.next.everything;
        let went_round = scan.go(ctx, &KINDS, rest.clamp(SHORTEST, LONGEST), &mut |at, key| {
            if everything && is_ours(key) || is_lost(key) {
                found(at.to_buf());
            }
        });
        if went_round {
            // What a whole round did not meet has no name any more; it waits for the server to free it.
            self.sought = std::mem::take(&mut self.next);
        }
        self.rested = Some(Instant::now());
        true
    }
}

fn is_lost(key: &mut Shown<'_>) -> bool {
    match key.content::<Lock>() {
        Content::Value(lock) => lock.is_unlinked(),
        Content::Foreign => matches!(key.content::<SaleValue>(), Content::Value(sale) if sale.is_unlinked()),
        Content::Nothing => false,
    }
}

fn is_ours(key: &mut Shown<'_>) -> bool {
    matches!(key.content::<Lock>(), Content::Value(_)) || matches!(key.content::<SaleValue>(), Content::Value(_))
}
