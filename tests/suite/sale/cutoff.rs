//! An order that needs the units of more due holds than one command lets lapse: it is served at once, the lapses follow, and
//! whatever happens in between, no unit is sold twice.

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Stage, Words, err, eventually, unix_ms};

/// Holds of one unit each, which is all there is.
const HOLDS: i64 = 300;

/// How many of them a command lets lapse itself.
const ITSELF: usize = 128;

/// Takes all there is in holds, waits until they are due, and takes it again for `all`; then does `more`. All of it in one
/// transaction, so that no timer runs in between.
#[track_caller]
fn sell_again(client: &mut Client, create: &str, more: &[&str]) -> Vec<Reply> {
    let mut calls = vec!["MULTI".to_owned(), format!("STOCK.CREATE sale {HOLDS} {create}")];
    calls.extend((0..HOLDS).map(|n| format!("STOCK.DECR_ONCE sale h-{n} HOLD 1")));
    calls.extend(["DEBUG SLEEP 0.01".into(), format!("STOCK.DECR_ONCE sale all QTY {HOLDS} REF r")]);
    calls.extend(more.iter().copied().map(String::from));
    let count = calls.len();
    calls.push("EXEC".into());
    let mut replies = client.pipeline(&calls)[count].items().to_vec();
    let mut after = replies.split_off(count - 1 - more.len() - 1);
    after.remove(0).is(("OK", HOLDS, 0, -1, "r"));
    after
}

/// All units are sold to the id `all`, and no other id gets any.
#[track_caller]
fn is_sold_out(client: &mut Client) {
    let books = books(client, "sale");
    assert_eq!((books.total, books.remaining, books.held, books.sold), (HOLDS, 0, 0, HOLDS));
    client.expect("STOCK.DECR_ONCE sale late", ("SOLDOUT", 0, 0, -1, ""));
    client.expect(format!("STOCK.CONFIRM sale h-{}", HOLDS - 1), ("EXPIRED", 0, 0, -1, ""));
    client.expect(format!("STOCK.EXTEND sale h-{} PX 60000", HOLDS - 1), ("EXPIRED", 0, 0, -1, ""));
    assert!(
        orders(client, "sale").iter().all(|(id, order)| order.state == if id == "all" { "sold" } else { "expired" })
    );
}

/// Waits until every hold has lapsed, and holds the stream against the sale.
#[track_caller]
fn all_lapse(client: &mut Client) {
    eventually("the last hold lapses", || client.cmd("STOCK.INFO sale").field("seq") == Reply::Int(2 * HOLDS + 1));
    is_sold_out(client);
    Replay::of_all(HOLDS, &events(client, "events")).agrees_with(client, "sale");
}

/// The kind of change that an effect or a stream entry tells.
fn kind(words: &Words) -> String {
    let word = match words.name().as_str() {
        "STOCK.APPLY" => &words.0[2],
        "XADD" => &words.0[6],
        _ => &words.0[0],
    };
    String::from_utf8_lossy(word).into_owned()
}

#[test]
fn the_first_lapses_come_before_the_order_and_the_others_follow() {
    let (with, without) = (["expire", "LAPSED"], ["LAPSED"]);
    for (create, lapse, order) in
        [("STREAM events", &with[..], &["CUTOFF", "ok", "TAKEN"][..]), ("", &without, &["CUTOFF", "TAKEN"])]
    {
        let mut stage = Stage::set(|words| kind(&words));
        let mut client = stage.server.client();
        sell_again(&mut client, create, &[]);
        eventually("the last hold lapses", || client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(HOLDS));
        let mut told = stage.told();
        is_sold_out(&mut client);
        assert_eq!(stage.told(), ["REFUSED"], "the payment that came late");
        told.retain(|word| word != "MULTI" && word != "EXEC");
        let takes = 1 + (lapse.len() * usize::try_from(HOLDS).expect("few"));
        let rest = usize::try_from(HOLDS).expect("few") - ITSELF;
        assert_eq!(told[takes..], [lapse.repeat(ITSELF), order.to_vec(), lapse.repeat(rest)].concat());
    }
}

#[test]
fn a_replica_that_takes_over_in_between_sells_nothing_twice() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let (mut client, mut other) = (primary.client(), replica.client());
    // While writes are paused nothing lapses.
    sell_again(&mut client, "STREAM events DEADLINES", &["CLIENT PAUSE 20000 WRITE"]);
    replica.wait_in_sync(&primary);
    assert_eq!(primary.digest(), replica.digest());
    let lapsed = i64::try_from(ITSELF).expect("few");
    assert_eq!(other.cmd("XLEN events").int(), HOLDS + lapsed + 1);
    assert_eq!(books(&mut other, "sale").sold, HOLDS);
    replica.promote();
    all_lapse(&mut other);
    client.expect("CLIENT UNPAUSE", OK);
    all_lapse(&mut client);
}

#[test]
fn a_restart_in_between_forgets_nothing() {
    for (what, rewrite) in [("AOF", None), ("rewritten AOF", Some(false)), ("RDB", Some(true))] {
        let mut server = Server::builder().aof("always").start();
        let mut client = server.client();
        sell_again(&mut client, "STREAM events DEADLINES", &["CLIENT PAUSE 60000 WRITE"]);
        if let Some(preamble) = rewrite {
            server.rewrite_aof(preamble);
        }
        assert_eq!(client.cmd("STOCK.INFO sale").field("expired").int(), i64::try_from(ITSELF).expect("few"), "{what}");
        server.kill9();
        server.start_again();
        all_lapse(&mut server.client());
    }
}

#[test]
fn a_snapshot_in_between_is_the_sale() {
    let server = Server::start();
    let mut client = server.client();
    sell_again(&mut client, "STREAM events DEADLINES", &["CLIENT PAUSE 20000 WRITE"]);
    let before = server.digest();
    client.expect("DEBUG RELOAD", OK);
    assert_eq!(server.digest(), before);
    client.expect("CLIENT UNPAUSE", OK);
    all_lapse(&mut client);
}

/// What a server has been told by a primary whose clock is hours ahead of its own, and that is gone now.
#[test]
fn a_clock_that_is_behind_brings_no_hold_back() {
    let server = Server::start();
    server.take_effects();
    let mut client = server.client();
    let [deadline, cutoff] = [3_600_000, 7_200_000].map(|later| unix_ms() + later);
    let calls = [
        "MULTI".into(),
        "STOCK.CREATE sale 3 STREAM events".into(),
        format!("STOCK.APPLY sale TAKEN a 1 {deadline}"),
        format!("STOCK.APPLY sale TAKEN b 1 {deadline}"),
        format!("STOCK.APPLY sale TAKEN live 1 {}", cutoff + 1),
        format!("STOCK.APPLY sale CUTOFF {cutoff}"),
        "STOCK.APPLY sale TAKEN all 2".into(),
        "STOCK.CONFIRM sale a".into(),
        "STOCK.EXTEND sale b PX 1000".into(),
        "STOCK.DECR_ONCE sale late".into(),
        // An hour is not enough to be behind the cutoff.
        "STOCK.EXTEND sale live PX 3600000".into(),
        "STOCK.INFO sale".into(),
        "EXEC".into(),
    ];
    let replies = client.pipeline(calls)[12].items()[6..].to_vec();
    let [confirm, extend, late, live, info] = replies.try_into().expect("five replies");
    confirm.is(("EXPIRED", 0, 0, -1, ""));
    extend.is(("EXPIRED", 0, 0, -1, ""));
    late.is(("SOLDOUT", 0, 0, -1, ""));
    live.is(("OK", 1, 0, cutoff + 1, ""));
    assert_eq!(["remaining", "held", "sold"].map(|name| info.field(name).int()), [0, 1, 2]);
    // They do not wait for their deadlines either.
    eventually("the two lapse", || client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(2));
    let told: Vec<_> = events(&mut client, "events").into_iter().map(|event| (event.event, event.id)).collect();
    assert_eq!(told, [("expire".into(), "a".into()), ("expire".into(), "b".into())]);
    // From then on the clock alone counts.
    let before = unix_ms();
    let deadline = client.expect("STOCK.EXTEND sale live PX 3600000", ("OK", 1, 0, INT, "")).at(3).int();
    assert!((before + 3_600_000..cutoff).contains(&deadline), "{deadline}");
    assert_eq!(books(&mut client, "sale").held, 1);
}

/// A sale that was restored from a forged payload.
#[test]
fn a_cutoff_at_the_end_of_time_ends_what_is_held_and_no_more() {
    let server = Server::start();
    server.take_effects();
    let mut client = server.client();
    let last = i64::MAX - 1;
    let calls = [
        "MULTI",
        "STOCK.CREATE sale 5",
        "STOCK.DECR_ONCE sale ann QTY 2 HOLD 3600000",
        &format!("STOCK.APPLY sale CUTOFF {last}"),
        "DUMP sale",
        "DEL sale",
        "EXEC",
    ];
    let dump = client.pipeline(calls)[6].at(3).bytes();
    client.expect([b"RESTORE", &b"sale"[..], b"0", &dump], OK);
    eventually("the hold lapses", || client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(1));
    let now = unix_ms();
    let held = client.expect("STOCK.DECR_ONCE sale bob QTY 5 HOLD 3600000", ("OK", 5, 0, INT, "")).at(3).int();
    assert!((now + 3_600_000..now + 3_700_000).contains(&held), "{held}");
    client.expect("STOCK.CONFIRM sale ann", ("EXPIRED", 0, 0, -1, ""));
    for refused in ["CUTOFF 0", "CUTOFF -1", "CUTOFF x", "CUTOFF", "CUTOFF 5 6", &format!("CUTOFF {}", i64::MAX)] {
        client.expect(format!("STOCK.APPLY sale {refused}"), err("ERR"));
    }
    assert_eq!(books(&mut client, "sale").held, 5);
}

#[test]
fn lapses_that_the_stream_refuses_wait_and_sell_nothing_twice() {
    let server = Server::start();
    let mut client = server.client();
    sell_again(&mut client, "STREAM events DEADLINES", &["DEL events", "SET events x"]);
    eventually("the log says that holds wait", || server.log().contains("holds of the sale sale are due and wait"));
    let lapsed = i64::try_from(ITSELF).expect("few");
    assert_eq!(client.cmd("STOCK.INFO sale").field("expired").int(), lapsed);
    is_sold_out(&mut client);
    // What comes back meanwhile cannot be sold without its event.
    client.expect("STOCK.CANCEL sale all", err("WRONGTYPE"));
    client.expect("STOCK.ADJUST sale 1", err("WRONGTYPE"));
    client.expect("DEL events", 1);
    eventually("the others lapse", || client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(HOLDS));
    let told = events(&mut client, "events");
    assert_eq!((told.len(), told[0].seq), (usize::try_from(HOLDS).expect("few") - ITSELF, HOLDS + lapsed + 2));
    is_sold_out(&mut client);
    client.expect("STOCK.CANCEL sale all", ("OK", 0, HOLDS, -1, "r"));
    client.expect("STOCK.INFO sale", ANY).field("remaining").is(HOLDS);
}
