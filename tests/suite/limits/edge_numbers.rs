//! Every number that a command takes, at every edge: it is done, or refused with the range and nothing has changed, and a client that waits for
//! that long is answered in the end.

use harness::{ANY, Client, NULL, OK, Payload, Reply, Server, Words, eventually, unix_ms};

use crate::support::edges::edges;

/// The largest number that every client reads exactly.
const EXACT: i64 = (1 << 53) - 1;

/// A command with one number left open, and the range of that number at a given time.
type Open = (&'static str, fn(i64) -> std::ops::RangeInclusive<i64>);

fn span(now: i64) -> std::ops::RangeInclusive<i64> {
    1..=i64::MAX - now
}

fn seconds(now: i64) -> std::ops::RangeInclusive<i64> {
    1..=(i64::MAX - now) / 1_000
}

fn units(_: i64) -> std::ops::RangeInclusive<i64> {
    1..=EXACT
}

fn units_or_none(_: i64) -> std::ops::RangeInclusive<i64> {
    0..=EXACT
}

fn time(_: i64) -> std::ops::RangeInclusive<i64> {
    0..=i64::MAX
}

fn one(_: i64) -> std::ops::RangeInclusive<i64> {
    1..=1
}

/// Each is asked of a server on which `held` is a lock of `t`, and `sale` a sale with the hold `h`.
const OPEN: [Open; 27] = [
    ("LOCK.ACQUIRE lock TOKEN a PX #", span),
    ("LOCK.ACQUIRE lock TOKEN a EX #", seconds),
    ("LOCK.ACQUIRE lock TOKEN a LIMIT #", units),
    ("LOCK.ACQUIRE lock TOKEN a WAIT #", units_or_none),
    ("LOCK.MACQUIRE 2 lock other TOKEN a PX #", span),
    ("LOCK.MACQUIRE 2 lock other TOKEN a EX #", seconds),
    ("LOCK.MACQUIRE 2 lock other TOKEN a WAIT #", units_or_none),
    ("LOCK.MACQUIRE # lock TOKEN a", |_| 1..=3),
    ("LOCK.MRELEASE a # lock", one),
    ("LOCK.EXTEND held t PX #", span),
    ("LOCK.EXTEND held t EX #", seconds),
    ("LOCK.MEXTEND t 1 held PX #", span),
    ("LOCK.MEXTEND t 1 held EX #", seconds),
    ("LOCK.MEXTEND t # held", one),
    ("STOCK.CREATE new #", units_or_none),
    ("STOCK.CREATE new 5 LIMIT #", units),
    ("STOCK.CREATE new 5 START #", time),
    ("STOCK.CREATE new 5 END #", time),
    ("STOCK.ALTER sale LIMIT #", units_or_none),
    ("STOCK.ALTER sale START #", time),
    ("STOCK.ALTER sale END #", time),
    ("STOCK.ADJUST sale #", |_| -EXACT..=EXACT),
    ("STOCK.DECR_ONCE sale id QTY #", units),
    ("STOCK.DECR_ONCE sale id HOLD #", span),
    ("STOCK.EXTEND sale h PX #", span),
    ("STOCK.ORDERS sale #", time),
    ("STOCK.ORDERS sale 0 COUNT #", |_| 1..=i64::MAX),
];

/// A server as [`OPEN`] wants it, and a connection.
fn stage(server: &Server) -> Client {
    let mut client = server.client();
    client.expect("FLUSHALL", OK);
    client.expect("LOCK.ACQUIRE held TOKEN t PX 3600000", ANY);
    client.expect("STOCK.CREATE sale 100 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale h HOLD 3600000", ANY);
    client
}

/// Whether a reply says of a number that it is out of range.
fn out_of_range(reply: &Reply) -> bool {
    let names_range = |text: &str| text.contains(" must be an integer from ");
    // Within the range of a count, but there are fewer keys.
    let names_count = |text: &str| text.starts_with("ERR numkeys is ") && text.contains(", but only ");
    matches!(reply, Reply::Error(text) if text.starts_with("ERR ") && (names_range(text) || names_count(text)))
}

#[test]
fn every_number_at_every_edge_is_done_or_refused_and_nothing_else() {
    let server = Server::start();
    let mut client = stage(&server);
    for (open, range) in OPEN {
        for edge in edges(unix_ms()) {
            let words = open.replace('#', &edge.to_string());
            let before = server.digest();
            let (early, reply, late) = (unix_ms(), client.cmd(&words), unix_ms());
            // What is legal until a moment ago, or only from now on, may be either.
            let legal = (range(early).contains(&edge), range(late).contains(&edge));
            assert!(legal.0 != legal.1 || out_of_range(&reply) != legal.0, "{words}: {reply:?}");
            if reply.is_error() {
                assert_eq!(server.digest(), before, "{words}: {reply:?}");
            } else {
                let sale = client.cmd("STOCK.INFO sale");
                let number = |field| sale.field(field).int();
                assert_eq!(number("total"), number("remaining") + number("held") + number("sold"), "{words}");
                client = stage(&server);
            }
        }
    }
}

#[test]
fn who_waits_for_as_long_as_at_an_edge_is_answered() {
    let server = Server::start();
    for command in ["LOCK.ACQUIRE held", "LOCK.MACQUIRE 2 held other"] {
        for edge in edges(unix_ms()) {
            let mut client = stage(&server);
            let mut waiter = server.client();
            waiter.send(format!("{command} TOKEN w WAIT {edge}"));
            let waits = || server.info_int("lockstock", "lockstock_lock_waiters") == 1;
            if !(0..=EXACT).contains(&edge) {
                let reply = waiter.read();
                assert!(out_of_range(&reply) && !waits(), "{command} WAIT {edge}: {reply:?}");
            } else if (1..1_000).contains(&edge) {
                waiter.read().is(NULL);
            } else {
                eventually("it waits", waits);
                client.expect("LOCK.RELEASE held t", 1);
                assert_eq!(waiter.read().at(0).text(), "w");
            }
        }
    }
    server.expect("PING", ANY);
}

#[test]
fn a_restored_fence_at_an_edge_is_refused_or_leaves_room_for_the_next() {
    let server = Server::builder().config("rdbcompression no").start();
    let mut client = server.client();
    let fence = client.cmd("LOCK.ACQUIRE lock TOKEN t PX 3600000").at(1).int();
    let dump = client.cmd("DUMP lock").bytes();
    client.expect("DEL lock", 1);
    let whole = Payload::of(&dump);
    let (old, mut refused, mut taken) = (varint(fence), 0, 0);
    let at = whole.strings[0].windows(old.len()).position(|window| window == old).expect("the fence");
    for edge in edges(unix_ms()).into_iter().filter(|edge| *edge >= 0) {
        let mut forged = whole.clone();
        forged.strings[0].splice(at..at + old.len(), varint(edge));
        let words: Words = [&b"RESTORE"[..], b"lock", b"0", &forged.bytes()].into();
        let reply = client.cmd(&words);
        // An hour ahead of the clock is the most; a second more or less is nobody's business.
        let ahead = edge / 1_000_000 - unix_ms() / 1_000;
        if ahead.abs_diff(3_600) > 1 {
            assert_eq!(reply.is_error(), edge == 0 || ahead > 3_600, "a fence of {edge}: {reply:?}");
        }
        if reply.is_error() {
            refused += 1;
        } else {
            taken += 1;
            let next = client.cmd("LOCK.ACQUIRE other TOKEN t PX 3600000").at(1).int();
            assert!(next > edge, "{next} after {edge}");
            client.expect("DEL lock other", 2);
        }
    }
    assert!(refused > 5 && taken > 5, "{refused} refused, {taken} taken");
}

/// A number as payloads have it: seven bits in a byte, the lowest first.
fn varint(number: i64) -> Vec<u8> {
    let (mut number, mut bytes) = (number.cast_unsigned(), vec![]);
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}
