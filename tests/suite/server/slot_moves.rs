//! Slots that move as a whole, with everything in them (Redis 8.4, Valkey 9): what the node that loses them still knows of it, and
//! what one does that was to get them and did not. Other servers cannot move them so, and the tests end there.

use std::time::{Duration, Instant};

use harness::{ANY, Client, Cluster, INT, OK, Reply, eventually, eventually_some, unix_ms};

use crate::support::line::Line;
use crate::support::load::busy;

/// So many that looking at each of them time and again is felt.
const LOCKS: usize = 200_000;

/// Sends `count` commands in large pieces; all of them succeed.
#[track_caller]
fn fill(client: &mut Client, count: usize, command: impl Fn(usize) -> String) {
    let numbers: Vec<usize> = (0..count).collect();
    for piece in numbers.chunks(10_000) {
        for reply in client.pipeline(piece.iter().map(|number| command(*number))) {
            reply.is(ANY);
        }
    }
}

/// A key that `node` serves, in another slot than `{gone}`.
#[track_caller]
fn neighbour(cluster: &Cluster, node: usize) -> String {
    let elsewhere = |key: &String| cluster.owner(key) == node && cluster.slot(key) != cluster.slot("{gone}");
    (0..1_000).map(|number| format!("stays-{number}")).find(elsewhere).expect("every node has many slots")
}

/// Waits until `node` serves the slot of `key`.
#[track_caller]
fn serves(cluster: &Cluster, node: usize, key: &str) {
    let mut client = cluster.node(node).client();
    eventually_some("the new owner serves", || (!client.cmd(["EXISTS", key]).is_error()).then_some(()));
}

/// How late, at worst, the lock `key` is handed over when its lease ends.
#[track_caller]
fn lateness(line: &mut Line<'_>, holder: &mut Client, key: &str) -> Duration {
    let mut worst = Duration::ZERO;
    for _ in 0..10 {
        holder.expect(format!("LOCK.ACQUIRE {key} TOKEN holder PX 60"), ("holder", INT, 60));
        let over = Instant::now() + Duration::from_millis(60);
        let mut heir = line.join(format!("LOCK.ACQUIRE {key} TOKEN heir WAIT 0"));
        heir.read().is(("heir", INT, 30_000));
        heir.expect(format!("LOCK.RELEASE {key} heir"), 1);
        worst = worst.max(Instant::now().saturating_duration_since(over));
    }
    worst
}

#[test]
fn locks_that_left_with_their_slot_are_forgotten() {
    const LEASE_MS: i64 = 12_000;
    let cluster = Cluster::start(3);
    let from = cluster.owner("{gone}");
    let to = (from + 1) % 3;
    let stays = neighbour(&cluster, from);
    let mut writer = cluster.node(from).client();
    writer.expect(format!("LOCK.ACQUIRE {stays} TOKEN first PX 60"), ANY);
    writer.expect("STOCK.CREATE {gone}sale 10 STREAM {gone}events", OK);
    writer.expect(format!("STOCK.DECR_ONCE {{gone}}sale ann HOLD {LEASE_MS}"), ANY);
    fill(&mut writer, LOCKS, |n| format!("LOCK.ACQUIRE {{gone}}{n} TOKEN t PX {LEASE_MS}"));
    let over = unix_ms() + LEASE_MS;
    let Some(begun) = cluster.move_whole_slot("{gone}", from, to) else { return };
    assert!(!begun.is_error(), "{begun:?}");
    serves(&cluster, to, "{gone}sale");
    let mut line = Line::at(cluster.node(from));
    eventually("the locks are forgotten", || line.count("locks_held") <= 1);
    line.until("sales", 0);
    // Nothing of them is left to be looked at when their leases end, and nothing else comes late because of them.
    eventually("their leases are over", || unix_ms() > over);
    let (begun, before) = (Instant::now(), busy(&writer.cmd("INFO cpu")));
    let late = lateness(&mut line, &mut writer, &stays);
    let load = busy(&writer.cmd("INFO cpu")).saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("handed over {late:?} late, {load:.2} of a core");
    assert!(late < Duration::from_millis(100), "{late:?}");
    assert!(load < 0.1, "{load}");
    // All of it lives on over there, and ends there once.
    let mut there = cluster.node(to).client();
    eventually("they end on their new node", || {
        there.cmd("STOCK.ORDER {gone}sale ann").field("state").text() == "expired"
    });
    eventually("and so do the locks", || Line::at(cluster.node(to)).count("locks_held") == 0);
    assert_eq!(there.cmd("XLEN {gone}events").int(), 2);
}

#[test]
fn a_node_that_does_not_get_the_slot_after_all_keeps_nothing_of_it() {
    let cluster = Cluster::start(3);
    let from = cluster.owner("{gone}");
    let to = (from + 1) % 3;
    let mut writer = cluster.node(from).client();
    writer.expect("STOCK.CREATE {gone}sale 10 STREAM {gone}events", OK);
    writer.expect("STOCK.DECR_ONCE {gone}sale ann HOLD 1", ANY);
    writer.expect("STOCK.DECR_ONCE {gone}sale bob HOLD 3600000", ANY);
    // Some are over before they have arrived.
    fill(&mut writer, LOCKS, |n| {
        let lease = [3_600_000, 1_500][usize::from(n % 100 == 0)];
        format!("LOCK.ACQUIRE {{gone}}{n} TOKEN t PX {lease}")
    });
    let held = LOCKS - LOCKS / 100;
    let Some(begun) = cluster.move_whole_slot("{gone}", from, to) else { return };
    assert!(!begun.is_error(), "{begun:?}");
    let mut line = Line::at(cluster.node(to));
    let mut moved = false;
    eventually("some have arrived", || {
        moved = matches!(writer.cmd("EXISTS {gone}sale"), Reply::Error(error) if error.starts_with("MOVED"));
        line.count("locks_held") > 0 || moved
    });
    assert!(!moved, "the slot has moved before the move could be cancelled");
    cluster.cancel_move(from, to);
    eventually("what came is gone again", || cluster.node(to).cmd("DBSIZE").int() == 0);
    line.until("locks_held", 0);
    line.until("sales", 0);
    line.until("orders", 0);
    assert_eq!(["lock_lapses", "stock_lapses", "lock_grants"].map(|field| line.count(field)), [0; 3]);
    // The first node has all of it and goes on.
    let mut here = Line::at(cluster.node(from));
    here.until("locks_held", i64::try_from(held).expect("few"));
    writer.expect("STOCK.CONFIRM {gone}sale bob", ("OK", 1, 9, -1, ""));
    assert_eq!(writer.cmd("XLEN {gone}events").int(), 4);
    writer.expect("LOCK.RELEASE {gone}1 t", 1);
}
