//! The same work on three primaries: how much of it is left for the busiest.
//!
//! Nodes do not talk to each other about locks and sales, so each is measured by itself, with the part of the requests that the
//! keys' slots give to it.

use harness::{Cluster, OK, Server};
use lockstock_bench::table::{Sheet, number};
use rustix::process::Pid;

use crate::crowd::{Crowd, Desk};
use crate::lab::Lab;
use crate::pump::{At, CONNECTIONS, Script, way};
use crate::stand::{Reading, Side, cores, keep_to};
use crate::ways::LEASE;

const NODES: usize = 3;

/// How keys and requests are laid out.
struct Layout {
    name: &'static str,
    /// The hash tags; a request goes to one of them by a hash of its number.
    tags: u64,
    sale: bool,
}

const LAYOUTS: [Layout; 4] = [
    Layout { name: "one sale, one key", tags: 1, sale: true },
    Layout { name: "one sale in 8 buckets", tags: 8, sale: true },
    Layout { name: "one sale in 64 buckets", tags: 64, sale: true },
    Layout { name: "locks under 512 tags", tags: 512, sale: false },
];

pub fn run(lab: &mut Lab) {
    let cluster = Cluster::start(NODES);
    let requests = lab.plan.either(60_000, 15_000);
    let mut sheet =
        Sheet::new(["what", "CPU µs", "requests of the nodes, %", "work of the busiest, %", "three nodes ÷ one"]);
    for layout in &LAYOUTS {
        lab.progress(&format!("cluster: {}", layout.name));
        let parts = parts(&cluster, layout, requests);
        let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let nodes = parts.into_iter().enumerate();
        let works: Vec<f64> = nodes.map(|(node, part)| work(cluster.node(node), layout, part)).collect();
        let (all, busiest) = (works.iter().sum::<f64>(), works.iter().copied().fold(0.0, f64::max));
        let percent = |part: f64| format!("{:.0}", part * 100.0);
        let shares: Vec<String> = counts.iter().map(|count| percent(*count as f64 / requests as f64)).collect();
        sheet.row([
            layout.name.into(),
            number(all / requests as f64),
            shares.join(" / "),
            percent(busiest / all),
            number(all / busiest),
        ]);
    }
    let title = "Three primaries, one command at a time";
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// Where a request goes.
type Request = (u64, u64);

fn key(layout: &Layout, (number, tag): Request) -> String {
    if layout.sale { format!("{{hot:{tag}}}:stock") } else { format!("{{hot:{tag}}}:lock:{number}") }
}

/// The requests of each node: their numbers and their tags. The sales are there afterwards.
fn parts(cluster: &Cluster, layout: &Layout, requests: u64) -> Vec<Vec<Request>> {
    let owners: Vec<usize> = (0..layout.tags).map(|tag| cluster.owner(&key(layout, (0, tag)))).collect();
    for node in 0..NODES {
        cluster.node(node).expect("FLUSHALL", OK);
    }
    for (tag, owner) in owners.iter().enumerate().filter(|_| layout.sale) {
        let words = format!("STOCK.CREATE {} 1000000000", key(layout, (0, tag as u64)));
        cluster.node(*owner).expect(words, OK);
    }
    let mut parts = vec![vec![]; NODES];
    for number in 0..requests {
        let tag = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % layout.tags;
        parts[owners[usize::try_from(tag).expect("few")]].push((number, tag));
    }
    parts
}

/// Microseconds of a node's main thread for its part of the requests.
fn work(node: &Server, layout: &'static Layout, part: Vec<Request>) -> f64 {
    if part.is_empty() {
        return 0.0;
    }
    keep_to(Pid::from_raw(i32::try_from(node.pid()).expect("a process id")), cores() - 1);
    let count = part.len() as u64;
    let request = move |at: At| part[usize::try_from(at.serial() % count).expect("few")];
    let script = Script::new(
        if layout.sale { 1 } else { 2 },
        move |at, desk| say(layout, request(at), at.step, desk),
        |_, reply| (reply.is_array() || reply.int() == Some(1)).then_some("done"),
    );
    let member = way(layout.name, Side::Ours, 1, &script).member;
    let mut crowd = Crowd::connect(node.port(), (0..CONNECTIONS).map(member).collect());
    let reading = || Reading::of(&node.cmd("INFO all").text());
    let before = reading();
    crowd.open();
    crowd.run(|tally| tally.done >= count);
    crowd.close();
    (reading().cpu - before.cpu) * count as f64 / crowd.tally.done as f64
}

fn say(layout: &Layout, request: Request, step: u64, desk: &mut Desk<'_>) {
    let (key, number) = (key(layout, request), request.0.to_string());
    let words: &[&[u8]] = match (layout.sale, step) {
        (true, _) => &[b"STOCK.DECR_ONCE", key.as_bytes(), number.as_bytes()],
        (false, 0) => &[b"LOCK.ACQUIRE", key.as_bytes(), b"TOKEN", number.as_bytes(), b"PX", LEASE],
        (false, _) => &[b"LOCK.RELEASE", key.as_bytes(), number.as_bytes()],
    };
    desk.send(0, words);
}
