//! Order: first come, first served, whichever other clients there are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::{ANY, Client, INT, NULL, Reply, Server};

use crate::support::line::Line;

/// How evenly the grants were spread, as one number: 1 if all clients had the same, 1/n if one had all.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    sum * sum / (squares * f64::from(u32::try_from(shares.len()).expect("a few")))
}

#[test]
fn the_order_of_asking_is_the_order_of_holding() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN first", ANY);
    let mut clients: Vec<_> = (0..20).map(|n| line.join(format!("LOCK.ACQUIRE lock TOKEN t{n} WAIT 0"))).collect();
    holder.expect("LOCK.RELEASE lock first", 1);
    let mut last = 0;
    for _ in 0..50 {
        for (n, client) in clients.iter_mut().enumerate() {
            let fence = client.read().is((format!("t{n}"), INT, 30_000)).at(1).int();
            assert!(fence > last);
            last = fence;
            // In one go: give it back, and go to the end of the line.
            client.send_raw(format!("LOCK.RELEASE lock t{n}\r\nLOCK.ACQUIRE lock TOKEN t{n} WAIT 0\r\n").as_bytes());
            client.read().is(1);
        }
    }
}

#[test]
fn a_crowd_that_fights_for_a_lock_shares_it_evenly_and_never_together() {
    const CLIENTS: usize = 12;
    let server = Server::start();
    let (inside, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // For a second, and on a busy machine for as many turns as tell something.
    let end = Instant::now() + Duration::from_secs(1);
    let fences: Vec<Vec<i64>> = thread::scope(|scope| {
        let work = |n: usize| {
            let (mut client, inside, turns) = (server.client(), &inside, &turns);
            let (acquire, release) =
                (format!("LOCK.ACQUIRE lock TOKEN t{n} WAIT 0"), format!("LOCK.RELEASE lock t{n}"));
            move || {
                let mut fences = vec![];
                while Instant::now() < end || turns.fetch_add(1, Ordering::Relaxed) < 200 * CLIENTS {
                    fences.push(client.expect(&acquire, ANY).at(1).int());
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    client.expect(&release, 1);
                }
                fences
            }
        };
        let threads: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(work(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Only the time in which all threads were running counts: the system decides when each starts and ends.
    let first = fences.iter().map(|fences| fences[0]).max().unwrap();
    let last = fences.iter().map(|fences| fences[fences.len() - 1]).min().unwrap();
    let count = |fences: &Vec<i64>| fences.iter().filter(|fence| (first..=last).contains(fence)).count();
    let shares: Vec<f64> = fences.iter().map(|fences| f64::from(u32::try_from(count(fences)).unwrap())).collect();
    assert!(shares.iter().sum::<f64>() > 100.0 && jain(&shares) >= 0.99, "{shares:?}");
}

/// Reads the one answer of a client that waited: whether it was granted the lock. Nothing may follow it.
fn answer(client: &mut Client) -> bool {
    let reply = client.read();
    client.expect("PING", ANY);
    match reply {
        Reply::Nil(_) => false,
        grant => {
            grant.is((harness::TEXT, INT, INT));
            true
        }
    }
}

#[test]
fn a_crowd_of_waiters_with_all_kinds_of_patience_gets_one_answer_each_in_time() {
    const CLIENTS: i64 = 500;
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600", ANY);
    let mut clients: Vec<_> = (0..CLIENTS).map(|n| (300 + n * 7_919 % 900, server.client())).collect();
    let begun = Instant::now();
    for (n, (wait, client)) in clients.iter_mut().enumerate() {
        // Leases so short that many of them end just when a waiter's patience does.
        client.send(format!("LOCK.ACQUIRE lock TOKEN t{n} PX 3 WAIT {wait}"));
    }
    clients.sort_by_key(|(wait, _)| *wait);
    let (mut granted, mut latest) = (0, Duration::ZERO);
    // A pause of the whole machine keeps other clients waiting, too.
    let beside = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let (mut client, mut longest) = (server.client(), Duration::ZERO);
            while begun.elapsed() < Duration::from_secs(2) {
                let asked = Instant::now();
                thread::sleep(Duration::from_millis(1));
                client.expect("PING", ANY);
                longest = longest.max(asked.elapsed());
            }
            longest
        });
        for (wait, client) in &mut clients {
            granted += i64::from(answer(client));
            latest = latest.max(begun.elapsed().saturating_sub(Duration::from_millis(u64::try_from(*wait).unwrap())));
        }
        beside.join().unwrap()
    });
    assert!(latest < Duration::from_secs(1) + beside, "{latest:?} late, {beside:?} beside");
    assert!(granted > 0 && granted < CLIENTS, "{granted}");
    assert_eq!((line.count("lock_grants"), line.count("lock_timeouts")), (granted + 1, CLIENTS - granted));
    line.until("locks_held", 0);
    assert_eq!(line.count("lock_waiters"), 0);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    holder.expect("LOCK.ACQUIRE lock TOKEN other WAIT 1", NULL);
}

#[test]
fn waiting_leaves_nothing_behind() {
    // `make test-large` has a million of them.
    let cycles: usize = std::env::var("LOCKSTOCK_CYCLES").map_or(10_000, |count| count.parse().unwrap());
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut ring: Vec<_> = (0..10).map(|_| server.client()).collect();
    let ask = |n: usize| format!("LOCK.ACQUIRE lock TOKEN t{n} PX 60000 WAIT 60000 SESSION");
    ring[0].expect(ask(0), ANY);
    for (n, client) in ring.iter_mut().enumerate().skip(1) {
        line.enter(client, ask(n));
    }
    let mut used = vec![];
    for turn in 0..cycles {
        let (n, next) = (turn % 10, (turn + 1) % 10);
        ring[n].send_raw(format!("LOCK.RELEASE lock t{n}\r\n{}\r\n", ask(n)).as_bytes());
        ring[n].read().is(1);
        ring[next].read().is((format!("t{next}"), INT, 60_000));
        if turn % (cycles / 10) == cycles / 10 - 1 {
            used.push(server.info_int("memory", "used_memory"));
        }
    }
    assert!(line.count("lock_waits") >= i64::try_from(cycles).unwrap());
    let (first, last) = (used[1], used[9]);
    println!("used_memory at every tenth of {cycles} waits: {used:?}");
    assert!(last - first < 100_000, "{used:?}");
}
