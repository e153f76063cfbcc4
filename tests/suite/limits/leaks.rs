//! A million operations of every command leave the server's memory as it was. Minutes long, so only on demand: `make test-leaks`.

use std::fmt::Write;
use std::time::Instant;

use harness::{ANY, OK, Reply, Server, eventually};

use crate::support::forms::FORMS;
use crate::support::load::MILLION;

/// Growth that is no leak: an allocator's rounding, a buffer of the client's.
const NOISE: i64 = 32 * 1024;

/// Commands that, done together, bring everything back to where it was; `#` is a number that changes each time, `%` one below a
/// thousand: no more locks may be there at a time in one run than in another.
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
    (
        "several",
        &[
            "LOCK.MACQUIRE 3 a b-# c TOKEN t",
            "LOCK.MACQUIRE 2 c d TOKEN u",
            "LOCK.MEXTEND t 3 a b-# c",
            "LOCK.MRELEASE t 3 a b-# c",
        ],
    ),
    ("session, RENAME", &["LOCK.ACQUIRE from TOKEN t SESSION", "RENAME from to", "LOCK.RELEASE to t"]),
    ("lapsing", &["LOCK.ACQUIRE lapsing-% TOKEN t-# PX 1"]),
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
            "STOCK.ADJUST sale 1 ID known",
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

fn used(server: &Server) -> i64 {
    server.info_int("memory", "used_memory")
}

/// Goes through `cycle` so many times, from the number `from` on. The server counts the errors.
fn repeat(server: &Server, cycle: &[&str], rounds: usize, from: usize) {
    const END: &str = "the-end-of-it";
    // The connection's buffers are the server's memory, too, so it has to go.
    let mut client = server.client();
    let mut text = String::new();
    for start in (from..from + rounds).step_by(100) {
        text.clear();
        for number in start..(start + 100).min(from + rounds) {
            let [number, few] = [number % 900_000 + 1, number % 1_000].map(|number| number.to_string());
            for call in cycle {
                write!(text, "{}\r\n", call.replace('#', &number).replace('%', &few)).expect("a text takes more text");
            }
        }
        write!(text, "ECHO {END}\r\n").expect("a text takes more text");
        client.send_raw(text.as_bytes());
        client.skip_past(format!("{END}\r\n").as_bytes());
    }
    drop(client);
    eventually("what is over has ended", || {
        let lapsed = server.info_int("lockstock", "lockstock_locks_held") == 1;
        let gone = server.info_int("clients", "connected_clients") == 1;
        gone && lapsed && server.cmd("STOCK.INFO sale").field("held").int() == 0
    });
}

/// Goes through `cycle` so many times, which must leave nothing behind. Tables and buffers have to find their size first, but what
/// leaks does so every time.
#[track_caller]
fn weigh(server: &Server, name: &str, cycle: &[&str], rounds: usize) {
    let operations = rounds * cycle.len();
    let mut grown = vec![];
    while grown.last().is_none_or(|grown| *grown >= NOISE) {
        assert!(grown.len() < 3, "{name}: grown by {grown:?} bytes");
        let before = used(server);
        let begun = Instant::now();
        repeat(server, cycle, rounds, MILLION / 10);
        let each = begun.elapsed().as_nanos() / u128::try_from(operations).expect("some millions");
        grown.push(used(server) - before);
        println!("{name:<32} {operations:>10} {:>10} {:>12}", 1_000_000_000 / each.max(1), used(server) - before);
    }
}

/// How often the server has run `command`.
#[track_caller]
fn calls(server: &Server, command: &str) -> usize {
    let text = server.cmd("INFO commandstats").text();
    let line =
        text.lines().find_map(|line| line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(":calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "long: make test-leaks"]
fn a_million_operations_of_every_command_leave_nothing_behind() {
    let server = Server::start();
    server.take_effects();
    server.expect("STOCK.CREATE sale 1000 REBUY", OK);
    server.expect("STOCK.CREATE empty 0", OK);
    server.expect("STOCK.CREATE streamed 10 REBUY STREAM events", OK);
    server.expect("STOCK.CREATE telling 10 REBUY STREAM deadlines DEADLINES", OK);
    server.expect("STOCK.DECR_ONCE sale kept", ANY);
    server.expect("LOCK.ACQUIRE kept TOKEN t EX 3600", ANY);
    server.expect("CONFIG RESETSTAT", OK);
    println!("{:<32} {:>10} {:>10} {:>12}", "cycle", "operations", "per second", "bytes grown");
    for (name, cycle) in CYCLES {
        repeat(&server, cycle, MILLION / 10 / cycle.len(), 0);
        weigh(&server, name, cycle, MILLION / cycle.len());
    }
    let commands =
        server.cmd("COMMAND LIST FILTERBY MODULE lockstock").items().iter().map(Reply::text).collect::<Vec<_>>();
    for command in &commands {
        // Those that came up more seldom.
        let missing = MILLION.saturating_sub(calls(&server, command));
        let times = |cycle: &[&str]| {
            let named = |call: &&&str| call.split(' ').next().is_some_and(|name| name.eq_ignore_ascii_case(command));
            cycle.iter().filter(named).count()
        };
        if missing > 0 {
            let most = CYCLES.iter().max_by_key(|(_, cycle)| 100 * times(cycle) / cycle.len()).expect("some cycles");
            assert!(times(most.1) > 0, "nobody says {command}");
            weigh(&server, &format!("more of {command}"), most.1, missing.div_ceil(times(most.1)));
        }
    }
    for command in &commands {
        let calls = calls(&server, command);
        println!("{command:<32} {calls:>10} calls");
        assert!(calls >= MILLION, "{command}: {calls} calls");
    }
    assert!(commands.len() > FORMS.len(), "{commands:?}");
    assert_eq!(server.info_int("stats", "total_error_replies"), 0);
}

#[test]
#[ignore = "long: make test-leaks"]
fn nor_do_calls_that_are_refused() {
    let server = Server::start();
    server.take_effects();
    server.expect("SET text x", OK);
    server.expect("STOCK.CREATE sale 10 STREAM text", OK);
    server.expect("LOCK.ACQUIRE kept TOKEN t SHARED EX 3600", ANY);
    let calls = [
        "LOCK.ACQUIRE text",
        "LOCK.ACQUIRE lock PX 0",
        "LOCK.ACQUIRE lock TOKEN t TOKEN u",
        "LOCK.ACQUIRE kept TOKEN t LIMIT 3",
        "LOCK.MACQUIRE 2 a text TOKEN t",
        "LOCK.MRELEASE t 2 a text",
        "LOCK.MEXTEND t 2 a text",
        "LOCK.APPLY lock LOAD nonsense",
        "STOCK.CREATE sale 5",
        "STOCK.DECR_ONCE sale a",
        "STOCK.ADJUST sale -11",
        "STOCK.APPLY sale MORE nonsense",
        "STOCK.ORDERS sale x",
    ];
    repeat(&server, &calls, MILLION / 10 / calls.len(), 0);
    server.expect("CONFIG RESETSTAT", OK);
    let rounds = MILLION / calls.len();
    weigh(&server, "refused calls", &calls, rounds);
    let errors = usize::try_from(server.info_int("stats", "total_error_replies")).expect("some");
    assert!(errors >= rounds * calls.len() && errors % (rounds * calls.len()) == 0, "{errors} errors");
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
        used(&server)
    };
    let before = round(ROUNDS / 10);
    let grown = round(ROUNDS) - before;
    println!("{ROUNDS} waits: {grown} bytes grown");
    assert!(grown < NOISE, "{grown} bytes");
}
