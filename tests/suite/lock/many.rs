//! Several locks at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use harness::{ANY, INT, NULL, OK, Reply, Server, Tap, Want, err};

use crate::support::line::Line;

#[test]
fn all_or_none_with_one_fence() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.expect("LOCK.MACQUIRE 3 a b c TOKEN t PX 5000", ("t", INT, 5_000)).at(1).int();
    let mut line = Line::at(&server);
    for lock in ["a", "b", "c"] {
        assert_eq!(line.holders(lock), ["t"]);
        assert_eq!(client.cmd(["LOCK.INFO", lock]).field("holders").at(0).field("fence").int(), fence);
    }
    client.expect("LOCK.MACQUIRE 3 d c e TOKEN u", NULL);
    client.expect("EXISTS d e", 0);
    // Asking again renews; a key named twice counts once.
    client.expect("LOCK.MACQUIRE 4 c a b a TOKEN t EX 7", ("t", fence, 7_000));
    // Some of them, or more: a new fence for all.
    let more = client.expect("LOCK.MACQUIRE 2 c d TOKEN t", ("t", INT, 30_000)).at(1).int();
    assert!(more > fence);
    client.expect("LOCK.MRELEASE t 5 a b c d e", 4);
    client.expect("LOCK.MRELEASE t 5 a b c d e", 0);
    client.expect("DBSIZE", 0);
    client.expect("LOCK.MACQUIRE 1 a", (harness::TEXT, INT, 30_000));
}

#[test]
fn bad_requests_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for (words, error) in [
        ("LOCK.MACQUIRE 0 a", "ERR numkeys must be an integer from 1 to 1"),
        ("LOCK.MACQUIRE 3 a b", "ERR numkeys is 3, but only 2 keys follow"),
        ("LOCK.MACQUIRE x a", "ERR numkeys must be an integer from 1 to 1"),
        ("LOCK.MACQUIRE -1 a", "ERR numkeys"),
        ("LOCK.MACQUIRE 1 a SHARED", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 a LIMIT 2", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 a PX 1 EX 1", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 a WAIT 1 WAIT 1", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 a TOKEN", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 a PX 0", "ERR PX must be an integer from 1"),
        ("LOCK.MACQUIRE 1 a WAIT -1", "ERR WAIT must be an integer from 0"),
        ("LOCK.MRELEASE t 2 a", "ERR numkeys is 2, but only 1 key follows"),
        ("LOCK.MRELEASE t 1 a b", "ERR syntax error"),
        ("LOCK.MRELEASE t 1", "ERR wrong number of arguments"),
        ("LOCK.MACQUIRE 1", "ERR wrong number of arguments"),
        ("LOCK.MEXTEND t 2 a", "ERR numkeys is 2, but only 1 key follows"),
        ("LOCK.MEXTEND t 1 a b", "ERR syntax error"),
        ("LOCK.MEXTEND t 1 a PX 1 EX 1", "ERR syntax error"),
        ("LOCK.MEXTEND t 1 a PX", "ERR syntax error"),
        ("LOCK.MEXTEND t 1 a PX 0", "ERR PX must be an integer from 1"),
        ("LOCK.MEXTEND t 1", "ERR wrong number of arguments"),
    ] {
        client.expect(words, err(error));
    }
    client.expect("SET text x", OK);
    client.expect("LOCK.MACQUIRE 2 a text WAIT 0", err("WRONGTYPE"));
    client.expect("LOCK.ACQUIRE a TOKEN t SHARED", ANY);
    client.expect("LOCK.MACQUIRE 2 a b TOKEN t WAIT 0", err("ERR the token holds this lock in another mode"));
    client.expect("LOCK.MRELEASE t 2 a text", err("WRONGTYPE"));
    assert_eq!(Line::at(&server).holders("a"), ["t"]);
    client.expect("EXISTS b", 0);
    client.expect("COMMAND GETKEYS LOCK.MACQUIRE 2 a b TOKEN t", ("a", "b"));
    client.expect("COMMAND GETKEYS LOCK.MRELEASE t 2 a b", ("a", "b"));
    client.expect("COMMAND GETKEYS LOCK.MEXTEND t 2 a b PX 1000", ("a", "b"));
}

#[test]
fn the_grant_of_several_locks_is_one_effect() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE b TOKEN holder", ANY);
    let mut many = line.join("LOCK.MACQUIRE 3 c b a TOKEN many PX 60000 WAIT 0");
    assert_eq!((line.waiters("a"), line.holders("a")), (vec!["many".to_owned()], vec![]));
    holder.expect("LOCK.ACQUIRE a TOKEN hasty", NULL);
    let mut tap = Tap::attach(&server);
    holder.expect("LOCK.RELEASE b holder", 1);
    let fence = many.read().is(("many", INT, 60_000)).at(1).int();
    let seen: Vec<String> = tap.drain().iter().map(|words| format!("{words:?}")).collect();
    assert_eq!(seen.len(), 6, "{seen:?}");
    assert_eq!((&*seen[0], &*seen[1], &*seen[5]), ("MULTI", "LOCK.APPLY b ENDED holder", "EXEC"));
    for (lock, effect) in ["a", "b", "c"].iter().zip(&seen[2..]) {
        assert!(effect.starts_with(&format!("LOCK.APPLY {lock} HELD many {fence} ")), "{seen:?}");
    }
}

/// Numbers that look random and are the same every time.
fn shuffle(seed: &mut usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn overlapping_requests_in_any_order_never_block_each_other_for_good() {
    const KEYS: usize = 6;
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 150;
    let server = Server::start();
    let owners: [AtomicUsize; KEYS] = Default::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |n: usize| {
            let (mut client, owners) = (server.client(), &owners);
            move || {
                let mut seed = 88_172_645_463_325_252 + n;
                for _ in 0..ROUNDS {
                    let (first, step, count) = (shuffle(&mut seed) % KEYS, [1, 5][n % 2], shuffle(&mut seed) % 3 + 1);
                    let keys: Vec<usize> = (0..count).map(|i| (first + i * step) % KEYS).collect();
                    let names: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
                    let names = format!("{count} {}", names.join(" "));
                    client.expect(format!("LOCK.MACQUIRE {names} TOKEN t{n} WAIT 0"), (format!("t{n}"), INT, INT));
                    for key in &keys {
                        assert_eq!(owners[*key].swap(n + 1, Ordering::SeqCst), 0, "alone on k{key}");
                    }
                    for key in &keys {
                        owners[*key].store(0, Ordering::SeqCst);
                    }
                    client.expect(format!("LOCK.MRELEASE t{n} {names}"), i64::try_from(count).unwrap());
                }
            }
        };
        let watch = || {
            let mut client = server.client();
            let ask: Vec<String> = ["MULTI".into()]
                .into_iter()
                .chain((0..KEYS).map(|key| format!("LOCK.INFO k{key}")))
                .chain(["EXEC".into()])
                .collect();
            while !done.load(Ordering::SeqCst) {
                let replies = client.pipeline(&ask);
                let mut held: BTreeMap<String, Vec<i64>> = BTreeMap::new();
                for info in replies[KEYS + 1].items().iter().filter(|info| !matches!(info, Reply::Nil(_))) {
                    for holder in info.field("holders").items() {
                        held.entry(holder.field("token").text()).or_default().push(holder.field("fence").int());
                    }
                }
                // A token that holds any of the locks has them from one grant.
                assert!(held.values().all(|fences| fences.iter().all(|fence| *fence == fences[0])), "{held:?}");
            }
        };
        let watcher = scope.spawn(watch);
        let threads: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(work(n))).collect();
        let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        watcher.join().unwrap();
        for end in ends {
            end.unwrap();
        }
    });
    let mut line = Line::at(&server);
    assert_eq!((line.count("locks_held"), line.count("lock_waiters")), (0, 0));
    assert_eq!(line.count("lock_grants"), i64::try_from(CLIENTS * ROUNDS).unwrap());
    server.expect("DBSIZE", 0);
}

#[test]
fn a_waiting_request_leaves_all_its_queues_at_once() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE b TOKEN holder", ANY);
    let many = line.join("LOCK.MACQUIRE 3 a b c TOKEN many WAIT 0");
    let mut behind: Vec<_> =
        ["a", "b", "c"].map(|lock| line.join(format!("LOCK.ACQUIRE {lock} TOKEN behind WAIT 0"))).into();
    let mut brief = line.join("LOCK.MACQUIRE 2 c a TOKEN brief WAIT 30");
    brief.read().is(NULL);
    many.reset();
    behind[0].read().is(("behind", INT, 30_000));
    behind[2].read().is(("behind", INT, 30_000));
    assert_eq!(line.waiters("b"), ["behind"]);
    holder.expect("LOCK.RELEASE b holder", 1);
    behind[1].read().is(Want::from(("behind", INT, 30_000)));
}
