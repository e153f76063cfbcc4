//! A server with a great deal to do still serves all other clients, and deadlines elsewhere are kept.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::{ANY, Client, Cluster, INT, OK, Server, eventually, unix_ms};

use crate::support::line::Line;

/// Processor time of the server's main thread so far.
fn cpu(pid: u32) -> Duration {
    let times = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).expect("a process");
    Duration::from_nanos(times.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

/// How long a client who only says PING waits for each answer while something happens, from shortest to longest.
fn pings(server: &Server, happening: impl FnOnce()) -> Vec<Duration> {
    let mut client = server.client();
    let done = AtomicBool::new(false);
    let mut times = thread::scope(|scope| {
        let pinging = scope.spawn(|| {
            let mut times = vec![];
            while !done.load(Ordering::Relaxed) {
                let begun = Instant::now();
                client.expect("PING", ANY);
                times.push(begun.elapsed());
                thread::sleep(Duration::from_micros(500));
            }
            times
        });
        let happened = catch_unwind(AssertUnwindSafe(happening));
        // Else a failure would never be told of.
        done.store(true, Ordering::Relaxed);
        let times = pinging.join().expect("no panic");
        happened.unwrap_or_else(|failure| resume_unwind(failure));
        times
    });
    times.sort_unstable();
    println!("{} pings: p99 {:?}, worst {:?}", times.len(), part(&times, 99), part(&times, 100));
    times
}

fn part(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Sends many commands and reads as many replies, a thousand at a time.
fn pipeline(client: &mut Client, commands: impl Iterator<Item = String>) {
    let commands: Vec<String> = commands.collect();
    for some in commands.chunks(1_000) {
        for reply in client.pipeline(some.iter().cloned()) {
            assert!(!reply.is_error(), "{reply:?}");
        }
    }
}

/// The longest wait of a client on a machine that is busy with other things as well. The goal is 5 ms at the 99th percentile
/// on one that is not; the figures are in docs/testing.md.
const MOST: Duration = Duration::from_millis(400);

#[test]
fn the_end_of_a_hundred_thousand_sessions_delays_nobody() {
    const SESSIONS: usize = 100_000;
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut busy = server.client();
    pipeline(&mut busy, (0..SESSIONS).map(|n| format!("LOCK.ACQUIRE s{n} TOKEN busy PX 3600000 SESSION")));
    let mut holder = server.client();
    let late = pings(&server, || {
        // It ends while most of the sessions are still to be ended.
        let begun = Instant::now();
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 100", ANY);
        let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
        thread::sleep(Duration::from_millis(50));
        busy.reset();
        next.read().is(("next", INT, 30_000));
        let late = begun.elapsed().saturating_sub(Duration::from_millis(100));
        let left = line.count("locks_held");
        println!("{left} sessions are left when the lease elsewhere has been handed over, {late:.1?} after its end");
        assert!(left > 1_000, "the lease had to wait for the sessions");
        assert!(late < MOST, "{late:?}");
        eventually("all have ended", || line.count("locks_held") == 1);
    });
    assert!(part(&late, 99) < MOST, "{:?}", part(&late, 99));
}

#[test]
fn a_hundred_requests_for_a_thousand_locks_are_granted_one_by_one() {
    for by_command in [false, true] {
        let server = Server::start();
        let (mut line, mut holder) = (Line::at(&server), server.client());
        let gates: Vec<String> = (0..100).map(|n| format!("g{n}")).collect();
        let gates = gates.join(" ");
        holder.expect(format!("LOCK.MACQUIRE 100 {gates} TOKEN holder PX 3600000"), ANY);
        let mut waiters: Vec<Client> = gates
            .split(' ')
            .map(|gate| {
                let keys: Vec<String> = (1..1_000).map(|n| format!("{gate}:{n}")).collect();
                line.join(format!("LOCK.MACQUIRE 1000 {gate} {} TOKEN {gate} PX 60000 WAIT 0", keys.join(" ")))
            })
            .collect();
        let mut seen = BTreeSet::new();
        let times = pings(&server, || {
            if by_command {
                holder.expect(format!("LOCK.MRELEASE holder 100 {gates}"), 100);
            } else {
                holder.expect(format!("LOCK.MEXTEND holder 100 {gates} PX 1"), 1);
            }
            // A client that looks while they are granted sees that some are, and others not yet.
            eventually("all are granted", || {
                let waiting = line.count("lock_waiters");
                seen.insert(waiting);
                waiting == 0
            });
        });
        assert!(part(&times, 99) < MOST, "{:?}", part(&times, 99));
        assert!(seen.len() > 5, "all at once: {seen:?}");
        for (waiter, gate) in waiters.iter_mut().zip(gates.split(' ')) {
            waiter.read().is((gate, INT, 60_000));
        }
        line.until("locks_held", 100_000);
    }
}

/// Sales with a hold each that is due soon.
fn sales(client: &mut Client, count: usize, tag: &str) {
    pipeline(client, (0..count).map(|n| format!("STOCK.CREATE {tag}:{n} 1 STREAM {tag}:stream")));
    pipeline(client, (0..count).map(|n| format!("STOCK.DECR_ONCE {tag}:{n} id HOLD 15000")));
}

/// The part of a core that the server takes while `eye` watches it for two seconds.
fn share(server: &Server) -> f64 {
    let (begun, wall) = (cpu(server.pid()), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let share = cpu(server.pid()).saturating_sub(begun).as_secs_f64() / wall.elapsed().as_secs_f64();
    println!("{:.1} % of a core", share * 100.0);
    share
}

#[test]
fn lapses_that_a_stream_refuses_cost_little_and_delay_nobody() {
    const SALES: usize = 120_000;
    let server = Server::start();
    let mut client = server.client();
    let mut line = Line::at(&server);
    sales(&mut client, SALES, "s");
    client.expect("DEL s:stream", 1);
    client.expect("SET s:stream text", OK);
    eventually("the holds are due", || server.log().contains("are due and wait"));
    let mut holder = server.client();
    let times = pings(&server, || {
        let begun = Instant::now();
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 1000", ANY);
        line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0").read().is(("next", INT, 30_000));
        let late = begun.elapsed().saturating_sub(Duration::from_secs(1));
        println!("a lease elsewhere is handed over {late:.1?} after its end");
        assert!(late < MOST, "{late:?}");
    });
    assert!(part(&times, 99) < MOST, "{:?}", part(&times, 99));
    eventually("what was refused is tried less and less often", || share(&server) < 0.25);
    // Put right, all of it is made up for.
    client.expect("DEL s:stream", 1);
    eventually("they lapse", || client.cmd("XLEN s:stream").int() == i64::try_from(SALES).expect("few"));
}

#[test]
fn a_cluster_that_is_down_is_not_asked_for_every_lock_and_sale() {
    const EACH: usize = 50_000;
    let cluster = Cluster::start(1);
    let node = cluster.node(0);
    let mut client = node.client();
    sales(&mut client, EACH, "{s}");
    pipeline(&mut client, (0..EACH).map(|n| format!("LOCK.ACQUIRE {{s}}l{n} TOKEN t PX 15000")));
    // A slot that nobody serves, far from these.
    let other = cluster.slot("elsewhere");
    assert_ne!(other, cluster.slot("{s}"));
    client.expect(format!("CLUSTER DELSLOTS {other}"), OK);
    eventually("the cluster is down", || client.cmd("CLUSTER INFO").text().contains("cluster_state:fail"));
    let held = node.info_int("lockstock", "lockstock_locks_held");
    assert_eq!(held, i64::try_from(EACH).expect("few"));
    let due = unix_ms() + 15_000;
    eventually("all of it is due", || unix_ms() > due);
    assert!(share(node) < 0.1);
    client.expect(format!("CLUSTER ADDSLOTS {other}"), OK);
    eventually("all that was due is made up for", || {
        node.info_int("lockstock", "lockstock_locks_held") == 0
            && client.cmd("XLEN {s}:stream").int() == i64::try_from(2 * EACH).expect("few")
    });
}
