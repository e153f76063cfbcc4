//! Holds of sales that expire because their time is over.

use std::mem;

use crate::core::deadline_index::DeadlineId;
use crate::core::key::KeyBuf;
use crate::core::sale::Changes;
use crate::core::time::{Millis, Now, UnixMs};
use crate::error::Error;
use crate::module::sale_session::SaleSession;
use crate::module::state;
use crate::server::call::RunAs;
use crate::server::cluster::Serves;
use crate::server::ctx::{Ctx, Level};
use crate::server::key::Name;
use crate::server::timer;

/// When to try again to append events that a stream refused without anybody to be told.
const STUCK: Millis = Millis(1_000);

/// When to ask again whether this node serves a sale.
const MOVING: Millis = Millis(50);

/// How many steps of the timer an expiration is whose event goes to a stream: an entry of a stream costs the server more than the expiration.
const EVENT_STEPS: usize = 4;

/// Why holds that are due cannot expire.
enum Refusal {
    /// The cluster is down, for every sale.
    Down,
    For(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

/// Lets holds expire that are due, in at most `budget` steps, and says when it wants to be called again.
pub fn tick(ctx: &mut Ctx<'_>, now: Now, budget: usize) -> timer::Next {
    if let Some(Some(until)) = state::enter(|state| state.refused.closed(now.ms, MOVING)) {
        return timer::Next::At(until);
    }
    let began_in = ctx.db();
    let mut left = budget;
    while left > 0 {
        let due = state::enter(|state| {
            let entry = state.sales.due(now.ms, &mut left)?;
            state.sales.key(entry).map(|at| (entry, at.to_buf()))
        });
        let Some(Some((entry, place))) = due else { break };
        left = left.saturating_sub(1);
        ctx.select(place.db);
        let mut session = SaleSession::new(ctx.reborrow(), Name::make(&place.key), RunAs::Module);
        match expire(&mut session, entry, now.ms, left) {
            Ok(steps) => left = left.saturating_sub(steps),
            // What holds for all sales is not asked for each.
            Err(Refusal::Down) => {
                left = 0;
                state::enter(|state| state.refused.close(now.ms.plus(MOVING)));
            }
            Err(Refusal::For(error)) => {
                let delay = put_off(&mut session, &place, &error);
                state::enter(|state| state.sales.reschedule(entry, state.refused.next(delay == MOVING, now.ms, delay)));
            }
        }
    }
    ctx.select(began_in);
    if let Some(Some(until)) = state::enter(|state| state.refused.closed(now.ms, MOVING)) {
        return timer::Next::At(until);
    }
    match state::enter(|state| state.sales.next()).flatten() {
        Some(at) if at.reached(now.ms) => timer::Next::Now,
        Some(at) => timer::Next::At(at),
        None => timer::Next::Never,
    }
}

/// Lets holds of a sale expire whose entry `entry` is due, in about `steps`, and says how many steps it was.
fn expire(session: &mut SaleSession<'_>, entry: DeadlineId, now: UnixMs, steps: usize) -> Result<usize, Refusal> {
    let Ok(Some(sale)) = session.sale() else {
        state::enter(|state| state.sales.remove(entry));
        return Ok(0);
    };
    let each = if sale.terms().stream.is_some() { EVENT_STEPS } else { 1 };
    let expirations = sale.expirations(now, steps.div_ceil(each));
    if sale.deadline_id != Some(entry) || expirations.is_empty() {
        if sale.deadline_id != Some(entry) {
            state::enter(|state| state.sales.remove(entry));
        }
        session.remember();
        return Ok(0);
    }
    // A node that does not serve the sale (yet, or any more) leaves its holds to the one that does.
    if session.ctx().flags().is_cluster() {
        match session.served() {
            Serves::These => {}
            Serves::Others => return Err(Refusal::For(Error::OnTheMove)),
            Serves::Nothing => return Err(Refusal::Down),
        }
    }
    let steps = expirations.len().saturating_mul(each);
    session.carry_out(&Changes { expirations, own: None })?;
    if let Some(sale) = session.sale()? {
        sale.stuck = false;
    }
    Ok(steps)
}

/// Says, once, why holds that are due cannot expire for now, and returns after what time to try again.
fn put_off(session: &mut SaleSession<'_>, place: &KeyBuf, error: &Error) -> Millis {
    // While a slot is on its way to another node this is as it should be.
    if *error == Error::OnTheMove {
        return MOVING;
    }
    let known = match session.sale() {
        Ok(Some(sale)) => mem::replace(&mut sale.stuck, true),
        _ => true,
    };
    if !known {
        let key = place.key.escape_ascii();
        session.ctx().log(Level::Warning, &format!("lockstock: holds of the sale {key} are due and wait: {error}"));
    }
    STUCK
}
