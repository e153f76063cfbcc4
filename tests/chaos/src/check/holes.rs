//! A loss has no holes: files and replicas are cut at one moment, so whatever was acknowledged before something that is still there
//! is there too.

use std::collections::BTreeMap;

use super::{Books, Verdict};
use crate::history::{Faults, History, SaleCall, SaleOp};

/// Orders of one sale that one server took between two of its losses.
#[derive(Default)]
struct Span<'a> {
    /// The first that is not in the books any more.
    gone: Option<&'a SaleOp>,
    /// The last that is.
    there: Option<&'a SaleOp>,
}

/// Judges all sales.
pub fn check(history: &History, books: &[Books], verdict: &mut Verdict) {
    for books in books {
        let mut orders: BTreeMap<&str, Vec<&SaleOp>> = BTreeMap::new();
        for op in history.orders.iter().filter(|op| op.call.sale == books.sale) {
            orders.entry(&op.call.id).or_default().push(op);
        }
        let mut spans: BTreeMap<(u16, usize), Span<'_>> = BTreeMap::new();
        for (id, ops) in orders {
            let Some(taken) = ops.iter().copied().find(|op| taken(op)) else { continue };
            let Some(number) = span(taken, &history.faults) else { continue };
            let span = spans.entry((taken.server, number)).or_default();
            if !books.orders.contains_key(id) {
                if span.gone.is_none_or(|first| taken.returned < first.returned) {
                    span.gone = Some(taken);
                }
            } else if ops.iter().all(|op| op.server == taken.server && self::span(op, &history.faults) == Some(number))
                && span.there.is_none_or(|last| taken.invoked > last.invoked)
            {
                // Nobody has asked for it since, so it was not taken again.
                span.there = Some(taken);
            }
        }
        for span in spans.values() {
            if let (Some(gone), Some(there)) = (span.gone, span.there)
                && gone.returned < there.invoked
            {
                let what = format!("{} is gone, and {}, which came later, is there", gone.call.id, there.call.id);
                verdict.blame("no holes", what, vec![format!("{gone:?}"), format!("{there:?}")]);
            }
        }
    }
}

/// Whether this request sold something for the first time.
fn taken(op: &SaleOp) -> bool {
    op.changed() && matches!(op.call.call, SaleCall::Take { .. } | SaleCall::Join { .. })
}

/// After how many losses of its server it was asked; `None` while one was going on.
fn span(op: &SaleOp, faults: &Faults) -> Option<usize> {
    let losses = || faults.losses.iter().filter(|loss| loss.server == op.server);
    let between = losses().all(|loss| op.returned < loss.at || op.invoked > loss.until);
    between.then(|| losses().filter(|loss| loss.until < op.invoked).count())
}
