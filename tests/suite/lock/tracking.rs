//! A holder that tracks `LOCK.INFO` (`CLIENT TRACKING`) is told when its hold ends, whatever ended it.

use std::time::Duration;

use harness::{ANY, Client, Cluster, INT, OK, Reply, Server, err, eventually};

use crate::support::line::Line;

/// Far longer than the news takes, even on a busy machine, and shorter than any lease here that is not meant to end.
const MOMENT: Duration = Duration::from_secs(15);

/// A lease that lasts until another client ends it.
const LONG: i64 = 3_600_000;

/// A connection that is told what has changed of what it has read.
struct Tracker {
    asks: Client,
    /// Where the news comes to, with RESP2: a connection that has subscribed to it.
    hears: Option<Client>,
}

impl Tracker {
    /// Over one connection, which speaks RESP3 and is sent pushes.
    fn push(server: &Server, options: &str) -> Self {
        let mut asks = server.client();
        asks.hello3();
        asks.expect(format!("CLIENT TRACKING ON {options}"), OK);
        Self { asks, hears: None }
    }

    /// Over two connections with RESP2: one asks, the other is told.
    fn redirected(server: &Server, options: &str) -> Self {
        let mut hears = server.client();
        let id = hears.id();
        hears.expect("SUBSCRIBE __redis__:invalidate", ("subscribe", "__redis__:invalidate", 1));
        let mut asks = server.client();
        asks.expect(format!("CLIENT TRACKING ON REDIRECT {id} {options}"), OK);
        Self { asks, hears: Some(hears) }
    }

    /// Both kinds, each made when the one before it is done with.
    fn each(server: &Server, options: &str) -> impl Iterator<Item = Self> {
        [Self::push, Self::redirected].into_iter().map(move |kind| kind(server, options))
    }

    /// Reads who holds `lock`, and so asks to be told of the next change.
    #[track_caller]
    fn holders(&mut self, lock: &str) -> Vec<String> {
        let mut answer = self.asks.cmd(["LOCK.INFO", lock]);
        // News before the answer is older than it: Valkey 9 tells of a flush twice.
        while matches!(answer, Reply::Push(_)) {
            answer = self.asks.read();
        }
        match answer {
            Reply::Nil(_) => vec![],
            info => info.field("holders").items().iter().map(|row| row.field("token").text()).collect(),
        }
    }

    /// The news, if some comes within `patience` with no traffic on this tracker's connections: the key, or null for all keys.
    #[track_caller]
    fn news_within(&mut self, patience: Duration) -> Option<Reply> {
        let said = match &mut self.hears {
            None => self.asks.try_read(patience)?.is(("invalidate", ANY)).at(1).clone(),
            Some(hears) => hears.try_read(patience)?.is(("message", "__redis__:invalidate", ANY)).at(2).clone(),
        };
        Some(if matches!(said, Reply::Nil(_)) { said } else { said.at(0).clone() })
    }

    /// Fails the test unless the news comes that `lock` has changed, or everything.
    #[track_caller]
    fn is_told_of(&mut self, lock: &str) {
        let news = self.news_within(MOMENT).expect("news of the lock");
        assert!(matches!(news, Reply::Nil(_)) || news == Reply::Bulk(lock.into()), "{news:?}");
    }

    /// Fails the test unless the news comes that "holder" has `lock` no more. A client that is told of a change looks what it was.
    #[track_caller]
    fn is_told_of_the_end(&mut self, lock: &str) -> Vec<String> {
        loop {
            self.is_told_of(lock);
            let holders = self.holders(lock);
            if !holders.contains(&"holder".into()) {
                return holders;
            }
        }
    }

    /// Fails the test unless there has been no news so far.
    #[track_caller]
    fn has_heard_nothing(&mut self) {
        // What has been sent to it before comes before this answer.
        let probe = self.hears.as_mut().unwrap_or(&mut self.asks);
        let said = probe.cmd("PING");
        assert!(matches!(&said, Reply::Simple(text) if text == "PONG") || said.at(0).text() == "pong", "{said:?}");
    }
}

/// What ends the hold of "holder" in the lock "lock".
const ENDS: [&[&str]; 8] = [
    &["LOCK.RELEASE lock holder"],
    &["LOCK.MRELEASE holder 1 lock"],
    &["DEL lock"],
    &["UNLINK lock"],
    &["PEXPIRE lock 1"],
    &["RENAME lock elsewhere", "DEL elsewhere"],
    &["FLUSHDB"],
    &["FLUSHALL"],
];

#[test]
fn a_holder_is_told_of_whatever_ends_its_hold() {
    let server = Server::start();
    let mut other = server.client();
    for mut holder in Tracker::each(&server, "") {
        for end in ENDS {
            other.expect(format!("LOCK.ACQUIRE lock TOKEN holder PX {LONG}"), ("holder", INT, LONG));
            assert_eq!(holder.holders("lock"), ["holder"]);
            other.expect(end[0], ANY);
            let left: [&str; 0] = [];
            assert_eq!(holder.is_told_of_the_end("lock"), left, "after {end:?}");
            for rest in &end[1..] {
                other.expect(*rest, ANY);
            }
            // A client that has read the free lock is told once it is held.
            other.expect("LOCK.ACQUIRE lock TOKEN next", ("next", INT, 30_000));
            holder.is_told_of("lock");
            other.expect("LOCK.RELEASE lock next", 1);
            holder.has_heard_nothing();
        }
    }
}

#[test]
fn a_holder_is_told_that_its_lease_is_over_with_no_traffic() {
    let server = Server::start();
    for mut holder in Tracker::each(&server, "") {
        holder.asks.expect("LOCK.ACQUIRE lock TOKEN holder PX 3000", ("holder", INT, 3_000));
        holder.asks.expect("LOCK.INFO lock", ANY);
        if holder.hears.is_none() {
            // It took the lock itself before it read of it.
            holder.has_heard_nothing();
        }
        holder.is_told_of("lock");
        assert!(holder.holders("lock").is_empty());
        holder.asks.expect("LOCK.EXTEND lock holder", 0);
    }
}

#[test]
fn the_news_of_a_hand_over_never_comes_before_the_next_holds() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut other = server.client();
    for mut holder in Tracker::each(&server, "") {
        for (lease_ms, end) in [(LONG, "LOCK.RELEASE lock holder"), (LONG, "DEL lock"), (3_000, "PING")] {
            let mut waiter = line.join_behind(&mut other, lease_ms);
            assert_eq!(holder.holders("lock"), ["holder"]);
            // A new waiter changes nothing of the hold.
            let late = line.join("LOCK.ACQUIRE lock TOKEN late WAIT 0");
            holder.has_heard_nothing();
            late.close();
            line.until("lock_waiters", 1);
            holder.has_heard_nothing();
            other.expect(end, ANY);
            holder.is_told_of("lock");
            assert_eq!(holder.holders("lock"), ["waiter"], "{end}");
            waiter.read().is(("waiter", INT, 60_000));
            waiter.expect("LOCK.RELEASE lock waiter", 1);
            holder.is_told_of("lock");
        }
    }
}

#[test]
fn a_process_is_told_on_one_connection_that_the_session_of_another_is_over() {
    let server = Server::start();
    for mut tracker in Tracker::each(&server, "") {
        let mut session = server.client();
        session.expect("LOCK.MACQUIRE 2 lock other TOKEN holder EX 3600 SESSION", ("holder", INT, LONG));
        assert_eq!(tracker.holders("lock"), ["holder"]);
        session.reset();
        tracker.is_told_of("lock");
        assert!(tracker.holders("lock").is_empty());
        eventually("the session is over", || server.cmd("DBSIZE").int() == 0);
    }
}

/// With NOLOOP, a watchdog may extend over the very connection that listens.
#[test]
fn with_noloop_a_holder_is_told_of_all_but_its_own_doing() {
    let server = Server::start();
    let mut other = server.client();
    for mut holder in Tracker::each(&server, "NOLOOP") {
        for end in [Some("LOCK.RELEASE lock holder"), Some("DEL lock"), None] {
            holder.asks.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ("holder", INT, 60_000));
            assert_eq!(holder.holders("lock"), ["holder"]);
            holder.asks.expect("LOCK.EXTEND lock holder PX 60000", 1);
            assert_eq!(holder.holders("lock"), ["holder"]);
            holder.asks.expect("LOCK.EXTEND lock holder PX 3000", 1);
            assert_eq!(holder.holders("lock"), ["holder"]);
            holder.has_heard_nothing();
            if let Some(end) = end {
                other.expect(end, ANY);
            }
            holder.is_told_of("lock");
            assert!(holder.holders("lock").is_empty());
        }
    }
}

#[test]
fn with_a_prefix_a_client_is_told_of_all_locks_without_having_read_them() {
    let server = Server::start();
    let mut other = server.client();
    for mut tracker in Tracker::each(&server, "BCAST PREFIX lock:") {
        other.expect("LOCK.ACQUIRE lock:1 TOKEN holder PX 1000", ("holder", INT, 1_000));
        tracker.is_told_of("lock:1");
        // Nobody reads it; the lease ends.
        tracker.is_told_of("lock:1");
        assert!(tracker.holders("lock:1").is_empty());
        other.expect(format!("LOCK.ACQUIRE lock:2 TOKEN holder PX {LONG}"), ANY);
        tracker.is_told_of("lock:2");
        other.expect("LOCK.RELEASE lock:2 holder", 1);
        tracker.is_told_of("lock:2");
        other.expect("LOCK.ACQUIRE elsewhere TOKEN holder", ANY);
        other.expect("LOCK.RELEASE elsewhere holder", 1);
        tracker.has_heard_nothing();
    }
}

#[test]
fn a_semaphore_or_read_lock_tells_each_holder_of_the_others_too() {
    let server = Server::start();
    let mut other = server.client();
    for mode in ["SHARED", "LIMIT 2"] {
        for mut holder in Tracker::each(&server, "") {
            other.expect(format!("LOCK.ACQUIRE lock TOKEN holder PX {LONG} {mode}"), ANY);
            assert_eq!(holder.holders("lock"), ["holder"]);
            other.expect(format!("LOCK.ACQUIRE lock TOKEN beside PX {LONG} {mode}"), ANY);
            holder.is_told_of("lock");
            assert_eq!(holder.holders("lock"), ["holder", "beside"]);
            other.expect("LOCK.RELEASE lock holder", 1);
            holder.is_told_of("lock");
            assert_eq!(holder.holders("lock"), ["beside"]);
            other.expect("LOCK.RELEASE lock beside", 1);
        }
    }
}

/// A replica ends nothing by itself: it tells what its primary has decided.
#[test]
fn a_replica_tells_its_clients_when_it_learns_of_the_end() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut line = Line::at(&primary);
    let mut other = primary.client();
    for mut holder in Tracker::each(&replica, "") {
        for (lease_ms, end) in [(LONG, "LOCK.RELEASE lock holder"), (LONG, "DEL lock"), (3_000, "PING")] {
            let mut waiter = line.join_behind(&mut other, lease_ms);
            replica.wait_in_sync(&primary);
            assert_eq!(holder.holders("lock"), ["holder"]);
            other.expect(end, ANY);
            holder.is_told_of_the_end("lock");
            // What the replica applies next is the grant.
            eventually("the next holds", || holder.holders("lock") == ["waiter"]);
            waiter.read().is(("waiter", INT, 60_000));
            waiter.expect("LOCK.RELEASE lock waiter", 1);
            replica.wait_in_sync(&primary);
            while holder.news_within(Duration::from_millis(50)).is_some() {}
        }
    }
}

#[test]
fn in_a_cluster_the_node_that_had_the_lock_tells_that_it_has_left() {
    let cluster = Cluster::start(2);
    let from = cluster.owner("lock");
    let (source, to) = (cluster.node(from), 1 - from);
    let mut holders: Vec<Tracker> = Tracker::each(source, "").collect();
    source.expect(format!("LOCK.ACQUIRE lock TOKEN holder PX {LONG}"), ("holder", INT, LONG));
    for holder in &mut holders {
        assert_eq!(holder.holders("lock"), ["holder"]);
    }
    cluster.begin_move("lock", from, to);
    cluster.move_key("lock", from, to);
    cluster.end_move("lock", from, to);
    for holder in &mut holders {
        holder.is_told_of("lock");
        // The hold has not ended: it is asked for where it is now.
        holder.asks.expect("LOCK.INFO lock", err("MOVED"));
    }
    cluster.node(to).expect("LOCK.RELEASE lock holder", 1);
}
