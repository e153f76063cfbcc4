//! Expiring holds of sales, and serving the orders that wait for their units.

use std::mem;

use crate::core::deadline_index::DeadlineId;
use crate::core::pause::Pause;
use crate::core::time::{Millis, Now, UnixMs, Wakeup};
use crate::error::Error;
use crate::module::sale_transaction::SaleTransaction;
use crate::module::sale_type::SaleValue;
use crate::module::state;
use crate::server::args::Name;
use crate::server::call::RunAs;
use crate::server::cluster::{self, Serves};
use crate::server::ctx::{Ctx, Level};
use crate::server::key::{Access, Key};

/// When to retry after a stream refused the events, in milliseconds. No client is there to get the error.
const STUCK: Millis = Millis(1_000);

/// When to check again whether this node serves a sale.
const MOVING: Millis = Millis(50);

/// The cost in timer steps of an expiration with a stream event: the stream entry costs the server more than the expiration.
const EVENT_STEPS: usize = 4;

/// Expires due holds, in at most `budget` steps, and returns when to call it again.
pub fn tick(ctx: &mut Ctx<'_>, now: Now, budget: usize) -> Wakeup {
    if let Some(Some(until)) = state::enter(|state| state.refused.down.look(now.ms)) {
        return Wakeup::At(until);
    }
    state::enter(|state| {
        state.sales.look(now.ms);
        while let Some(entry) = state.refused.take_due(now.ms) {
            state.sales.reschedule(entry, now.ms);
        }
    });
    let began_in = ctx.db();
    let mut left = budget;
    while left > 0 {
        let due = state::enter(|state| {
            let entry = state.sales.due(now.ms)?;
            state.sales.key(entry).map(|at| (entry, at.to_buf()))
        });
        let Some(Some((entry, key))) = due else { break };
        left = left.saturating_sub(1);
        ctx.select(key.as_key().db);
        let name = Name::make(key.as_key().key);
        match expire(ctx, &name, entry, now.ms, left) {
            Ok(steps) => {
                left = left.saturating_sub(steps);
                // The rest of a long line, or of many holds, waits until the other due sales have had a turn.
                state::enter(|state| state.sales.rest(entry, now.ms));
            }
            // The cluster is down. This affects all sales, so do not ask for each of them.
            Err(Error::Unowned) => {
                left = 0;
                state::enter(|state| state.refused.down = Pause::begin(now.ms, MOVING));
            }
            Err(error) => {
                let delay = put_off(ctx, &name, &error, now.ms);
                state::enter(|state| {
                    // The entry is due again when its retry is.
                    state.sales.reschedule(entry, UnixMs::MAX);
                    state.refused.put_off(delay == MOVING, now.ms, delay, entry);
                });
            }
        }
    }
    ctx.select(began_in);
    if let Some(Some(until)) = state::enter(|state| state.refused.down.look(now.ms)) {
        return Wakeup::At(until);
    }
    let next = state::enter(|state| state.sales.next().into_iter().chain(state.refused.next()).min());
    Wakeup::from(next.flatten()).seen_at(now.ms)
}

/// Expires holds of the sale `name` with the due entry `entry`, in about `steps`, and returns the number of steps.
fn expire(ctx: &mut Ctx<'_>, name: &Name<'_>, entry: DeadlineId, now: UnixMs, steps: usize) -> Result<usize, Error> {
    let mut transaction = SaleTransaction::new(ctx.reborrow(), RunAs::Module);
    let asked = transaction.ask(name.arg(), |sale, changes| {
        let each = if sale.terms().stream.is_some() { EVENT_STEPS } else { 1 };
        let due = sale.overdue(now, steps.div_ceil(each));
        let steps = due.len().saturating_mul(each);
        changes.due_first = due;
        Ok((sale.deadline_id == Some(entry), steps))
    });
    // The key may hold another sale, or none.
    let (known, steps) = asked.ok().flatten().unwrap_or_default();
    if !known {
        state::enter(|state| state.sales.remove(entry));
    }
    if !known || steps == 0 {
        transaction.reschedule();
        return Ok(0);
    }
    // If this node does not serve the sale (yet, or any more), it leaves the holds to the node that does.
    if cluster::is_node() {
        match cluster::serves(transaction.ctx(), name) {
            Serves::These => {}
            Serves::Others => return Err(Error::OnTheMove),
            Serves::Nothing => return Err(Error::Unowned),
        }
    }
    transaction.carry_out(None)?;
    if let Some(sale) = transaction.sale(0)? {
        sale.stuck = false;
    }
    Ok(steps)
}

/// Logs once why due holds and waiting orders of the sale cannot be dealt with at `now`, and returns when to try again.
fn put_off(ctx: &mut Ctx<'_>, name: &Name<'_>, error: &Error, now: UnixMs) -> Millis {
    // Expected while a slot is being migrated.
    if *error == Error::OnTheMove {
        return MOVING;
    }
    let mut open = Key::open(ctx.reborrow(), name, Access::Write);
    if let (Ok(Some(sale)), ctx) = open.content_and_ctx::<SaleValue>()
        && !mem::replace(&mut sale.stuck, true)
    {
        let holds = sale.next_expiration().is_some_and(|next| next.reached(now));
        let key = name.bytes().escape_ascii();
        let told = if holds {
            format!("lockstock: holds of the sale {key} are due and wait: {error}")
        } else {
            format!("lockstock: orders on the waitlist of the sale {key} cannot be served: {error}")
        };
        ctx.log(Level::Warning, &told);
    }
    STUCK
}
