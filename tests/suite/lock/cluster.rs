//! Locks in a cluster: slots on the move, and nodes that lost the others.

use std::time::{Duration, Instant};

use harness::{ANY, Client, Cluster, INT, NULL, OK, Reply, err, eventually, eventually_some, unix_ms};

use crate::support::line::Line;

/// A lock held on one node, with a waiter, and the node that it will move to.
struct Scene {
    cluster: Cluster,
    from: usize,
    to: usize,
    holder: Client,
    fence: i64,
}

impl Scene {
    /// The hold is tied to a session, so that its end shows as well.
    fn set(lease_ms: i64) -> Self {
        let cluster = Cluster::start(3);
        let from = cluster.owner("lock");
        let mut holder = cluster.node(from).client();
        let taken = format!("LOCK.ACQUIRE lock TOKEN holder PX {lease_ms} SESSION");
        let fence = holder.expect(taken, ("holder", INT, lease_ms)).at(1).int();
        Self { from, to: (from + 1) % 3, cluster, holder, fence }
    }
}

/// How long the server may take to notice that a parked client's slot has gone; it looks about once a second.
const NOTICES: Duration = Duration::from_secs(4);

/// The client is told where the lock has gone, in good time.
#[track_caller]
fn is_redirected(client: &mut Client) {
    let begun = Instant::now();
    client.read().is(err("MOVED"));
    assert!(begun.elapsed() < NOTICES, "{:?}", begun.elapsed());
}

#[test]
fn waiters_follow_a_slot_that_moves_key_by_key() {
    let Scene { cluster, from, to, holder, fence } = Scene::set(60_000);
    let mut line = Line::at(cluster.node(from));
    let mut first = line.join("LOCK.ACQUIRE lock TOKEN first WAIT 0");
    let mut many = line.join("LOCK.MACQUIRE 2 {lock}a lock TOKEN many WAIT 0");
    cluster.begin_move("lock", from, to);
    cluster.move_key("lock", from, to);
    // The key is gone here, but it was not released: nobody is granted anything.
    assert_eq!(first.try_read(Duration::from_millis(150)), None);
    assert_eq!(line.count("lock_waiters"), 2);
    cluster.end_move("lock", from, to);
    is_redirected(&mut first);
    is_redirected(&mut many);
    assert_eq!(line.count("lock_grants"), 1);

    // Asking again over there, they find the hold and stand in line.
    let mut line = Line::at(cluster.node(to));
    let mut first = line.join("LOCK.ACQUIRE lock TOKEN first WAIT 0");
    let mut many = line.join("LOCK.MACQUIRE 2 {lock}a lock TOKEN many WAIT 0");
    assert_eq!(line.holders("lock"), ["holder"]);
    // The connection that the hold was tied to is none of the new node's: the hold stays to its lease.
    holder.close();
    let target = cluster.node(to);
    target.expect("LOCK.ACQUIRE lock TOKEN holder PX 50000", ("holder", fence, 50_000));
    target.expect("LOCK.RELEASE lock holder", 1);
    assert!(first.read().is(("first", INT, 30_000)).at(1).int() > fence);
    first.expect("LOCK.RELEASE lock first", 1);
    many.read().is(("many", INT, 30_000));
}

#[test]
fn waiters_follow_a_slot_that_moves_as_a_whole() {
    let Scene { cluster, from, to, mut holder, fence } = Scene::set(60_000);
    let mut line = Line::at(cluster.node(from));
    let mut first = line.join("LOCK.ACQUIRE lock TOKEN first WAIT 0");
    let mut writer = cluster.node(from).client();
    for n in 0..100 {
        writer.expect(format!("LOCK.ACQUIRE {{lock}}{n} TOKEN t PX 60000 SHARED"), ANY);
        writer.expect(format!("LOCK.ACQUIRE {{lock}}{n} TOKEN u PX 60000 SHARED"), ANY);
    }
    let begun = cluster.move_whole_slot("lock", from, to);
    let Some(begun) = begun else { return };
    assert!(!begun.is_error(), "{begun:?}");
    // Life goes on meanwhile; whatever is done is done on one side only, and holds on the other.
    let mut renewed = 0;
    eventually("the slot has moved", || {
        match holder.cmd("LOCK.ACQUIRE lock TOKEN holder PX 60000") {
            Reply::Error(moved) if moved.starts_with("MOVED") => return true,
            Reply::Error(busy) => assert!(busy.starts_with("TRYAGAIN"), "{busy}"),
            granted => {
                granted.is(("holder", fence, 60_000));
                renewed += 1;
            }
        }
        false
    });
    is_redirected(&mut first);
    let mut line = Line::at(cluster.node(to));
    let mut admin = cluster.node(to).client();
    for n in 0..100 {
        eventually_some("the new owner serves", || {
            let holders = admin.cmd(format!("LOCK.INFO {{lock}}{n}"));
            (!holders.is_error()).then_some(holders)
        });
        assert_eq!(line.holders(&format!("{{lock}}{n}")), ["t", "u"]);
    }
    let mut first = line.join("LOCK.ACQUIRE lock TOKEN first WAIT 0");
    admin.expect("LOCK.RELEASE lock holder", 1);
    assert!(first.read().is(("first", INT, 30_000)).at(1).int() > fence);
}

#[test]
fn a_transaction_that_moves_a_lock_grants_it_to_no_waiter_here() {
    for next in ["LOCK.RELEASE lock holder", "LOCK.EXTEND lock holder PX 60000", "LOCK.MRELEASE holder 1 lock"] {
        let Scene { cluster, from, to, mut holder, .. } = Scene::set(60_000);
        let mut line = Line::at(cluster.node(from));
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        cluster.begin_move("lock", from, to);
        holder.expect("MULTI", OK);
        for queued in [format!("MIGRATE 127.0.0.1 {} lock 0 5000", cluster.node(to).port()), next.to_owned()] {
            holder.expect(queued, ANY);
        }
        assert_eq!(holder.cmd("EXEC").items().len(), 2);
        cluster.end_move("lock", from, to);
        is_redirected(&mut waiter);
        assert_eq!(line.count("lock_grants"), 1, "{next}");
        let held = cluster.node(to).cmd("LOCK.INFO lock");
        assert_eq!(held.field("holders").items().len(), 1, "{next}");
    }
}

/// Nor is it granted to a request of the same transaction.
#[test]
fn a_transaction_that_moves_a_lock_takes_it_for_no_token_here() {
    for next in
        ["LOCK.ACQUIRE lock", "LOCK.ACQUIRE lock TOKEN t WAIT 0 NOTIFY news", "LOCK.MACQUIRE 2 lock {lock}a TOKEN t"]
    {
        let Scene { cluster, from, to, mut holder, .. } = Scene::set(60_000);
        holder.expect("LOCK.ACQUIRE {lock}a TOKEN t", ANY);
        cluster.begin_move("lock", from, to);
        // Where the slot moves to, the holder still has the lock.
        let port = cluster.node(to).port();
        let queued = ["MULTI", &format!("MIGRATE 127.0.0.1 {port} lock 0 5000"), next, "LOCK.INFO lock", "EXEC"];
        holder.pipeline(queued).pop().expect("the reply to EXEC").is((OK, err("TRYAGAIN"), NULL));
        cluster.move_key("{lock}a", from, to);
        cluster.end_move("lock", from, to);
        cluster.node(to).expect("LOCK.RELEASE lock holder", 1);
    }
}

/// A node that takes a slot over grants a lock that a transaction releases, and keeps no free lock.
#[test]
fn a_transaction_on_the_node_to_which_a_lock_moves_hands_it_over() {
    let Scene { cluster, from, to, .. } = Scene::set(60_000);
    cluster.begin_move("lock", from, to);
    let mut line = Line::at(cluster.node(to));
    let mut holder = cluster.node(to).client();
    holder.expect("ASKING", OK);
    holder.expect("LOCK.ACQUIRE {lock}a TOKEN first", ("first", INT, 30_000));
    let mut waiter = cluster.node(to).client();
    waiter.expect("ASKING", OK);
    line.enter(&mut waiter, "LOCK.ACQUIRE {lock}a TOKEN second WAIT 0");
    let mut in_transaction =
        |call: &str| holder.pipeline(["ASKING", "MULTI", call, "EXEC"]).pop().expect("the reply to EXEC").at(0).clone();
    in_transaction("LOCK.ACQUIRE {lock}b TOKEN first").is(("first", INT, 30_000));
    in_transaction("LOCK.RELEASE {lock}a first").is(1);
    waiter.read().is(("second", INT, 30_000));
    cluster.node(to).expect("DEBUG RELOAD", OK);
}

#[test]
fn what_falls_due_for_a_key_that_has_moved_is_left_to_its_new_node() {
    let Scene { cluster, from, to, holder, .. } = Scene::set(4_000);
    let mut line = Line::at(cluster.node(from));
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    cluster.begin_move("lock", from, to);
    cluster.move_key("lock", from, to);
    holder.close();
    // Over there the lease is over at its time, though the node ends nothing before the slot is its own.
    let mut asking = cluster.node(to).client();
    eventually("the lease is over", || {
        asking.expect("ASKING", OK);
        matches!(asking.cmd("LOCK.INFO lock"), Reply::Nil(_))
    });
    assert_eq!(waiter.try_read(Duration::from_millis(250)), None);
    cluster.end_move("lock", from, to);
    is_redirected(&mut waiter);
    assert_eq!(line.count("lock_grants"), 1);
    eventually("the new node has ended the hold", || asking.cmd("EXISTS lock") == Reply::Int(0));
}

#[test]
fn a_move_that_is_called_off_gives_the_waiters_their_turn() {
    let Scene { cluster, from, to, holder: _holder, .. } = Scene::set(60_000);
    let mut line = Line::at(cluster.node(from));
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    cluster.begin_move("lock", from, to);
    // From here on, what is not here may be over there.
    cluster.node(from).expect("DEL lock", 1);
    assert_eq!(waiter.try_read(Duration::from_millis(250)), None);
    for node in [to, from] {
        cluster.node(node).expect(format!("CLUSTER SETSLOT {} STABLE", cluster.slot("lock")), OK);
    }
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(line.holders("lock"), ["waiter"]);
}

#[test]
fn locks_of_several_slots_are_not_taken_together() {
    let cluster = Cluster::start(3);
    let node = cluster.node(cluster.owner("{a}1"));
    node.expect("LOCK.MACQUIRE 2 {a}1 {b}1 TOKEN t", err("CROSSSLOT"));
    node.expect("LOCK.MRELEASE t 2 {a}1 {b}1", err("CROSSSLOT"));
    node.expect("LOCK.MEXTEND t 2 {a}1 {b}1", err("CROSSSLOT"));
    node.expect("LOCK.MACQUIRE 2 {a}1 {a}2 TOKEN t", ("t", INT, 30_000));
    node.expect("LOCK.MACQUIRE 2 {a}2 {a}3 TOKEN u", NULL);
    node.expect("LOCK.MEXTEND t 2 {a}1 {a}2", 1);
    node.expect("LOCK.MRELEASE t 2 {a}1 {a}2", 2);
    let other = cluster.node((cluster.owner("{a}1") + 1) % 3);
    other.expect("LOCK.MACQUIRE 2 {a}1 {a}2 TOKEN t", err("MOVED"));
    other.expect("LOCK.MEXTEND t 2 {a}1 {a}2", err("MOVED"));
    other.expect("LOCK.ACQUIRE {a}1 TOKEN t WAIT 0", err("MOVED"));
}

#[test]
fn a_node_without_its_cluster_grants_nothing() {
    let Scene { mut cluster, from, holder, .. } = Scene::set(60_000);
    let mut waiter = Line::at(cluster.node(from)).join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    let mut admin = cluster.node(from).client();
    for number in (0..3).filter(|number| *number != from) {
        cluster.lose(number);
    }
    waiter.read().is(err("CLUSTERDOWN"));
    holder.close();
    let mut line = Line::at(cluster.node(from));
    line.until("lock_waiters", 0);
    admin.expect("LOCK.ACQUIRE lock TOKEN other WAIT 0", err("CLUSTERDOWN"));
    assert_eq!((line.count("locks_held"), line.count("lock_grants")), (1, 1));
}

#[test]
fn a_node_that_may_only_read_without_its_cluster_decides_nothing() {
    let mut cluster = Cluster::start_with(3, &["cluster-allow-reads-when-down yes"]);
    let from = cluster.owner("lock");
    let mut reader = cluster.node(from).client();
    reader.expect("STOCK.CREATE {lock}sale 5 STREAM {lock}events", OK);
    reader.expect("STOCK.DECR_ONCE {lock}sale ann HOLD 12000", ("OK", 1, 4, INT, ""));
    reader.expect("LOCK.ACQUIRE lock TOKEN holder PX 12000", ANY);
    let over = unix_ms() + 12_000;
    for number in (0..3).filter(|number| *number != from) {
        cluster.lose(number);
    }
    eventually("the node may only read", || reader.cmd("LOCK.RELEASE lock nobody").is_error());
    assert!(unix_ms() < over, "the machine is too slow for this test");
    eventually("all is over", || unix_ms() > over + 500);
    assert_eq!((reader.cmd("EXISTS lock").int(), reader.cmd("XLEN {lock}events").int()), (1, 1));
    let mut line = Line::at(cluster.node(from));
    assert_eq!(["lock_lapses", "stock_lapses"].map(|field| line.count(field)), [0, 0]);
}

#[test]
fn waiters_follow_a_slot_that_moves_whatever_braces_their_locks_have() {
    for lock in ["{lock}:1", "a{{lock}b", "lock}", "{}lock", "{lock", "}{", "{}"] {
        let cluster = Cluster::start(2);
        let from = cluster.owner(lock);
        let (node, to) = (cluster.node(from), 1 - from);
        let (mut line, mut holder) = (Line::at(node), node.client());
        holder.expect(format!("LOCK.ACQUIRE {lock} TOKEN holder PX 60000"), ANY);
        let mut waiter = line.join(format!("LOCK.ACQUIRE {lock} TOKEN waiter WAIT 0"));
        cluster.begin_move(lock, from, to);
        cluster.move_key(lock, from, to);
        cluster.end_move(lock, from, to);
        is_redirected(&mut waiter);
    }
}

#[test]
fn a_circle_within_a_slot_is_seen() {
    let cluster = Cluster::start(2);
    let node = cluster.node(cluster.owner("{x}"));
    let (mut line, mut client) = (Line::at(node), node.client());
    for token in ["a", "b", "c"] {
        client.expect(format!("LOCK.ACQUIRE {{x}}{token} TOKEN {token}"), ANY);
    }
    let _a = line.join("LOCK.ACQUIRE {x}b TOKEN a WAIT 0");
    let _b = line.join("LOCK.ACQUIRE {x}c TOKEN b WAIT 0");
    let error = "DEADLOCK the token and others would wait for each other at '{x}a', '{x}b', '{x}c'";
    client.expect("LOCK.ACQUIRE {x}a TOKEN c WAIT 0", err(error));
}
