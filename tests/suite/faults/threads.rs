//! Another module calls our commands from a thread of its own, which holds the server's lock. Each of them does there what it does for a client.

use std::thread;

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, INT, NULL, OK, Server, TEXT};

use crate::support::line::Line;

/// An hour: the hold ends only if the call from the thread ends it.
const HOUR: i64 = 3_600_000;

fn server() -> Server {
    Server::builder().config(&harness::listener::line()).start()
}

/// Waits for the stream's event number `count`, with no other traffic: only the timer can append it.
#[track_caller]
fn wait_for_event(client: &mut Client, count: usize) -> String {
    let known = client.cmd("XRANGE events - +");
    let last = known.items().last().map_or_else(|| "0".into(), |entry| entry.at(0).text());
    if known.items().len() < count {
        client.cmd(["XREAD", "BLOCK", "5000", "STREAMS", "events", &last]);
    }
    let told = events(client, "events");
    let event = told.get(count - 1).unwrap_or_else(|| panic!("no event number {count}: {told:?}"));
    format!("{} {}", event.event, event.id)
}

#[test]
fn a_hold_that_a_thread_took_lapses() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("LISTENER.THREAD STOCK.DECR_ONCE sale ann HOLD 50", ("OK", 1, 0, INT, ""));
    assert_eq!(wait_for_event(&mut client, 2), "expire ann");
    assert_eq!(server.info_int("lockstock", "lockstock_stock_lapses"), 1);
    assert_eq!(books(&mut client, "sale").remaining, 1);
}

#[test]
fn a_deadline_that_a_thread_moves_forward_is_kept() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect(format!("STOCK.DECR_ONCE sale ann HOLD {HOUR}"), ("OK", 1, 0, INT, ""));
    client.expect("LISTENER.THREAD STOCK.EXTEND sale ann PX 50", ("OK", 1, 0, INT, ""));
    assert_eq!(wait_for_event(&mut client, 2), "expire ann");
}

#[test]
fn a_sale_that_a_thread_renames_goes_on_with_its_deadlines() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 400", ("OK", 1, 0, INT, ""));
    client.expect("LISTENER.THREAD RENAME sale moved", OK);
    assert_eq!(wait_for_event(&mut client, 2), "expire ann");
    assert_eq!(books(&mut client, "moved").remaining, 1);
}

#[test]
fn a_sale_that_a_thread_restores_goes_on_with_its_deadlines() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 400", ("OK", 1, 0, INT, ""));
    let payload = client.cmd("DUMP sale").bytes();
    client.expect("DEL sale", 1);
    let words: [&[u8]; 5] = [b"LISTENER.THREAD", b"RESTORE", b"sale", b"0", &payload];
    client.expect(words, OK);
    assert_eq!(wait_for_event(&mut client, 2), "expire ann");
    assert_eq!(books(&mut client, "sale").remaining, 1);
}

#[test]
fn units_that_a_thread_gives_back_go_to_the_line() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale bob HOLD 50 WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("LISTENER.THREAD STOCK.CANCEL sale ann", ("OK", 0, 0, -1, ""));
    assert_eq!(wait_for_event(&mut client, 4), "ok bob");
    assert_eq!(wait_for_event(&mut client, 5), "expire bob");
}

#[test]
fn a_lock_that_a_thread_acquires_is_held_and_ends_with_its_lease() {
    let server = server();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LISTENER.THREAD LOCK.ACQUIRE lock TOKEN thread PX 300", ("thread", INT, 300));
    assert_eq!(line.holders("lock"), ["thread"]);
    assert_eq!(server.info_int("lockstock", "lockstock_locks_held"), 1);
    client.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(line.holders("lock"), ["waiter"]);
}

#[test]
fn a_lock_that_a_thread_frees_goes_to_the_next_waiter() {
    let server = server();
    let (mut line, mut client) = (Line::at(&server), server.client());
    for (free, reply) in [("LOCK.RELEASE lock holder", 1), ("LOCK.MRELEASE holder 1 lock", 1), ("DEL lock", 1)] {
        client.expect("LOCK.ACQUIRE lock TOKEN holder", ("holder", INT, 30_000));
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        client.expect(format!("LISTENER.THREAD {free}"), reply);
        waiter.read().is(("waiter", INT, 30_000));
        client.expect("LISTENER.THREAD LOCK.RELEASE lock waiter", 1);
        client.expect("EXISTS lock", 0);
    }
    client.expect("LISTENER.THREAD LOCK.ACQUIRE lock TOKEN thread WAIT 60000", ("thread", INT, 30_000));
    client.expect("LISTENER.THREAD LOCK.ACQUIRE lock TOKEN other WAIT 60000", NULL);
    client.expect("LISTENER.THREAD FLUSHALL", OK);
    client.expect("LOCK.ACQUIRE lock TOKEN other", ("other", INT, 30_000));
}

#[test]
fn threads_and_clients_take_turns_and_nothing_is_lost_or_sold_twice() {
    let server = server();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 200 STREAM events", OK);
    thread::scope(|scope| {
        for buyer in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                let by = if buyer % 2 == 0 { "LISTENER.THREAD " } else { "" };
                for n in 0..40 {
                    client.expect(format!("{by}STOCK.DECR_ONCE sale {buyer}-{n} HOLD 20"), (TEXT, INT, INT, INT, ""));
                    client.expect(format!("{by}LOCK.ACQUIRE lock TOKEN {buyer} PX 20"), ANY);
                    client.expect(format!("{by}LOCK.RELEASE lock {buyer}"), ANY);
                }
            });
        }
    });
    harness::eventually("all holds have lapsed", || books(&mut client, "sale").remaining == 200);
    Replay::of(200, &events(&mut client, "events")).agrees_with(&mut client, "sale");
    client.expect("PING", ANY);
}
