//! Replicas: equal to their primary to the byte, deciding nothing by themselves, and ready to take over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::{
    ANY, Aof, Client, INT, Keys, NULL, OK, Reply, Server, err, eventually, eventually_some, random, unix_ms,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::scene::{Scene, holds};

/// How long the random load lasts; `LOCKSTOCK_LOAD_MS` makes it longer.
fn load_time() -> Duration {
    let ms = std::env::var("LOCKSTOCK_LOAD_MS").ok().and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or(1_500))
}

/// Something that happens to one of three sales; two tell a stream of it.
fn sell(random: &mut fastrand::Rng) -> String {
    let (sale, id) = (random.u8(..3), random.u8(..100));
    let stream = ["", "STREAM events", "STREAM events"][usize::from(sale)];
    match random.u8(..26) {
        0..5 => format!("STOCK.DECR_ONCE s{sale} id{id} QTY {} BUYER b{}", random.u8(1..4), id % 7),
        5..10 => format!("STOCK.DECR_ONCE s{sale} id{id} HOLD {}", [1, 10, 50, 3_600_000][random.usize(..4)]),
        10..13 => format!("STOCK.CONFIRM s{sale} id{id}"),
        13..16 => format!("STOCK.CANCEL s{sale} id{id}"),
        16 => format!("STOCK.EXTEND s{sale} id{id} PX {}", [1, 3_600_000][random.usize(..2)]),
        17 => format!("STOCK.ADJUST s{sale} {}", random.i8(-5..6)),
        18 => format!("STOCK.ADJUST s{sale} {} ID move-{id}", random.i8(-5..6)),
        19..21 => {
            format!("STOCK.MDECR_ONCE id{id} 2 s1 {} s2 1 HOLD {}", random.u8(1..4), [1, 3_600_000][random.usize(..2)])
        }
        21 => format!("STOCK.MDECR_ONCE id{id} 3 s2 1 s0 2 s1 1 BUYER b{}", id % 7),
        22 => format!("STOCK.MCONFIRM id{id} 3 s0 s1 s2"),
        23 => format!("STOCK.MCANCEL id{id} 2 s2 s0"),
        24 => format!("STOCK.ALTER s{sale} LIMIT {} REBUY {}", random.u8(..20), ["yes", "no"][random.usize(..2)]),
        _ => format!("STOCK.CREATE s{sale} {} {stream}", random.u8(..200)),
    }
}

/// Takes locks in all modes, waits for them, lets them lapse, hangs up, deletes keys: everything at once.
fn behave_badly(server: &Server, stop: &AtomicBool, mut random: fastrand::Rng) {
    let mut client = server.client();
    while !stop.load(Ordering::Relaxed) {
        let (lock, token) = (random.u8(..10), random.u8(..30));
        let lease = [1, 5, 30, 3_600_000][random.usize(..4)];
        let mode = ["", "", "SHARED", "LIMIT 2", "LIMIT 5"][random.usize(..5)];
        let words = match random.u8(..28) {
            0..6 => format!("LOCK.ACQUIRE l{lock} TOKEN t{token} PX {lease} {mode}"),
            6..9 => format!("LOCK.ACQUIRE l{lock} TOKEN t{token} PX {lease} {mode} WAIT {}", random.u8(1..20)),
            9..11 => format!("LOCK.ACQUIRE l{lock} TOKEN t{token} PX {lease} {mode} SESSION"),
            11..15 => format!("LOCK.RELEASE l{lock} t{token}"),
            15 => format!("LOCK.EXTEND l{lock} t{token} PX {lease}"),
            16 => format!("DEL l{lock}"),
            17 => format!("PEXPIRE l{lock} {}", random.u16(1..1_000)),
            18 => format!("RENAMENX l{lock} l{}", random.u8(10..12)),
            19 => format!("LOCK.MACQUIRE 3 l{lock} l{} l9 TOKEN t{token} PX {lease} WAIT 5", random.u8(..10)),
            20 => format!("LOCK.MRELEASE t{token} 2 l{lock} l9"),
            21..27 => sell(&mut random),
            _ => {
                // Half of them while a request is on its way.
                if random.bool() {
                    client.send(format!("LOCK.ACQUIRE l{lock} TOKEN t{token} WAIT 0 SESSION"));
                }
                if random.bool() {
                    client.close();
                } else {
                    client.reset();
                }
                client = server.client();
                continue;
            }
        };
        let reply = client.cmd(&words);
        let expected = match &reply {
            Reply::Error(text) if words.starts_with("STOCK") => {
                ["BUSYKEY", "NOSTOCK"].iter().any(|code| text.starts_with(code))
                    || text.contains("unsold")
                    || text.contains("another BUYER")
            }
            Reply::Error(text) => {
                text.contains("in another mode") || text.starts_with("DEADLOCK") || text.contains("no such key")
            }
            _ => true,
        };
        assert!(expected, "{words}: {reply:?}");
    }
}

/// Whether nobody waits at `server`, and no hold and no key ends before long.
pub fn only_long_leases(server: &Server) -> bool {
    let mut client = server.client();
    let lasts = |name: &Reply| {
        let name = name.bytes();
        let lock = client.cmd([&b"LOCK.INFO"[..], &name]);
        let held = client.cmd([&b"STOCK.ORDERS"[..], &name, b"0", b"COUNT", b"1000", b"STATE", b"held"]);
        // Each command has an error for the other kind, and for a key of another type.
        let lasts = match (&lock, &held) {
            (Reply::Array(_), _) => {
                lock.field("holders").items().iter().all(|hold| hold.field("lease-ms").int() > 1_000_000)
            }
            (_, Reply::Array(page)) => page[1].items().iter().all(|order| order.at(5).int() - unix_ms() > 1_000_000),
            _ => true,
        };
        lasts && client.cmd([&b"PTTL"[..], &name]).int() < 0
    };
    let names = server.cmd("KEYS *");
    // Keys whose own time is over are counted until the server gets around to them, but not listed.
    let none_expired = server.cmd("DBSIZE").int() == i64::try_from(names.items().len()).expect("few keys");
    none_expired && names.items().iter().all(lasts) && server.info_int("lockstock", "lockstock_lock_waiters") == 0
}

/// Fails the test unless both hold the same, at a moment between two writes.
#[track_caller]
pub fn equal(primary: &Server, replica: &Server) {
    let offset = || primary.info_int("replication", "master_repl_offset");
    let (one, other) = eventually_some("a moment between two writes", || {
        let before = offset();
        replica.wait_in_sync(primary);
        let both = [primary, replica].map(|server| (server.keys(), server.digest()));
        (offset() == before).then_some(both.into())
    });
    one.0.are(&other.0);
    assert_eq!(one.1, other.1, "the digests");
}

#[track_caller]
fn same(server: &Server, keys: &Keys, digest: &str) {
    server.keys().are(keys);
    assert_eq!(server.digest(), digest);
}

#[test]
fn primary_and_replicas_are_equal_after_any_load_and_every_reload() {
    let mut primary = Server::builder().aof("no").start();
    let replica = Server::builder().replica_of(&primary).start();
    let of_the_replica = Server::builder().replica_of(&replica).start();
    replica.wait_in_sync(&primary);
    of_the_replica.wait_in_sync(&replica);
    let mut random = random();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (random, stop, primary) = (random.fork(), &stop, &primary);
            scope.spawn(move || behave_badly(primary, stop, random));
        }
        thread::sleep(load_time());
        stop.store(true, Ordering::Relaxed);
    });
    // Something of every kind is left for certain.
    let scene = Scene::set(&primary);
    eventually("whatever ends soon is over", || only_long_leases(&primary));
    equal(&primary, &replica);
    equal(&replica, &of_the_replica);

    let (keys, held) = (primary.keys(), primary.digest());
    replica.expect("DEBUG RELOAD", OK);
    same(&replica, &keys, &held);
    primary.expect("DEBUG RELOAD", OK);
    same(&primary, &keys, &held);
    primary.expect("DEBUG LOADAOF", OK);
    same(&primary, &keys, &held);
    primary.rewrite_aof(false);
    primary.shutdown();
    primary.start_again();
    same(&primary, &keys, &held);
    drop(scene);
}

#[test]
fn a_full_synchronisation_carries_everything() {
    for (diskless, load) in [("yes", "disabled"), ("no", "disabled"), ("yes", "swapdb"), ("yes", "on-empty-db")] {
        let primary = Server::builder().config(&format!("repl-diskless-sync {diskless}")).start();
        let scene = Scene::set(&primary);
        let replica = Server::builder().config(&format!("repl-diskless-load {load}")).start();
        if load != "on-empty-db" {
            // What the replica held before is gone, with its waiters' hopes and its leases.
            replica.expect("LOCK.ACQUIRE own TOKEN t", ANY);
            replica.expect("LOCK.ACQUIRE exclusive TOKEN own PX 1000000", ANY);
        }
        replica.follow(&primary);
        replica.wait_in_sync(&primary);
        replica.keys().are(&primary.keys());
        assert_eq!(replica.digest(), primary.digest());
        assert!(holds(&replica, "exclusive").keys().eq(["alice"]));
        drop(scene);
    }
}

#[test]
fn a_partial_synchronisation_carries_what_was_missed() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    // The link breaks, and before it is there again a lot happens.
    let mut client = primary.client();
    let mut batch = vec!["MULTI".to_owned(), "CLIENT KILL TYPE replica".to_owned()];
    batch.extend((0..50).map(|number| format!("LOCK.ACQUIRE lock-{} TOKEN t{number} EX 3600 SHARED", number % 7)));
    batch.push("LOCK.RELEASE lock-3 t3".into());
    batch.push("EXEC".into());
    client.pipeline(batch);
    let scene = Scene::set(&primary);
    replica.wait_in_sync(&primary);
    replica.keys().are(&primary.keys());
    let synchronised = ["sync_full", "sync_partial_ok"].map(|field| primary.info_int("stats", field));
    assert_eq!(synchronised, [1, 1]);
    drop(scene);
}

#[test]
fn a_replica_decides_and_ends_nothing_by_itself() {
    let mut primary = Server::start();
    let replica = Server::builder().aof("always").replica_of(&primary).start();
    // A new replica hears of nothing more until its first sign of life, up to a second later; so not in what follows.
    replica.wait_in_sync(&primary);
    primary.expect("STOCK.CREATE sale 5", OK);
    replica.wait_in_sync(&primary);
    let mut waiter = primary.client();
    primary.expect("STOCK.DECR_ONCE sale held HOLD 3000", ANY);
    primary.expect("LOCK.ACQUIRE lock TOKEN holder PX 3000", ANY);
    let over = unix_ms() + 3_000;
    replica.wait_in_sync(&primary);
    waiter.send("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    primary.kill9();
    replica.expect("LOCK.ACQUIRE lock TOKEN other", err("READONLY"));
    replica.expect("LOCK.RELEASE lock holder", err("READONLY"));
    replica.expect("LOCK.EXTEND lock holder", err("READONLY"));
    replica.expect("LOCK.APPLY lock ENDED holder", err("READONLY"));
    replica.expect("STOCK.DECR_ONCE sale other", err("READONLY"));
    replica.expect("STOCK.APPLY sale LAPSED held", err("READONLY"));
    // Its timer had time to do wrong.
    eventually("the lease is long over", || unix_ms() > over + 100);
    replica.expect("DBSIZE", 2);
    assert_eq!(replica.info_int("lockstock", "lockstock_lock_lapses"), 0);
    let told = Aof::of(&replica).commands;
    assert!(told.iter().all(|words| !format!("{words:?}").contains("LAPSED")), "{told:?}");
    // To a reader the unit is back since the hold's deadline, whether or not the primary has sent its end.
    assert_eq!(replica.cmd("STOCK.INFO sale").field("remaining"), Reply::Int(5));

    replica.promote();
    eventually("both end with the promotion", || {
        let told = Aof::of(&replica).commands;
        ["LOCK.APPLY lock ENDED holder LAPSED", "STOCK.APPLY sale LAPSED held"]
            .iter()
            .all(|end| told.contains(&(*end).into()))
    });
    replica.expect("DBSIZE", 1);
    replica.expect("LOCK.ACQUIRE lock TOKEN other", ("other", INT, 30_000));
}

#[test]
fn a_promoted_replica_keeps_every_promise() {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let scene = Scene::set(&primary);
    let mut holder = primary.client();
    holder.expect("LOCK.ACQUIRE mine TOKEN t PX 3600000 SESSION", ANY);
    let id = holder.id();
    replica.wait_in_sync(&primary);
    let before = primary.keys();
    primary.kill9();
    replica.promote();
    // Fences and deadlines as they were promised.
    replica.keys().are(&before);
    replica.expect("LOCK.ACQUIRE mine TOKEN other", NULL);
    replica.expect("LOCK.ACQUIRE exclusive TOKEN other", NULL);
    replica.expect("LOCK.ACQUIRE shared TOKEN other SHARED", ("other", INT, 30_000));
    replica.expect("LOCK.ACQUIRE semaphore TOKEN other LIMIT 20", NULL);

    // A session was a connection to the old primary; a client here with the same number is another one.
    let mut namesake: Client = replica.client();
    while namesake.id() < id {
        namesake = replica.client();
    }
    let last = namesake.id();
    drop(namesake);
    eventually("the namesake is gone", || replica.cmd(format!("CLIENT LIST ID {last}")).bytes().is_empty());
    replica.expect("LOCK.ACQUIRE mine TOKEN other", NULL);
    replica.expect("LOCK.EXTEND mine t", 1);
    replica.expect("LOCK.RELEASE mine t", 1);
    replica.expect("LOCK.ACQUIRE mine TOKEN other", ("other", INT, 30_000));
    drop(scene);
}

#[test]
fn wait_covers_a_hold_that_was_waited_for_and_not_an_order_that_stood_already() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let (mut buyer, mut again, mut waiter) = (primary.client(), primary.client(), primary.client());
    buyer.expect("STOCK.CREATE sale 10", OK);
    buyer.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    waiter.send("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    eventually("it waits", || primary.info_int("lockstock", "lockstock_lock_waiters") == 1);
    buyer.expect("WAIT 1 10000", 1);
    let process = i32::try_from(replica.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, Signal::STOP).expect("a process of ours");

    buyer.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 9, -1, ""));
    buyer.expect("LOCK.RELEASE lock holder", 1);
    buyer.expect("WAIT 1 100", 0);
    // A client that asks again over another connection has written nothing there. Redis 7.0 waits for all that was written before, others
    // say at once that nothing is missing.
    again.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 9, -1, ""));
    let waits_for_all = !primary.is_valkey() && primary.version() < [7, 2, 0];
    again.expect("WAIT 1 100", i64::from(!waits_for_all));
    // The hold of a waiter counts as its own write, though it was written when the hold before it was released.
    waiter.read().is(("waiter", INT, 30_000));
    waiter.expect("WAIT 1 100", 0);
    kill_process(process, Signal::CONT).expect("a process of ours");
    waiter.expect("WAIT 1 10000", 1);
}
