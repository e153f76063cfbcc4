//! Random requests to several sales, looked at after every step, and wherever the sales go afterwards.

use std::collections::BTreeMap;

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, eventually, random};

const STEPS: usize = 1_500;

/// The sales: their totals, and what else they are created with.
const SALES: [(&str, i64, &str); 5] = [
    ("s0", 40, "STREAM e0 DEADLINES"),
    ("s1", 25, "STREAM e1 REBUY LIMIT 6"),
    ("s2", 30, ""),
    ("s3", 15, "STREAM e3 REBUY"),
    ("s4", 60, "REBUY LIMIT 9"),
];

/// Some of the sales, in any order.
fn some(random: &mut fastrand::Rng) -> Vec<&'static str> {
    let mut sales: Vec<&str> = SALES.iter().map(|(sale, ..)| *sale).collect();
    random.shuffle(&mut sales);
    sales.truncate(random.usize(1..=SALES.len()));
    sales
}

/// One request, mostly to several sales, and these.
fn step(random: &mut fastrand::Rng) -> (String, Vec<&'static str>) {
    let (id, sales) = (format!("id-{}", random.u8(..40)), some(random));
    let hold = ["", "HOLD 1", "HOLD 8", "HOLD 60000"][random.usize(..4)];
    let call = match random.u8(..20) {
        0..8 => {
            let legs: Vec<String> = sales.iter().map(|sale| format!("{sale} {}", random.u8(1..4))).collect();
            let buyer = if random.bool() { format!("BUYER b-{}", random.u8(..5)) } else { String::new() };
            format!("STOCK.MDECR_ONCE {id} {} {} {hold} {buyer}", sales.len(), legs.join(" "))
        }
        8..12 => format!("STOCK.MCONFIRM {id} {} {}", sales.len(), sales.join(" ")),
        12..15 => format!("STOCK.MCANCEL {id} {} {}", sales.len(), sales.join(" ")),
        15..17 => format!("STOCK.DECR_ONCE {} {id} {hold}", sales[0]),
        17 => format!("STOCK.CANCEL {} {id}", sales[0]),
        18 => format!("STOCK.ADJUST {} {} ID move-{}", sales[0], random.i8(-3..4), random.u8(..30)),
        _ => format!("STOCK.CONFIRM {} {id}", sales[0]),
    };
    (call, sales)
}

/// What the reply to a request to several `sales` says is so at that very moment, and all of it was done or nothing.
#[track_caller]
fn is_true(call: &str, sales: &[&str], reply: &Reply, shown: &[Reply]) {
    let status = reply.at(0).text();
    let fives = &reply.items()[1..];
    let statuses: Vec<String> = fives.iter().map(|five| five.at(0).text()).collect();
    let all = |allowed: &[&str]| statuses.iter().all(|status| allowed.contains(&status.as_str()));
    match status.as_str() {
        "OK" if call.contains("MCANCEL") => assert!(statuses.contains(&"OK".into()), "{call}: {reply:?}"),
        "OK" => assert!(all(&["OK", "DUPLICATE"]) && statuses.contains(&"OK".into()), "{call}: {reply:?}"),
        "DUPLICATE" if !call.contains("MCANCEL") => assert!(all(&["DUPLICATE"]), "{call}: {reply:?}"),
        _ => {
            assert!(!statuses.contains(&"OK".into()), "{call}: {reply:?}");
            let first = statuses.iter().find(|status| !["SKIPPED", "DUPLICATE"].contains(&status.as_str()));
            let first = if call.contains("MCANCEL") { statuses.first() } else { first };
            assert_eq!(Some(&status), first, "{call}: {reply:?}");
        }
    }
    for ((sale, five), order) in sales.iter().zip(fives).zip(shown) {
        let units = if matches!(order, Reply::Nil(_)) { 0 } else { order.field("units").int() };
        // A hold may be over between the two commands.
        let over = five.at(3).int() > 0 && units == 0;
        assert!(over || units == five.at(1).int(), "{call}: {sale}: {five:?}, {order:?}");
    }
}

/// All orders of all sales.
#[track_caller]
fn all_orders(client: &mut Client) -> BTreeMap<&'static str, BTreeMap<String, harness::shop::Order>> {
    SALES.iter().map(|(sale, ..)| (*sale, orders(client, sale))).collect()
}

#[test]
fn nothing_of_a_cart_is_left_over_wherever_the_sales_go() {
    let mut primary = Server::builder().aof("no").start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let mut client = primary.client();
    for (sale, total, options) in SALES {
        client.expect(format!("STOCK.CREATE {sale} {total} {options}"), OK);
    }
    let mut random = random();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..STEPS {
        let (call, sales) = step(&mut random);
        let looks = sales.iter().map(|sale| format!("STOCK.ORDER {sale} {}", call.split(' ').nth(1).expect("an id")));
        let calls: Vec<String> =
            ["MULTI".into(), call.clone()].into_iter().chain(looks).chain(["EXEC".into()]).collect();
        let replies = client.pipeline(calls);
        let Some(Reply::Array(done)) = replies.last() else { panic!("{replies:?}") };
        if call.starts_with("STOCK.M") && !done[0].is_error() {
            is_true(&call, &sales, &done[0], &done[1..]);
            *seen.entry(done[0].at(0).text()).or_default() += 1;
        }
        if number % 300 == 0 {
            client.expect("DEBUG RELOAD", OK);
        }
        books(&mut client, sales[0]);
    }
    assert!(seen.len() >= 7 && seen["OK"] > 100, "{seen:?}");
    eventually("the last short holds lapse and are told of", || {
        SALES.iter().all(|(sale, ..)| books(&mut client, sale).held == held_for_long(&mut client, sale))
    });
    for (sale, total, options) in SALES.iter().filter(|(.., options)| options.contains("STREAM")) {
        let stream = options.split(' ').nth(1).expect("the stream's name");
        let mut told = vec![];
        eventually("all is told", || {
            told = events(&mut client, stream);
            client.cmd(["STOCK.INFO", sale]).field("seq").int() == i64::try_from(told.len()).expect("few")
        });
        Replay::of(*total, &told).agrees_with(&mut client, sale);
    }
    replica.wait_in_sync(&primary);
    let (digest, before) = (primary.digest(), all_orders(&mut client));
    assert_eq!(replica.digest(), digest, "the replica");
    let other = Server::start();
    for (sale, ..) in SALES {
        let dump = client.cmd(["DUMP", sale]).bytes();
        other.expect([&b"RESTORE"[..], sale.as_bytes(), b"0", &dump], OK);
    }
    assert_eq!(all_orders(&mut other.client()), before, "DUMP");
    client.expect("DEBUG LOADAOF", OK);
    assert_eq!(primary.digest(), digest, "the file");
    for preamble in [false, true] {
        primary.rewrite_aof(preamble);
        primary.kill9();
        primary.start_again();
        assert_eq!(primary.digest(), digest, "the file, rewritten");
    }
    assert_eq!(all_orders(&mut primary.client()), before);
    primary.client().expect("STOCK.MCANCEL id-0 1 s0", (ANY, (ANY, INT, INT, INT, ANY)));
}

/// Units of the holds that do not end soon.
#[track_caller]
fn held_for_long(client: &mut Client, sale: &str) -> i64 {
    let soon = harness::unix_ms() + 10_000;
    orders(client, sale).values().filter(|order| order.state == "held" && order.deadline > soon).map(|o| o.units).sum()
}
