//! How long they take, by the million, to be saved, to be loaded, and to be recovered from the append-only file.

use std::fs;
use std::time::{Duration, Instant};

use lockstock_bench::table::{Sheet, number};

use super::DEEP;
use crate::contest::{Load, Way, turn};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::stand::{Feeds, Side, Stand};
use crate::ways::{lock, sale};

const MILLION: f64 = 1e6;

pub fn run(lab: &mut Lab) {
    let count = lab.plan.either(1_000_000, 100_000);
    let mut sheet = Sheet::new([
        "what",
        "way",
        "RDB saved, s per million",
        "RDB bytes each",
        "RDB loaded, CPU s per million",
        "AOF bytes each",
        "AOF recovered, CPU s per million",
    ]);
    let [ours, theirs] = lock::taking(DEEP);
    let uuids = || [sale::decr_once(DEEP, sale::uuid, sale::PLENTY, false), sale::sadd(DEEP, sale::uuid)];
    let holds = |orders| [sale::full(DEEP, orders), sale::full_by_hand(DEEP, orders)];
    for (what, ways) in [
        ("locks", [ours, theirs]),
        ("orders, UUIDs", uuids()),
        ("holds with a reference, a buyer for each", holds(1)),
        ("holds with a reference, a buyer for three", holds(3)),
    ] {
        let mut loads = vec![];
        for way in ways {
            lab.progress(&format!("persistence: {what}, {}", way.name));
            let [saved, bytes, loaded] = by_snapshot(&way, count);
            loads.push(loaded);
            let [log, recovered] = by_log(&way, count);
            sheet.row([
                what.into(),
                way.name,
                number(saved),
                number(bytes),
                number(loaded),
                number(log),
                number(recovered),
            ]);
        }
        if what.starts_with("holds") {
            let goal = format!("loading {what} from an RDB file, against HSET, ZADD, HINCRBY");
            lab.paper.found(&goal, AtMost(1.0), loads[0] / loads[1]);
        }
    }
    lab.show(&format!("\n## Persistence, of {} each\n\n{}", number(count as f64), sheet.show()));
    restore(lab);
}

/// A sale in one payload: how long the server does nothing else.
fn restore(lab: &mut Lab) {
    let count = lab.plan.either(5_000_000, 500_000);
    let mut sheet = Sheet::new(["what", "payload, bytes each", "server CPU, s", "s per million"]);
    for (what, orders) in [("a buyer for each", 1), ("a buyer for three", 3)] {
        lab.progress(&format!("persistence: RESTORE, {what}"));
        let mut stand = Stand::start(Side::Ours, Feeds::Nobody);
        let made = fill(&mut stand, &sale::full(DEEP, orders), count);
        let payload = stand.cmd("DUMP sale").bytes();
        stand.cmd("DEL sale");
        let before = stand.reading().cpu;
        stand.cmd([b"RESTORE".as_slice(), b"sale", b"0", &payload]);
        let seconds = (stand.reading().cpu - before) / 1e6;
        let each = number(payload.len() as f64 / made);
        sheet.row([what.into(), each, number(seconds), number(seconds * MILLION / made)]);
        let goal = format!("seconds of the server to RESTORE a sale of five million holds, {what}");
        lab.paper.found(&goal, AtMost(2.0), if lab.plan.quick { f64::NAN } else { seconds });
    }
    let title = format!("RESTORE of a sale of {} holds with a reference", number(count as f64));
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

fn fill(stand: &mut Stand, way: &Way, count: u64) -> f64 {
    let patience = Duration::from_mins(4);
    turn(stand, way, Load { members: CONNECTIONS, warm: 0, goal: count, drains: true, rounds: 1, patience }).done
}

/// Seconds to save, bytes each, seconds to load.
fn by_snapshot(way: &Way, count: u64) -> [f64; 3] {
    let mut stand = Stand::start(way.side, Feeds::Nobody);
    let made = fill(&mut stand, way, count);
    let begun = Instant::now();
    stand.cmd("SAVE");
    let saved = begun.elapsed().as_secs_f64();
    let bytes = fs::metadata(stand.server.dir().join("dump.rdb")).expect("the file that was saved").len();
    stand.server.kill9();
    stand.start_again();
    let loaded = starting_took(&mut stand);
    [saved * MILLION / made, bytes as f64 / made, loaded * MILLION / made]
}

/// Bytes each, seconds to recover.
fn by_log(way: &Way, count: u64) -> [f64; 2] {
    let mut stand = Stand::start_with(
        way.side,
        Feeds::Nobody,
        &["appendonly yes", "appendfsync no", "auto-aof-rewrite-percentage 0"],
        &[],
    );
    let made = fill(&mut stand, way, count);
    let bytes: u64 = fs::read_dir(stand.server.dir().join("appendonlydir"))
        .expect("the directory of the AOF")
        .map(|file| file.and_then(|file| file.metadata()).expect("a file").len())
        .sum();
    stand.server.kill9();
    stand.start_again();
    let recovered = starting_took(&mut stand);
    [bytes as f64 / made, recovered * MILLION / made]
}

/// The seconds of the main thread since the server was started: little but loading.
fn starting_took(stand: &mut Stand) -> f64 {
    stand.reading().cpu / 1e6
}
