//! The states of an order, and how each request changes them: the contract of `STOCK.*` for one id.

use super::Violation;
use crate::history::{Outcome, SaleAnswer, SaleCall, SaleOp, Seen, Time};
use crate::work::LINE;

/// One id of a sale that does not sell twice to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Never sold.
    None,
    /// Reserved, until a Unix time in milliseconds between these two.
    Held {
        units: i64,
        least: i64,
        most: i64,
    },
    Sold {
        units: i64,
    },
    /// In line since then, at the earliest. Its hold begins when it is served.
    Waiting {
        units: i64,
        hold: Option<Time>,
        since: i64,
    },
    Cancelled,
    /// Whether a confirmation that came too late was refused, which is final.
    Expired {
        units: i64,
        refused: bool,
    },
}

/// When a request was carried out, in Unix milliseconds of the servers' clock, at the earliest and at the latest.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub least: i64,
    pub most: i64,
}

/// What the order may be after the request, if it was `state` before; nothing if the answer was impossible.
pub fn after(state: State, op: &SaleOp, span: Span) -> Vec<State> {
    let before = by_itself(state, span);
    let outcomes = before.into_iter().flat_map(|state| match &op.outcome {
        Outcome::Done(answer) => answered(state, op, answer, span).into_iter().collect(),
        Outcome::Refused(_) | Outcome::Unwritten => vec![state],
        Outcome::Unknown(_) => unanswered(state, op.call.call, span),
    });
    outcomes.collect()
}

/// What the order may be without any request of its own: its hold lapses, or it is served.
fn by_itself(state: State, span: Span) -> Vec<State> {
    match state {
        State::Held { units, least, most } => {
            let held = (span.least <= most).then_some(state);
            let expired = (span.most >= least).then_some(State::Expired { units, refused: false });
            held.into_iter().chain(expired).collect()
        }
        State::Waiting { units, hold: None, .. } => vec![state, State::Sold { units }],
        State::Waiting { units, hold: Some(hold), since } => {
            let hold = i64::try_from(hold / 1_000).expect("a short time");
            let served = State::Held { units, least: since + hold, most: span.most.saturating_add(hold) };
            [state].into_iter().chain(by_itself(served, span)).collect()
        }
        _ => vec![state],
    }
}

/// All that a request may have made of the order.
fn unanswered(state: State, call: SaleCall, span: Span) -> Vec<State> {
    if let (State::None, SaleCall::Join { units, hold }) = (state, call) {
        let mut states = unanswered(state, SaleCall::Take { units, hold }, span);
        states.push(State::Waiting { units, hold, since: span.least });
        return states;
    }
    let held = |units, time: Time| {
        let time = i64::try_from(time / 1_000).expect("a short time");
        State::Held { units, least: span.least + time, most: span.most.saturating_add(time) }
    };
    let changed = match (state, call) {
        (State::None, SaleCall::Take { units, hold: Some(hold) }) => held(units, hold),
        (State::None, SaleCall::Take { units, hold: None }) | (State::Held { units, .. }, SaleCall::Confirm) => {
            State::Sold { units }
        }
        (State::Expired { units, refused: false }, SaleCall::Confirm) => {
            return vec![state, State::Sold { units }, State::Expired { units, refused: true }];
        }
        (State::Held { units, .. }, SaleCall::Extend(time)) => held(units, time),
        (State::Held { .. } | State::Sold { .. } | State::Waiting { .. }, SaleCall::Cancel) => State::Cancelled,
        (State::Held { units, .. }, SaleCall::ConfirmKeep(keep)) if keep <= units => State::Sold { units: keep },
        (State::Expired { units, refused: false }, SaleCall::ConfirmKeep(keep)) if keep <= units => {
            return vec![state, State::Sold { units: keep }, State::Expired { units, refused: true }];
        }
        (State::Held { units, least, most }, SaleCall::CancelKeep(keep)) if keep < units => {
            State::Held { units: keep, least, most }
        }
        (State::Sold { units }, SaleCall::CancelKeep(keep)) if keep < units => State::Sold { units: keep },
        _ => return vec![state],
    };
    vec![state, changed]
}

/// What the answer says the order is now, if it fits what the order was.
fn answered(state: State, op: &SaleOp, answer: &SaleAnswer, span: Span) -> Option<State> {
    // While orders wait, the units that remain are for them.
    let lined = op.call.sale == LINE;
    let (call, joins) = match op.call.call {
        SaleCall::Join { units, hold } => (SaleCall::Take { units, hold }, true),
        call => (call, false),
    };
    let (status, units, remaining, deadline) = match answer {
        SaleAnswer::Order(seen) => return (call == SaleCall::See).then(|| looked_at(state, seen.as_ref())).flatten(),
        SaleAnswer::Status { status, units, remaining, deadline } => (status.as_str(), *units, *remaining, *deadline),
    };
    let held_from = |time: Time| {
        let time = i64::try_from(time / 1_000).expect("a short time");
        (span.least + time..=span.most.saturating_add(time)).contains(&deadline)
    };
    let held = |units| State::Held { units, least: deadline, most: deadline };
    let stands = || match state {
        State::Held { units: has, .. } => units == has && deadline_fits(state, deadline),
        State::Sold { units: has } => units == has && deadline == -1,
        _ => units == 0 && deadline == -1,
    };
    let fits = |fits: bool, state| fits.then_some(state);
    if let SaleCall::ConfirmKeep(keep) | SaleCall::CancelKeep(keep) = call
        && let Some(kept) = kept(state, call, keep, answer, lined)
    {
        return kept;
    }
    // What was not said of KEEP is as without it.
    let call = match call {
        SaleCall::ConfirmKeep(_) => SaleCall::Confirm,
        SaleCall::CancelKeep(_) => SaleCall::Cancel,
        call => call,
    };
    // An answer that leaves the order alone tells the deadline of a hold exactly.
    let same = || match state {
        State::Held { units, .. } => held(units),
        state => state,
    };
    match (status, call, state) {
        ("QUEUED", SaleCall::Take { units: asked, hold }, State::None) => {
            fits(joins && units == 0 && deadline == -1, State::Waiting { units: asked, hold, since: span.least })
        }
        ("QUEUED", SaleCall::Take { .. } | SaleCall::Confirm | SaleCall::Extend(_), State::Waiting { .. }) => {
            fits(units == 0 && deadline == -1, state)
        }
        ("SOLDOUT", SaleCall::Take { .. }, State::None) => {
            fits((remaining == 0 || lined) && units == 0 && !joins, state)
        }
        ("INSUFFICIENT", SaleCall::Take { units: asked, .. }, State::None) => {
            fits(units == 0 && (1..asked).contains(&remaining) && !joins, state)
        }
        ("OK", SaleCall::Take { units: asked, hold: None }, State::None) => {
            fits(units == asked && deadline == -1 && remaining >= 0, State::Sold { units })
        }
        ("OK", SaleCall::Take { units: asked, hold: Some(time) }, State::None) => {
            fits(units == asked && held_from(time) && remaining >= 0, held(units))
        }
        ("OK", SaleCall::Confirm, State::Held { units: has, .. } | State::Expired { units: has, refused: false }) => {
            fits(units == has && deadline == -1, State::Sold { units })
        }
        ("OK", SaleCall::Cancel, State::Held { .. } | State::Sold { .. } | State::Waiting { .. }) => {
            fits(units == 0, State::Cancelled)
        }
        ("OK", SaleCall::Extend(time), State::Held { units: has, .. }) => {
            fits(units == has && held_from(time), held(units))
        }
        ("DUPLICATE", SaleCall::Take { .. }, State::Held { .. } | State::Sold { .. })
        | ("DUPLICATE", SaleCall::Confirm | SaleCall::Extend(_), State::Sold { .. })
        | ("DUPLICATE", SaleCall::Cancel, State::Cancelled) => fits(stands(), same()),
        ("CANCELLED", SaleCall::Take { .. } | SaleCall::Confirm | SaleCall::Extend(_), State::Cancelled)
        | ("EXPIRED", SaleCall::Take { .. } | SaleCall::Cancel | SaleCall::Extend(_), State::Expired { .. })
        | ("NOORDER", SaleCall::Confirm | SaleCall::Cancel | SaleCall::Extend(_), State::None) => {
            fits(units == 0, state)
        }
        ("EXPIRED", SaleCall::Confirm, State::Expired { units: has, refused }) => {
            fits(units == 0 && (refused || remaining < has || lined), State::Expired { units: has, refused: true })
        }
        _ => None,
    }
}

/// What the answer to a request with KEEP says the order is now, if the order can keep something: nothing of these, if the answer is
/// impossible. `None` if the request is answered as without KEEP.
#[expect(clippy::option_option, reason = "whether it is judged here, and what comes of it")]
fn kept(state: State, call: SaleCall, keep: i64, answer: &SaleAnswer, lined: bool) -> Option<Option<State>> {
    let SaleAnswer::Status { status, units, remaining, deadline } = answer else { return None };
    let units = *units;
    Some(match (status.as_str(), call, state) {
        (
            "OK",
            SaleCall::ConfirmKeep(_),
            State::Held { units: had, .. } | State::Expired { units: had, refused: false },
        ) => (keep <= had && units == keep && *deadline == -1).then_some(State::Sold { units }),
        ("EXPIRED", SaleCall::ConfirmKeep(_), State::Expired { units: had, refused }) => {
            let refuses = refused || (keep <= had && (*remaining < keep || lined));
            (units == 0 && refuses).then_some(State::Expired { units: had, refused: true })
        }
        ("OK", SaleCall::CancelKeep(_), State::Held { units: had, .. }) => {
            let held = State::Held { units, least: *deadline, most: *deadline };
            (keep < had && units == keep && deadline_fits(state, *deadline)).then_some(held)
        }
        ("OK", SaleCall::CancelKeep(_), State::Sold { units: had }) => {
            (keep < had && units == keep && *deadline == -1).then_some(State::Sold { units })
        }
        ("DUPLICATE", SaleCall::CancelKeep(_), State::Held { units: has, .. }) => {
            let held = State::Held { units, least: *deadline, most: *deadline };
            (keep >= has && units == has && deadline_fits(state, *deadline)).then_some(held)
        }
        ("DUPLICATE", SaleCall::CancelKeep(_), State::Sold { units: has }) => {
            (keep >= has && units == has && *deadline == -1).then_some(state)
        }
        ("QUEUED", SaleCall::CancelKeep(_), State::Waiting { .. }) => (units == 0 && *deadline == -1).then_some(state),
        ("OK", SaleCall::CancelKeep(_), _) => None,
        _ => return None,
    })
}

fn looked_at(state: State, seen: Option<&Seen>) -> Option<State> {
    let Some(seen) = seen else { return (state == State::None).then_some(state) };
    match (state, seen.state.as_str()) {
        (State::Held { units, .. }, "held") => (units == seen.units && deadline_fits(state, seen.deadline))
            .then_some(State::Held { units, least: seen.deadline, most: seen.deadline }),
        (State::Sold { units }, "sold") => (units == seen.units).then_some(state),
        (State::Waiting { .. }, "waiting") => (seen.units == 0).then_some(state),
        (State::Cancelled, "cancelled") | (State::Expired { .. }, "expired") => Some(state),
        _ => None,
    }
}

fn deadline_fits(state: State, deadline: i64) -> bool {
    matches!(state, State::Held { least, most, .. } if (least..=most).contains(&deadline))
}

/// The shortest beginning of an order's requests that cannot have happened.
pub fn blame(sale: &str, id: &str, ops: &[&SaleOp], what: &str) -> Violation {
    let story = ops.iter().map(|op| format!("{op:?}")).collect();
    Violation { rule: "orders", what: format!("{id} of {sale}: {what}"), story }
}
