//! The memory of a lock, a waiter and an order.

use std::time::Duration;

use harness::{Client, eventually};
use lockstock_bench::table::{Sheet, number};

use super::DEEP;
use crate::contest::{Load, Way, turn};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::stand::Side;
use crate::ways::{lock, sale};

pub fn run(lab: &mut Lab) {
    let count = lab.plan.either(1_000_000, 200_000);
    let mut sheet = Sheet::new(["what", "bytes, ours ÷ theirs", "ours", "theirs", "theirs is"]);
    let mut row = |lab: &mut Lab, what: &str, limit: Option<f64>, [ours, theirs]: [Way; 2]| {
        lab.progress(&format!("memory: {what}"));
        let name = theirs.name.clone();
        let (ours, theirs) = (weigh(lab, &ours, count), weigh(lab, &theirs, count));
        sheet.row([what.into(), number(ours / theirs), number(ours), number(theirs), name]);
        if let Some(limit) = limit {
            lab.paper.found(&format!("memory of {what}"), AtMost(limit), ours / theirs);
        }
    };
    let [ours, theirs] = lock::taking(DEEP);
    row(lab, "a held lock, 36-byte token", Some(1.3), [ours, theirs]);
    let order = |buyer| [sale::decr_once(DEEP, buyer, sale::PLENTY, false), sale::sadd(DEEP, buyer)];
    row(lab, "an order, integers in sequence", Some(0.35), order(sale::everybody));
    row(lab, "an order, UUIDs", Some(0.35), order(sale::uuid));
    row(lab, "a hold with buyer and reference", None, [sale::full(DEEP, 2), sale::full_by_hand(DEEP, 2)]);
    lab.progress("memory: a waiter");
    let (ours, theirs) = (
        waiter(lab, Side::Ours, "LOCK.ACQUIRE line TOKEN {} WAIT 0", 1_000),
        waiter(lab, Side::Plain, "BLPOP line{} 0", 1_000),
    );
    sheet.row(["a waiter".into(), number(ours / theirs), number(ours), number(theirs), "BLPOP".into()]);
    let title = format!("Memory, of {} each (of 1 000 waiters)", number(count as f64));
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// Bytes that the server takes for each.
fn weigh(lab: &mut Lab, way: &Way, count: u64) -> f64 {
    let stand = lab.stand(way.side);
    stand.cmd("FLUSHALL");
    (way.prepare)(stand);
    let before = stand.info("memory", "used_memory");
    let patience = Duration::from_mins(2);
    let load = Load { members: CONNECTIONS, warm: 0, goal: count, drains: true, rounds: 1, patience };
    let made = turn(stand, way, load).done;
    let bytes = stand.info("memory", "used_memory") - before;
    stand.cmd("FLUSHALL");
    bytes as f64 / made
}

/// Bytes that the server takes for a client that waits, beyond those for one that does not.
pub fn waiter(lab: &mut Lab, side: Side, command: &str, waiters: usize) -> f64 {
    let stand = lab.stand(side);
    stand.cmd("FLUSHALL");
    if side == Side::Ours {
        stand.cmd("LOCK.ACQUIRE line TOKEN holder PX 600000");
    }
    let mut clients: Vec<Client> = (0..waiters).map(|_| stand.server.client()).collect();
    for client in &mut clients {
        client.expect("PING", harness::ANY);
    }
    let before = stand.info("memory", "used_memory");
    for (number, client) in clients.iter_mut().enumerate() {
        // A list's waiters all wait for one list, a lock's each have a token of its own.
        let own = if side == Side::Ours { crate::ways::token(number) } else { String::new() };
        client.send(command.replace("{}", &own));
    }
    eventually("all wait", || {
        stand.info("clients", "blocked_clients") == i64::try_from(waiters).expect("a small number")
    });
    let after = stand.info("memory", "used_memory");
    drop(clients);
    stand.settle();
    (after - before) as f64 / waiters as f64
}
