//! Requests as words, and replies as answers.

use harness::{Reply, Words};

use crate::history::{CartAnswer, CartCall, Five, LockAnswer, LockCall, Mode, SaleAnswer, SaleCall, Seen, Time};

/// A request about the locks `keys`.
pub fn lock(keys: &[String], call: &LockCall) -> Words {
    line(keys, call).into()
}

/// The same, whose outcome is published on `channel`.
pub fn lock_with_notice(keys: &[String], call: &LockCall, channel: &str) -> Words {
    format!("{} NOTIFY {channel}", line(keys, call)).into()
}

fn line(keys: &[String], call: &LockCall) -> String {
    let (many, names) = (keys.len() > 1, keys.join(" "));
    let counted = format!("{} {names}", keys.len());
    match call {
        LockCall::Acquire { token, mode, lease, wait, session } => {
            let command = if many { format!("LOCK.MACQUIRE {counted}") } else { format!("LOCK.ACQUIRE {names}") };
            let mode = match mode {
                Mode::Exclusive => String::new(),
                Mode::Shared => "SHARED".into(),
                Mode::Limit(n) => format!("LIMIT {n}"),
            };
            let wait = wait.map_or_else(String::new, |wait| format!("WAIT {}", ms(wait)));
            let session = if *session { "SESSION" } else { "" };
            format!("{command} TOKEN {token} PX {} {mode} {wait} {session}", ms(*lease))
        }
        LockCall::Extend { token, lease } => format!("LOCK.EXTEND {names} {token} PX {}", ms(*lease)),
        LockCall::Release { token } if many => format!("LOCK.MRELEASE {token} {counted}"),
        LockCall::Release { token } => format!("LOCK.RELEASE {names} {token}"),
        LockCall::Look => format!("LOCK.INFO {names}"),
    }
}

/// The meaning of the reply to a request about locks.
pub fn lock_answer(call: &LockCall, reply: &Reply) -> LockAnswer {
    match (call, reply) {
        (LockCall::Acquire { .. }, Reply::Nil(_)) => LockAnswer::Null,
        (LockCall::Acquire { .. }, grant) => LockAnswer::Granted(grant.at(1).int()),
        (LockCall::Look, Reply::Nil(_)) => LockAnswer::Seen { holders: vec![], waiters: vec![] },
        (LockCall::Look, info) => {
            let holder = |row: &Reply| (row.field("token").text(), row.field("fence").int());
            let holders = info.field("holders").items().iter().map(holder).collect();
            let waiters = info.field("waiters").items().iter().map(|row| row.field("token").text()).collect();
            LockAnswer::Seen { holders, waiters }
        }
        (_, count) => LockAnswer::Count(usize::try_from(count.int()).expect("a count")),
    }
}

/// A request about the order `id`.
pub fn order(sale: &str, id: &str, buyer: &str, call: SaleCall) -> Words {
    let take = |units, hold: Option<Time>| {
        let hold = hold.map_or_else(String::new, |hold| format!("HOLD {}", ms(hold)));
        format!("STOCK.DECR_ONCE {sale} {id} QTY {units} BUYER {buyer} {hold}")
    };
    let words = match call {
        SaleCall::Take { units, hold } => take(units, hold),
        SaleCall::Join { units, hold } => take(units, hold) + " WAITLIST",
        SaleCall::Confirm => format!("STOCK.CONFIRM {sale} {id}"),
        SaleCall::Cancel => format!("STOCK.CANCEL {sale} {id}"),
        SaleCall::ConfirmKeep(units) => format!("STOCK.CONFIRM {sale} {id} KEEP {units}"),
        SaleCall::CancelKeep(units) => format!("STOCK.CANCEL {sale} {id} KEEP {units}"),
        SaleCall::Extend(span) => format!("STOCK.EXTEND {sale} {id} PX {}", ms(span)),
        SaleCall::See => format!("STOCK.ORDER {sale} {id}"),
    };
    words.into()
}

/// The meaning of the reply to a request about an order.
pub fn sale_answer(call: SaleCall, reply: &Reply) -> SaleAnswer {
    match (call, reply) {
        (SaleCall::See, Reply::Nil(_)) => SaleAnswer::Order(None),
        (SaleCall::See, order) => {
            let (state, units) = (order.field("state").text(), order.field("units").int());
            SaleAnswer::Order(Some(Seen { state, units, deadline: order.field("deadline").int() }))
        }
        (_, answer) => {
            let number = |place: usize| answer.at(place).int();
            let status = answer.at(0).text();
            SaleAnswer::Status { status, units: number(1), remaining: number(2), deadline: number(3) }
        }
    }
}

/// A request about the order `id` in several `sales`.
pub fn cart(sales: &[String], id: &str, buyer: &str, call: &CartCall) -> Words {
    let count = sales.len();
    let words = match call {
        CartCall::Take { units, hold } => {
            let legs: Vec<String> = sales.iter().zip(units).map(|(sale, units)| format!("{sale} {units}")).collect();
            let hold = hold.map_or_else(String::new, |hold| format!("HOLD {}", ms(hold)));
            format!("STOCK.MDECR_ONCE {id} {count} {} BUYER {buyer} {hold}", legs.join(" "))
        }
        CartCall::Confirm => format!("STOCK.MCONFIRM {id} {count} {}", sales.join(" ")),
        CartCall::Cancel => format!("STOCK.MCANCEL {id} {count} {}", sales.join(" ")),
    };
    words.into()
}

/// The meaning of the reply to a request about several sales.
pub fn cart_answer(reply: &Reply) -> CartAnswer {
    let five = |five: &Reply| {
        let number = |place: usize| five.at(place).int();
        Five { status: five.at(0).text(), units: number(1), remaining: number(2), deadline: number(3) }
    };
    CartAnswer { status: reply.at(0).text(), fives: reply.items().iter().skip(1).map(five).collect() }
}

fn ms(time: Time) -> Time {
    time / 1_000
}
