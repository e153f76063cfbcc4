//! Instructions for an operation, counted by callgrind: what the clock cannot tell apart, and the same in every run.

use std::fs;
use std::process::{Command, Stdio};

use harness::{Server, eventually_some, server_path};
use lockstock_bench::table::{Sheet, number};

use super::DEEP;
use crate::contest::Way;
use crate::crowd::Crowd;
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::stand::{Feeds, Stand};
use crate::ways::{floor, lock, sale};

const CALLGRIND: [&str; 4] =
    ["valgrind", "--tool=callgrind", "--trace-children=yes", "--callgrind-out-file=callgrind.out"];

pub fn run(lab: &mut Lab) {
    let native = lab.native();
    compare(lab, &format!("Instructions for an operation, pipelines of {DEEP}"), || subjects(native));
}

/// Counts the subjects, once for each place where the writes go.
pub fn compare(lab: &mut Lab, title: &str, subjects: impl Fn() -> Vec<Subject>) {
    if !works() {
        lab.show(&format!("\n## {title}\n\nNot measured: valgrind is not here, or cannot run this server."));
        return;
    }
    for feeds in Feeds::ALL {
        measure(lab, &format!("{title}{}", feeds.name()), feeds, subjects());
    }
}

/// What is counted; the ways, ours first; for each of the others the most that ours may take of it, if that is a goal: once where the
/// writes go nowhere else, and once where they also go to a file or a replica; and the way that shows what the server takes for any module.
pub type Subject = (&'static str, Vec<Way>, &'static [Option<[f64; 2]>], Way);

fn subjects(native: Option<&'static [&'static str]>) -> Vec<Subject> {
    let order =
        |buyer, stock| vec![sale::decr_once(DEEP, buyer, stock, false), sale::seckill(DEEP, buyer, stock, false)];
    let mut orders = order(sale::everybody, sale::PLENTY);
    orders.push(sale::sadd_decr(DEEP, sale::everybody));
    let mut sold_out = order(sale::everybody, 0);
    sold_out.push(sale::lookup("GET", DEEP));
    let mut duplicates = order(sale::ann, sale::PLENTY);
    duplicates.push(sale::lookup("SISMEMBER", DEEP));
    vec![
        ("a lock that nobody has", lock::taking(DEEP).into(), &[Some([1.4, 1.2])], floor::granted(DEEP)),
        ("a lock that somebody else has", lock::refused(DEEP), &[Some([1.15, 1.15])], floor::refused(DEEP)),
        ("taking and giving back", lock::cycles(DEEP, native), &[Some([0.7, 0.75])], floor::cycle(DEEP)),
        (
            "an order",
            orders,
            &[Some([0.28, 0.28]), Some([1.15, 0.9])],
            floor::order(b"FLOOR.ORDER", DEEP, sale::everybody),
        ),
        ("a duplicate", duplicates, &[None, Some([1.5, 1.5])], floor::order(b"FLOOR.ANSWER", DEEP, sale::ann)),
        ("sold out", sold_out, &[], floor::order(b"FLOOR.ANSWER", DEEP, sale::everybody)),
    ]
}

fn measure(lab: &mut Lab, title: &str, feeds: Feeds, subjects: Vec<Subject>) {
    let mut sheet = Sheet::new(["what", "way", "ours ÷ this", "instructions"]);
    for (what, ways, limits, floor) in subjects {
        let mut ours = f64::NAN;
        for (nth, way) in ways.into_iter().chain([floor]).enumerate() {
            lab.progress(&format!("instructions: {what}{}, {}", feeds.name(), way.name));
            let count = count(&way, feeds, lab.plan.either(6_000, 2_000));
            ours = if ours.is_nan() { count } else { ours };
            let limit = nth.checked_sub(1).and_then(|nth| *limits.get(nth)?);
            if let Some([alone, fed]) = limit {
                let limit = if feeds == Feeds::Nobody { alone } else { fed };
                let goal = format!("instructions of {what}, against {}{}", way.name, feeds.name());
                lab.paper.found(&goal, AtMost(limit), ours / count);
            }
            sheet.row([what.into(), way.name, number(ours / count), number(count)]);
        }
    }
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// Whether this server runs under callgrind.
pub fn works() -> bool {
    let mut command = Command::new(CALLGRIND[0]);
    command.args(&CALLGRIND[1..3]).arg("--callgrind-out-file=/dev/null").arg(server_path()).arg("--version");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Instructions for each of some operations, after as many to warm up.
pub fn count(way: &Way, feeds: Feeds, operations: u64) -> f64 {
    count_among(way, feeds, (CONNECTIONS, true), operations)
}

/// The same with so many members. Members that wait for each other cannot drain: they are stopped with the last replies unread.
pub fn count_among(way: &Way, feeds: Feeds, (members, drains): (usize, bool), operations: u64) -> f64 {
    // The less the server does besides, the better.
    let mut stand = Stand::start_with(way.side, feeds, &["hz 1"], &CALLGRIND);
    (way.prepare)(&mut stand);
    let members = (0..way.members.unwrap_or(members)).map(&way.member).collect();
    let mut crowd = Crowd::connect(stand.server.port(), members);
    crowd.open();
    crowd.run(|tally| tally.done >= operations);
    if drains {
        crowd.close();
    }
    dump(&stand.server, 1);
    let before = crowd.tally.done;
    if drains {
        crowd.open();
    }
    crowd.run(|tally| tally.done >= before + operations);
    if drains {
        crowd.close();
    }
    let total = dump(&stand.server, 2);
    total / (crowd.tally.done - before) as f64
}

/// The instructions since the last time, or since the start.
fn dump(server: &Server, number: u32) -> f64 {
    let pid = server.pid().to_string();
    let done =
        Command::new("callgrind_control").args(["--dump", &pid]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "callgrind gives no figures");
    let path = server.dir().join(format!("callgrind.out.{number}"));
    eventually_some("callgrind's figures", || {
        let text = fs::read_to_string(&path).ok()?;
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
    })
}
