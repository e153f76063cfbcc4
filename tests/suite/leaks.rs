//! Millions of operations, of every command, leave the server's memory as it was. Minutes long, so only on demand: `make test-leaks`.

use std::time::Instant;

use crate::forms::FORMS;
use crate::harness::{ANY, Client, OK, Server, eventually};
use crate::large::MILLION;

/// Growth that is no leak: an allocator's rounding, a buffer of the client's.
const NOISE: i64 = 32 * 1024;

/// Commands that, done together, bring everything back to where it was; `#` is a number that changes each time.
const CYCLES: &[(&str, &[&str])] = &[
    ("acquire, release", &["LOCK.ACQUIRE lock-# TOKEN t", "LOCK.RELEASE lock-# t"]),
    ("random token, DEL", &["LOCK.ACQUIRE lock", "DEL lock"]),
    (
        "long token",
        &[
            "LOCK.ACQUIRE lock TOKEN a-token-that-does-not-fit-beside-its-length-#",
            "LOCK.RELEASE lock a-token-that-does-not-fit-beside-its-length-#",
        ],
    ),
    (
        "renew, extend, refused",
        &[
            "LOCK.ACQUIRE kept TOKEN t EX 3600",
            "LOCK.EXTEND kept t EX 3600",
            "LOCK.ACQUIRE kept TOKEN other",
            "LOCK.EXTEND kept other",
            "LOCK.INFO kept",
        ],
    ),
    (
        "shared, permits, up and down",
        &[
            "LOCK.ACQUIRE shared TOKEN t-# SHARED",
            "LOCK.ACQUIRE shared TOKEN u-# SHARED",
            "LOCK.RELEASE shared t-#",
            "LOCK.ACQUIRE shared TOKEN u-#",
            "LOCK.ACQUIRE shared TOKEN u-# SHARED",
            "LOCK.RELEASE shared u-#",
            "LOCK.ACQUIRE permits TOKEN t-# LIMIT 2",
            "LOCK.ACQUIRE permits TOKEN u-# LIMIT 2",
            "LOCK.MRELEASE t-# 2 permits shared",
            "LOCK.RELEASE permits u-#",
        ],
    ),
    ("several", &["LOCK.MACQUIRE 3 a b-# c TOKEN t", "LOCK.MACQUIRE 2 c d TOKEN u", "LOCK.MRELEASE t 3 a b-# c"]),
    ("session, RENAME", &["LOCK.ACQUIRE from TOKEN t SESSION", "RENAME from to", "LOCK.RELEASE to t"]),
    ("lapsing", &["LOCK.ACQUIRE lapsing-# TOKEN t PX 1"]),
    (
        "overwritten, EXPIRE",
        &["LOCK.ACQUIRE lock TOKEN t", "SET lock x", "DEL lock", "LOCK.ACQUIRE lock TOKEN t", "PEXPIRE lock 0"],
    ),
    (
        "effects of locks",
        &[
            "LOCK.APPLY lock HELD t # 9000000000000",
            "LOCK.APPLY lock HELD u 9# 9000000000000 SHARED",
            "LOCK.APPLY lock ENDED t LAPSED",
            "LOCK.APPLY lock ENDED u",
        ],
    ),
    ("create, DEL", &["STOCK.CREATE new 5 STREAM nowhere", "STOCK.DECR_ONCE none a", "DEL new"]),
    (
        "create, order, UNLINK",
        &[
            "STOCK.CREATE new 5 LIMIT 2",
            "STOCK.DECR_ONCE new a-# BUYER b REF r HOLD 3600000",
            "STOCK.DECR_ONCE new c-# BUYER b",
            "UNLINK new",
        ],
    ),
    (
        "hold, extend, cancel",
        &["STOCK.DECR_ONCE sale a HOLD 3600000 BUYER b REF #", "STOCK.EXTEND sale a PX 7200000", "STOCK.CANCEL sale a"],
    ),
    ("hold, confirm, cancel", &["STOCK.DECR_ONCE sale a HOLD 3600000", "STOCK.CONFIRM sale a", "STOCK.CANCEL sale a"]),
    ("hold, lapse", &["STOCK.DECR_ONCE sale lapsing HOLD 1"]),
    ("with a stream", &["STOCK.DECR_ONCE streamed a", "STOCK.CANCEL streamed a", "XTRIM events MAXLEN = 0"]),
    (
        "with deadlines in it",
        &[
            "STOCK.DECR_ONCE telling a HOLD 3600000",
            "STOCK.EXTEND telling a PX 7200000",
            "STOCK.CANCEL telling a",
            "XTRIM deadlines MAXLEN = 0",
        ],
    ),
    (
        "answered without a change",
        &[
            "STOCK.DECR_ONCE sale kept",
            "STOCK.DECR_ONCE empty a-#",
            "STOCK.CONFIRM sale none-#",
            "STOCK.CANCEL sale none-#",
            "STOCK.EXTEND sale none-# PX 5",
        ],
    ),
    (
        "adjust, alter",
        &[
            "STOCK.ADJUST sale 3",
            "STOCK.ALTER sale LIMIT 7 END 9000000000000 REBUY yes",
            "STOCK.ADJUST sale -3",
            "STOCK.ALTER sale LIMIT 0 END 0",
        ],
    ),
    (
        "looked at",
        &[
            "STOCK.ORDER sale kept",
            "STOCK.ORDERS sale 0 STATE sold",
            "STOCK.BUYER sale kept",
            "STOCK.INFO sale",
            "LOCK.INFO none",
            "INFO lockstock",
            "MEMORY USAGE sale",
        ],
    ),
    (
        "effects of sales",
        &[
            "STOCK.APPLY sale TAKEN e 1 9000000000000 b r",
            "STOCK.APPLY sale EXTENDED e 9000000000001",
            "STOCK.APPLY sale LAPSED e",
            "STOCK.APPLY sale ADJUSTED 1",
            "STOCK.APPLY sale ADJUSTED -1",
            "STOCK.APPLY sale ALTERED 0 0 0 yes",
        ],
    ),
    ("settings", &["CONFIG SET lockstock.max-keys #", "CONFIG GET lockstock.*"]),
];

fn used(client: &mut Client) -> i64 {
    let info = client.cmd("INFO memory").text();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used_memory");
    line.parse().expect("a number")
}

/// Does so many operations of `cycle`, and says how many of them were errors.
fn repeat(client: &mut Client, cycle: &[&str], operations: usize, from: usize) -> usize {
    let mut errors = 0;
    for start in (from..from + operations / cycle.len()).step_by(100) {
        let calls = (start..start + 100)
            .flat_map(|n| cycle.iter().map(move |call| call.replace('#', &(n % 900_000 + 1).to_string())));
        errors += client.pipeline(calls).iter().filter(|reply| reply.is_error()).count();
    }
    errors
}

fn settle(server: &Server, client: &mut Client) {
    eventually("what is over has ended", || {
        let now = |field: &str| server.info_int("lockstock", field);
        now("lockstock_locks_held") == 1 && client.cmd("STOCK.INFO sale").field("held").int() == 0
    });
}

#[test]
#[ignore = "long: make test-leaks"]
fn a_million_operations_of_every_kind_leave_nothing_behind() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 REBUY", OK);
    client.expect("STOCK.CREATE empty 0", OK);
    client.expect("STOCK.CREATE streamed 10 REBUY STREAM events", OK);
    client.expect("STOCK.CREATE telling 10 REBUY STREAM deadlines DEADLINES", OK);
    client.expect("STOCK.DECR_ONCE sale kept", ANY);
    client.expect("LOCK.ACQUIRE kept TOKEN t EX 3600", ANY);
    let spoken: String = CYCLES.iter().flat_map(|(_, cycle)| *cycle).copied().collect();
    for form in FORMS {
        assert!(spoken.contains(form.name), "nobody says {}", form.name);
    }
    println!("{:<32} {:>10} {:>10} {:>12}", "cycle", "operations", "per second", "bytes grown");
    for (name, cycle) in CYCLES {
        // Tables and buffers find their size first.
        repeat(&mut client, cycle, MILLION / 10, 0);
        settle(&server, &mut client);
        let before = used(&mut client);
        let begun = Instant::now();
        let errors = repeat(&mut client, cycle, MILLION, MILLION / 10);
        let each = begun.elapsed().as_nanos() / u128::try_from(MILLION).expect("a million");
        settle(&server, &mut client);
        let grown = used(&mut client) - before;
        println!("{name:<32} {MILLION:>10} {:>10} {grown:>12}", 1_000_000_000 / each.max(1));
        assert!(grown < NOISE, "{name}: {grown} bytes");
        assert_eq!(errors, 0, "{name}");
    }
}

#[test]
#[ignore = "long: make test-leaks"]
fn nor_do_calls_that_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("SET text x", OK);
    client.expect("STOCK.CREATE sale 10 STREAM text", OK);
    client.expect("LOCK.ACQUIRE kept TOKEN t SHARED EX 3600", ANY);
    let calls = [
        "LOCK.ACQUIRE text",
        "LOCK.ACQUIRE lock PX 0",
        "LOCK.ACQUIRE lock TOKEN t TOKEN u",
        "LOCK.ACQUIRE kept TOKEN t LIMIT 3",
        "LOCK.MACQUIRE 2 a text TOKEN t",
        "LOCK.MRELEASE t 2 a text",
        "LOCK.APPLY lock LOAD nonsense",
        "STOCK.CREATE sale 5",
        "STOCK.DECR_ONCE sale a",
        "STOCK.ADJUST sale -11",
        "STOCK.APPLY sale MORE nonsense",
        "STOCK.ORDERS sale x",
    ];
    repeat(&mut client, &calls, MILLION / 10, 0);
    let before = used(&mut client);
    let errors = repeat(&mut client, &calls, MILLION, 0);
    let grown = used(&mut client) - before;
    println!("{errors} refused calls: {grown} bytes grown");
    assert!(errors + 100 * calls.len() > MILLION && grown < NOISE, "{errors} errors, {grown} bytes");
}

#[test]
#[ignore = "long: make test-leaks"]
fn nor_do_those_who_wait() {
    const ROUNDS: usize = 20_000;

    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    let mut round = |rounds: usize| {
        for number in 0..rounds {
            let mut waiter = server.client();
            let id = waiter.id();
            waiter.send("LOCK.MACQUIRE 2 lock other TOKEN waiter WAIT 0 SESSION");
            match number % 4 {
                // It hangs up, is unblocked, is granted the lock, or is killed.
                0 => waiter.reset(),
                1 => {
                    eventually("it waits", || client.cmd(format!("CLIENT UNBLOCK {id}")).int() == 1);
                    waiter.read();
                }
                2 => {
                    client.cmd("LOCK.RELEASE lock holder");
                    waiter.read();
                    client.expect("LOCK.MRELEASE waiter 2 lock other", 2);
                    client.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
                }
                _ => drop(client.cmd(format!("CLIENT KILL ID {id}"))),
            }
        }
        let alone = || server.info_int("clients", "connected_clients") == 2;
        eventually("everybody is gone", alone);
        used(&mut client)
    };
    let before = round(ROUNDS / 10);
    let grown = round(ROUNDS) - before;
    println!("{ROUNDS} waits: {grown} bytes grown");
    assert!(grown < NOISE, "{grown} bytes");
}
