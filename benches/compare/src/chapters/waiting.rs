//! Waiting for a lock: parked in the server, or with NOTIFY. The memory of a waiter, and the cost of a hand-over.

use harness::eventually;
use lockstock_bench::table::{Sheet, number};

use super::instructions::{self, count_among};
use super::{cpu, memory, table};
use crate::contest::{Load, Way, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::stand::{Feeds, Side};
use crate::ways::{Hold, notified, queue, token};

/// How many requests wait when their memory is measured.
const WAITERS: i64 = 10_000;

pub fn run(lab: &mut Lab) {
    weights(lab);
    for contenders in [25, 200, 1_000] {
        hand_overs(lab, contenders);
    }
    if instructions::works() {
        for feeds in Feeds::ALL {
            hand_over_instructions(lab, feeds);
        }
    }
}

fn weights(lab: &mut Lab) {
    let waiters = usize::try_from(WAITERS).expect("a small number");
    let mut sheet = Sheet::new(["way", "bytes each", "all, MB"]);
    let mut row = |what: &str, bytes: f64| {
        sheet.row([what.into(), number(bytes), number(bytes * WAITERS as f64 / 1e6)]);
        bytes
    };
    lab.progress("memory: waiters with NOTIFY on one connection");
    let bytes = row("LOCK.ACQUIRE WAIT NOTIFY, all on one connection", notified_waiters(lab));
    lab.progress("memory: parked waiters");
    row(
        "LOCK.ACQUIRE WAIT, each parked",
        memory::waiter(lab, Side::Ours, "LOCK.ACQUIRE line TOKEN {} WAIT 0", waiters),
    );
    row("BLPOP, each parked", memory::waiter(lab, Side::Plain, "BLPOP line{} 0", waiters));
    lab.paper.found("bytes of a waiter with NOTIFY", AtMost(1_024.0), bytes);
    lab.paper.found("10 000 waiters with NOTIFY on one connection, MB", AtMost(10.0), bytes * WAITERS as f64 / 1e6);
    let title = format!("Memory of {} waiters, beyond that of their connections", number(WAITERS as f64));
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// Bytes that the server takes for a request that waits with NOTIFY, the buffers of its connection among them.
fn notified_waiters(lab: &mut Lab) -> f64 {
    let stand = lab.stand(Side::Ours);
    stand.cmd("FLUSHALL");
    stand.cmd("LOCK.ACQUIRE line TOKEN holder PX 600000");
    let mut client = stand.server.client();
    client.expect("PING", harness::ANY);
    let before = stand.info("memory", "used_memory");
    for waiter in 0..usize::try_from(WAITERS).expect("a small number") {
        client.expect(format!("LOCK.ACQUIRE line TOKEN {} WAIT 0 NOTIFY granted", token(waiter)), harness::ANY);
    }
    eventually("all wait", || stand.info("lockstock", "lockstock_lock_waiters") == WAITERS);
    let after = stand.info("memory", "used_memory");
    drop(client);
    stand.settle();
    stand.cmd("FLUSHALL");
    (after - before) as f64 / WAITERS as f64
}

fn ways(contenders: usize) -> [Way; 4] {
    let hold = Hold::Works { time: std::time::Duration::ZERO };
    [notified::together(contenders), notified::apart(), queue::lock(hold), queue::list(hold)]
}

/// So many contenders hand one lock over.
pub fn load(lab: &Lab, contenders: usize) -> Load {
    Load {
        members: contenders,
        warm: contenders.max(500) as u64,
        goal: lab.plan.either(40_000, 10_000),
        drains: false,
        rounds: lab.plan.rounds(),
        patience: lab.plan.patience() * 2,
    }
}

fn hand_overs(lab: &mut Lab, contenders: usize) {
    let title = format!("Handing over to parked waiters and to those with NOTIFY, {contenders} contenders");
    let load = load(lab, contenders);
    let outcomes = contest(lab, &title, &ways(contenders), load);
    table(lab, &title, &outcomes);
    let what = format!("server CPU for a hand-over, NOTIFY on one connection ÷ parked, {contenders} contenders");
    lab.paper.found(&what, AtMost(1.0), cpu(&outcomes, 2));
    let what = format!("server CPU for a hand-over, NOTIFY on connections ÷ parked, {contenders} contenders");
    lab.paper.found(&what, AtMost(1.0), outcomes[1].ratio(&outcomes[2], |turn| turn.cpu));
}

fn hand_over_instructions(lab: &mut Lab, feeds: Feeds) {
    const CONTENDERS: usize = 25;

    let mut sheet = Sheet::new(["way", "instructions", "÷ parked"]);
    let mut rows = vec![];
    for way in ways(CONTENDERS) {
        lab.progress(&format!("instructions of a hand-over{}: {}", feeds.name(), way.name));
        rows.push((way.name.clone(), count_among(&way, feeds, (CONTENDERS, false), lab.plan.either(4_000, 2_000))));
    }
    let (parked, list) = (rows[2].1, rows[3].1);
    for (name, count) in &rows {
        sheet.row([name.clone(), number(*count), number(count / parked)]);
    }
    let mut found = |what: &str, limit, ratio| {
        lab.paper.found(&format!("instructions for a hand-over, {what}{}", feeds.name()), AtMost(limit), ratio);
    };
    found("NOTIFY on one connection ÷ parked", 1.0, rows[0].1 / parked);
    found("NOTIFY on connections ÷ parked", 1.0, rows[1].1 / parked);
    found("against BLPOP, LPUSH", 1.5, parked / list);
    let title = format!("Instructions for a hand-over, {CONTENDERS} contenders{}", feeds.name());
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}
