//! Looking for values that were renamed.
//!
//! A value hears that it lost its name, not whether it got another. Keyspace events would tell, but subscribing to them slows down every
//! `DEL` and `EXPIRE` of the whole server. So a lost value that is not destroyed at once is looked for, key by key,
//! in small slices, until it is found. Commands that meet it first end the search.

use crate::core::lock::Lock;
use crate::core::place::Place;
use crate::core::stray::Watch;
use crate::server::ctx::Ctx;
use crate::server::key::Content;
use crate::server::walk::Walk;
use crate::store::sale_type::SaleValue;

/// What is being looked for.
#[derive(Default)]
pub struct Search {
    /// Lost before the current walk began: it will pass them, wherever they are.
    sought: Vec<Watch>,
    /// Lost since then.
    next: Vec<Watch>,
    /// Whether every lock and sale is sought, lost or not, by the current walk and by the next one.
    everything: (bool, bool),
    walk: Option<Walk>,
}

/// Steps of the walk in one turn, a few keys each: some ten microseconds.
const SLICE: usize = 200;

impl Search {
    /// Looks for the value under this watch, too.
    pub fn add(&mut self, watch: Watch) {
        self.next.push(watch);
    }

    /// Looks for every lock and every sale there is: after a fault nobody knows what was lost.
    pub fn for_everything(&mut self) {
        self.everything.1 = true;
    }

    /// Databases have traded places: what is being looked for may be where the walk has been already.
    pub fn begin_again(&mut self) {
        self.next.append(&mut self.sought);
    }

    /// Searches a little further; true if there is more to search. The places of lost values go to `found`.
    pub fn go_on(&mut self, ctx: &mut Ctx<'_>, mut found: impl FnMut(Place)) -> bool {
        self.sought.retain(Watch::is_missing);
        if self.sought.is_empty() && !self.everything.0 {
            // Most of what lost its name was deleted, and is gone by now.
            self.next.retain(Watch::is_missing);
            std::mem::swap(&mut self.sought, &mut self.next);
            self.everything = (self.everything.1, false);
            if self.sought.is_empty() && !self.everything.0 {
                return false;
            }
            if let Some(walk) = &mut self.walk {
                walk.restart();
            }
        }
        if self.walk.is_none() {
            self.walk = Walk::new();
        }
        let Some(walk) = &mut self.walk else { return true };
        let all = self.everything.0;
        let more = walk.go(ctx, SLICE, &mut |at, key| {
            let is_sought = match key.content::<Lock>() {
                Content::Value(lock) => all || lock.is_stray(),
                _ => matches!(key.content::<SaleValue>(), Content::Value(sale) if all || sale.is_stray()),
            };
            if is_sought {
                found(at.keep());
            }
        });
        if !more {
            // What a whole walk did not meet has no name any more; it waits for the server to free it.
            self.sought.clear();
            self.everything.0 = false;
        }
        !self.sought.is_empty() || !self.next.is_empty() || self.everything != (false, false)
    }
}
