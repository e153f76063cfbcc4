//! Sales in a cluster: sale and stream move to another node one after the other, and never come apart.

mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, Cluster, INT, OK, Reply, Tap, err, eventually, eventually_some, random, unix_ms};
use rustix::process::{Pid, Signal, kill_process};

const SALE: &str = "{shop}sale";
const EVENTS: &str = "{shop}events";

/// A sale and its stream on one node, and the node that they move to.
struct Scene {
    cluster: Cluster,
    from: usize,
    to: usize,
    here: Client,
    there: Client,
}

impl Scene {
    fn set() -> Self {
        Self::with("")
    }

    fn with(options: &str) -> Self {
        let cluster = Cluster::start(3);
        let from = cluster.owner(SALE);
        let to = (from + 1) % 3;
        let (mut here, there) = (cluster.node(from).client(), cluster.node(to).client());
        here.expect(format!("STOCK.CREATE {SALE} 1000 STREAM {EVENTS} {options}"), OK);
        Self { cluster, from, to, here, there }
    }

    fn begin(&self) {
        self.cluster.begin_move(SALE, self.from, self.to);
    }

    fn carry(&self, key: &str) {
        self.cluster.move_key(key, self.from, self.to);
    }

    fn end(&self) {
        self.cluster.end_move(SALE, self.from, self.to);
    }

    /// A command to the node that imports the slot, as of a client that was sent there.
    #[track_caller]
    fn sent_there(&mut self, call: &str) -> Reply {
        self.there.expect("ASKING", OK);
        self.there.cmd(call)
    }
}

fn take(id: &str) -> String {
    format!("STOCK.DECR_ONCE {SALE} {id}")
}

#[test]
fn nothing_is_taken_while_the_stream_is_on_the_other_node() {
    for order in [[SALE, EVENTS], [EVENTS, SALE]] {
        let mut scene = Scene::set();
        scene.here.expect(take("before"), ("OK", 1, 999, -1, ""));
        scene.here.expect(take("held") + " HOLD 600000", ("OK", 1, 998, INT, ""));
        scene.begin();
        scene.here.expect(take("both-here"), ("OK", 1, 997, -1, ""));

        scene.carry(order[0]);
        let refused = err("TRYAGAIN ");
        if order[0] == SALE {
            scene.here.expect(take("apart"), err("ASK "));
            scene.sent_there(&take("apart")).is(refused.clone());
            scene.sent_there(&format!("STOCK.CANCEL {SALE} before")).is(refused.clone());
            scene.sent_there(&format!("STOCK.ADJUST {SALE} 1")).is(refused.clone());
            // What needs no event is done.
            scene.sent_there(&take("before")).is(("DUPLICATE", 1, ANY, -1, ""));
            scene.there.expect(take("apart"), err("MOVED "));
        } else {
            scene.here.expect(take("apart"), refused.clone());
            scene.here.expect(format!("STOCK.CANCEL {SALE} before"), refused.clone());
            scene.here.expect(take("before"), ("DUPLICATE", 1, ANY, -1, ""));
            // The other node has no sale yet, so there is nothing to sell.
            scene.sent_there(&take("apart")).is(("NOSTOCK", 0, 0, -1, ""));
        }
        // A hold that is due waits as well, on either node. That its end comes sooner needs no event.
        let sooner = format!("STOCK.EXTEND {SALE} held PX 1");
        let extended = if order[0] == SALE { scene.sent_there(&sooner) } else { scene.here.cmd(&sooner) };
        let deadline = extended.is(("OK", 1, 997, INT, "")).at(3).int();
        eventually("the deadline passes", || unix_ms() > deadline + 150);
        assert_eq!(lapses(&scene), 0);

        scene.carry(order[1]);
        // Whose units count as returned all the same.
        scene.sent_there(&take("both-there")).is(("OK", 1, 997, -1, ""));
        scene.here.expect(take("late"), err("ASK "));
        scene.there.expect(take("late"), err("MOVED "));
        scene.end();
        eventually("the hold lapses on the new node", || lapses(&scene) == 1);
        scene.there.expect(take("after"), ("OK", 1, 996, -1, ""));
        scene.here.expect(take("after"), err("MOVED "));
        let told = events(&mut scene.there, EVENTS);
        let names: Vec<&str> = told.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(names, ["before", "held", "both-here", "both-there", "held", "after"]);
        Replay::of(1_000, &told).agrees_with(&mut scene.there, SALE);
    }
}

/// Lapses on both nodes.
fn lapses(scene: &Scene) -> i64 {
    let count = |node: usize| scene.cluster.node(node).info_int("lockstock", "lockstock_stock_lapses");
    count(scene.from) + count(scene.to)
}

#[test]
fn a_sales_first_event_waits_until_its_slot_has_moved() {
    let mut scene = Scene::set();
    scene.begin();
    // There is no stream yet: it cannot be told whether it has moved already.
    scene.here.expect(take("first"), err("TRYAGAIN "));
    scene.carry(SALE);
    scene.sent_there(&take("first")).is(err("TRYAGAIN "));
    scene.end();
    scene.there.expect(take("first"), ("OK", 1, 999, -1, ""));
    Replay::of(1_000, &events(&mut scene.there, EVENTS)).agrees_with(&mut scene.there, SALE);
}

#[test]
fn an_extension_that_must_be_told_waits_for_the_stream() {
    let mut scene = Scene::with("DEADLINES");
    let held = scene.here.expect(take("ann") + " HOLD 3600000", ("OK", 1, 999, INT, "")).at(3).int();
    let longer = format!("STOCK.EXTEND {SALE} ann PX 7200000");
    scene.begin();
    scene.carry(SALE);
    scene.sent_there(&longer).is(err("TRYAGAIN "));
    assert_eq!(scene.sent_there(&format!("STOCK.ORDER {SALE} ann")).field("deadline").int(), held);
    scene.carry(EVENTS);
    scene.sent_there(&longer).is(("OK", 1, 999, held + 1..=i64::MAX, ""));
    scene.end();
    Replay::of(1_000, &events(&mut scene.there, EVENTS)).agrees_with(&mut scene.there, SALE);
}

#[test]
fn a_stream_in_another_slot_takes_nothing() {
    let mut scene = Scene::set();
    scene.here.expect(format!("STOCK.CREATE {SALE}2 5 STREAM elsewhere"), err("CROSSSLOT "));
    // A copy that was brought under a name of another slot of this node.
    let dump = scene.here.cmd(format!("DUMP {SALE}")).bytes();
    let other =
        (0..1_000).map(|n| format!("copy-{n}")).find(|key| scene.cluster.owner(key) == scene.from).expect("a key");
    scene.here.expect([b"RESTORE", other.as_bytes(), b"0", &dump], OK);
    let refused = "CROSSSLOT the sale's stream does not take the event, so nothing was done";
    scene.here.expect(format!("STOCK.DECR_ONCE {other} ann"), err(refused));
    assert_eq!(books(&mut scene.here, &other).remaining, 1_000);
    assert_eq!(scene.here.cmd(format!("EXISTS {EVENTS}")).int(), 0);
}

/// A client that follows the cluster's redirections.
struct Follower {
    lines: BTreeMap<u16, Client>,
    port: u16,
}

impl Follower {
    fn of(cluster: &Cluster) -> Self {
        Self { lines: BTreeMap::new(), port: cluster.node(0).port() }
    }

    /// The answer of whichever node serves the key.
    fn cmd(&mut self, call: &str) -> Reply {
        let mut asking = None;
        eventually_some(call, || {
            let port = asking.take();
            let line = self.lines.entry(port.unwrap_or(self.port)).or_insert_with_key(|port| Client::connect(*port));
            if port.is_some() {
                line.expect("ASKING", OK);
            }
            let reply = line.cmd(call);
            let Reply::Error(text) = &reply else { return Some(reply) };
            let words: Vec<&str> = text.split(' ').collect();
            let node = |address: &str| address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
            match words[..] {
                ["MOVED", _, address] => self.port = node(address).expect("a port"),
                ["ASK", _, address] => asking = node(address),
                ["TRYAGAIN" | "CLUSTERDOWN", ..] => {}
                _ => return Some(reply),
            }
            None
        })
    }
}

/// Buys, holds, extends, confirms and cancels until `stop`; returns what it was told of each of its orders.
fn shop(cluster: &Cluster, name: usize, stop: &AtomicBool, done: &AtomicUsize) -> BTreeMap<String, String> {
    let mut client = Follower::of(cluster);
    let mut record = BTreeMap::new();
    for number in 0.. {
        if stop.load(Relaxed) {
            break;
        }
        let id = format!("o-{name}-{number}");
        let hold = ["", "HOLD 5", "HOLD 60000", "HOLD 60000"][number % 4];
        let status = client.cmd(&format!("{} BUYER b-{name} {hold}", take(&id))).at(0).text();
        assert_eq!(status, "OK", "{id}");
        let (call, state) = match number % 4 {
            2 => {
                assert_eq!(client.cmd(&format!("STOCK.EXTEND {SALE} {id} PX 90000")).at(0).text(), "OK", "{id}");
                ("CONFIRM", "sold")
            }
            3 => ("CANCEL", "cancelled"),
            kind => {
                record.insert(id, ["sold", "expired"][kind].to_owned());
                continue;
            }
        };
        assert_eq!(client.cmd(&format!("STOCK.{call} {SALE} {id}")).at(0).text(), "OK", "{id}");
        record.insert(id, state.into());
        done.fetch_add(1, Relaxed);
    }
    record
}

#[test]
fn sale_and_stream_stay_together_under_load_while_the_slot_moves() {
    let cluster = Cluster::start(3);
    let mut seller = Follower::of(&cluster);
    seller.cmd(&format!("STOCK.CREATE {SALE} 1000000 STREAM {EVENTS} DEADLINES"));
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut random = random();
    let mut at = cluster.owner(SALE);
    let mut whole = 0;
    let records: Vec<_> = thread::scope(|scope| {
        let (stop, done, cluster) = (&stop, &done, &cluster);
        let shoppers: Vec<_> = (0..8).map(|name| scope.spawn(move || shop(cluster, name, stop, done))).collect();
        let more = |count: usize| {
            let goal = done.load(Relaxed) + count;
            eventually("more is sold", || done.load(Relaxed) >= goal);
        };
        for round in 0..6 {
            let to = (at + 1) % 3;
            more(20);
            if round % 3 == 2
                && let Some(begun) = cluster.move_whole_slot(SALE, at, to)
            {
                assert!(!begun.is_error(), "{begun:?}");
                eventually("the slot has moved", || {
                    let reply = cluster.node(to).cmd(format!("STOCK.INFO {SALE}"));
                    !reply.is_error()
                });
                whole += 1;
                at = to;
                continue;
            }
            cluster.begin_move(SALE, at, to);
            // Long enough for every shopper to run into it.
            let mut order = [SALE, EVENTS];
            random.shuffle(&mut order);
            for key in order {
                cluster.move_key(key, at, to);
                let looks = (0..50).map(|_| cluster.node(at).cmd("PING")).filter(Reply::is_error).count();
                assert_eq!(looks, 0);
            }
            more(20);
            cluster.end_move(SALE, at, to);
            at = to;
        }
        more(20);
        stop.store(true, Relaxed);
        shoppers.into_iter().map(|shopper| shopper.join().expect("a shopper")).collect()
    });
    println!("{} orders, {whole} moves of the whole slot", done.load(Relaxed));
    let mut client = cluster.node(at).client();
    let expected: BTreeMap<String, String> = records.into_iter().flatten().collect();
    eventually("the last holds lapse", || {
        let held = orders(&mut client, SALE).into_values().filter(|order| order.state == "held").count();
        held == 0 && events(&mut client, EVENTS).iter().filter(|event| event.event == "expire").count() > 0
    });
    let mut told = vec![];
    eventually("the last lapse is told", || {
        told = events(&mut client, EVENTS);
        let seq = client.cmd(["STOCK.INFO", SALE]).field("seq").int();
        let lapsed = expected.values().filter(|state| *state == "expired").count();
        seq == i64::try_from(told.len()).expect("few")
            && told.iter().filter(|event| event.event == "expire").count() == lapsed
    });
    Replay::of(1_000_000, &told).agrees_with(&mut client, SALE);
    let found: BTreeMap<String, String> =
        orders(&mut client, SALE).into_iter().map(|(id, order)| (id, order.state)).collect();
    assert_eq!(found, expected);
}

/// What goes wrong here is the use of freed memory, which `make test-valgrind TESTS=whose_time_is_over` sees for certain. What replicas are
/// told takes the place of what was freed before any code looks there.
#[test]
fn a_sale_whose_time_is_over_while_its_holds_lapse() {
    let cluster = Cluster::start(1);
    let mut client = cluster.node(0).client();
    let server = Pid::from_raw(cluster.node(0).pid().cast_signed()).expect("a process");
    let mut ahead = 500;
    for round in 0..10 {
        // A thousand sales have holds that end together, and the server stands still while the module looks after them: so long that
        // the time of the sales is over, too. One of them was under the module's hands then.
        let (due, mut tap) = loop {
            client.expect("STOCK.CREATE model 10", OK);
            let hold = |id| format!("STOCK.DECR_ONCE model {id} HOLD {ahead}");
            let due = client.pipeline(["ann", "ben", "cy"].map(hold)).last().expect("three holds").at(3).int();
            let (end, dump) = ((due + 60).to_string(), client.cmd("DUMP model").bytes());
            client.expect("DEL model", 1);
            let keys: Vec<String> = (0..1_000).map(|number| format!("sale-{number}")).collect();
            client.pipeline(keys.iter().map(|key| [b"RESTORE", key.as_bytes(), end.as_bytes(), &dump, b"ABSTTL"]));
            client.expect("DBSIZE", 0..=1_000);
            let tap = Tap::attach(cluster.node(0));
            if unix_ms() < due {
                break (due, tap);
            }
            // Not in time: a slow server needs longer.
            ahead *= 2;
            eventually("these are over", || client.cmd("DBSIZE").int() == 0);
        };
        eventually("the server is at work", || unix_ms() >= due + 2 + round % 4);
        kill_process(server, Signal::STOP).expect("a process of ours");
        eventually("the time of the sales is over", || unix_ms() >= due + 70);
        kill_process(server, Signal::CONT).expect("a process of ours");
        eventually("all sales are gone", || client.cmd("DBSIZE").int() == 0);

        client.expect("SET the-end 1", OK);
        let mut gone = BTreeSet::new();
        loop {
            let words = tap.next();
            let Some(key) = words.0.get(1).cloned() else { continue };
            match words.name().as_str() {
                "DEL" | "UNLINK" => assert!(gone.insert(key), "gone twice: {words:?}"),
                "STOCK.APPLY" => assert!(!gone.contains(&key), "said of a sale that is gone: {words:?}"),
                "SET" => break,
                _ => {}
            }
        }
        assert_eq!(gone.len(), 1_000);
        client.expect("DEL the-end", 1);
        let info = cluster.node(0).info("lockstock");
        assert_eq!((info["lockstock_sales"].as_str(), info["lockstock_orders"].as_str()), ("0", "0"));
    }
}

/// Asked whether this node serves a sale, the server throws it away, for its time is over. Nothing takes the place of what was freed
/// here: it reads as before, and a hold lapses in a sale that is gone.
#[test]
fn a_sale_that_goes_while_the_server_is_asked_about_it() {
    const MS: i64 = 100;
    let cluster = Cluster::start_with(1, &[&harness::listener::line()]);
    let server = cluster.node(0);
    let mut client = server.client();
    client.expect("STOCK.CREATE model 10", OK);
    let due = client.expect("STOCK.DECR_ONCE model ann HOLD 4000", ("OK", 1, 9, INT, "")).at(3).int();
    let dump = client.cmd("DUMP model").bytes();
    client.expect("DEL model", 1);
    for number in 0..5 {
        let (sale, end) = (format!("{number}-sale"), (due + MS / 2 + MS * number).to_string());
        client.expect([b"RESTORE", sale.as_bytes(), end.as_bytes(), &dump, b"ABSTTL"], OK);
    }
    // Now every question takes long enough for the sale's time to be over.
    client.expect(format!("LISTENER.LINGER -sale {MS}"), OK);
    assert!(unix_ms() < due, "too late");
    eventually("all sales are gone", || client.cmd("DBSIZE").int() == 0);
    let info = server.info("lockstock");
    assert_eq!((info["lockstock_sales"].as_str(), info["lockstock_orders"].as_str()), ("0", "0"));
    // Later servers look at the clock once for all that the timer does: there the holds are over before the sales.
    if server.version() < [7, 2, 0] {
        assert_eq!(info["lockstock_stock_lapses"], "0", "lapses in sales that are gone");
    }
}
