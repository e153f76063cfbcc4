//! Callers who ask for too much, or for what is not theirs: each meets a bound and a clear error, and nobody else notices.
//! docs/abuse.md lists them.

use std::time::Duration;

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, TEXT, err, eventually};

use crate::support::line::Line;

/// A connection of a user with these rules, and any password.
#[track_caller]
fn as_user(server: &Server, rules: &str) -> Client {
    server.expect(format!("ACL SETUSER tenant reset on nopass {rules}"), OK);
    let mut client = server.client();
    client.expect("AUTH tenant any", OK);
    client
}

#[track_caller]
fn eventually_wait(server: &Server, count: i64) {
    eventually("they wait", || server.info_int("lockstock", "lockstock_lock_waiters") == count);
}

#[test]
fn one_request_too_many_does_not_wait() {
    let server = Server::builder().module_args("max-waiters 2").start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    let mut waiters = ["one", "two"].map(|token| {
        let mut waiter = server.client();
        waiter.send(format!("LOCK.ACQUIRE lock TOKEN {token} WAIT 0"));
        waiter
    });
    eventually_wait(&server, 2);
    let refusal = "ERR too many requests wait already, see lockstock.max-waiters";
    for call in [
        "LOCK.ACQUIRE lock TOKEN three WAIT 0",
        "LOCK.ACQUIRE lock TOKEN three WAIT 60000 SHARED",
        "LOCK.MACQUIRE 2 lock free TOKEN three WAIT 1",
    ] {
        client.expect(call, err(refusal));
    }
    // The line grows no longer by a request that takes over the place of an earlier one.
    let mut again = server.client();
    again.send("LOCK.ACQUIRE lock TOKEN one WAIT 0");
    waiters[0].read().is(NULL);
    waiters[0] = again;
    eventually_wait(&server, 2);
    // The limit does not matter to a request that need not wait, and a request without WAIT gets its usual reply.
    client.expect("LOCK.ACQUIRE free TOKEN three WAIT 0", ("three", INT, 30_000));
    client.expect("LOCK.ACQUIRE lock TOKEN holder WAIT 0 EX 3600", ("holder", INT, 3_600_000));
    client.expect("LOCK.ACQUIRE lock TOKEN three", NULL);
    client.expect("CONFIG SET lockstock.max-waiters 3", OK);
    let mut third = server.client();
    third.send("LOCK.ACQUIRE lock TOKEN three WAIT 0");
    eventually_wait(&server, 3);
    client.expect("LOCK.RELEASE lock holder", 1);
    waiters[0].read().is(("one", INT, 30_000));
    // Where it is 0, nobody waits.
    client.expect("CONFIG SET lockstock.max-waiters 0", OK);
    client.expect("LOCK.ACQUIRE lock TOKEN four WAIT 0", err(refusal));
    client.expect("LOCK.RELEASE lock one", 1);
    waiters[1].read().is(("two", INT, 30_000));
}

#[test]
fn a_request_for_too_many_keys_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let call = |count: usize| {
        let keys: Vec<String> = (0..count).map(|number| format!("key-{number}")).collect();
        format!("LOCK.MACQUIRE {count} {} TOKEN t", keys.join(" "))
    };
    client.expect(call(1_001), err("ERR numkeys must be an integer from 1 to 1000"));
    client.expect("DBSIZE", 0);
    client.expect(call(1_000), ("t", INT, 30_000));
    client.expect("CONFIG SET lockstock.max-keys 2", OK);
    client.expect(call(3), err("ERR numkeys must be an integer from 1 to 2"));
    client.expect(call(2), ("t", INT, 30_000));
    // What was acquired before can be released in one go all the same.
    let release = call(1_000).replace("LOCK.MACQUIRE", "LOCK.MRELEASE t").replace(" TOKEN t", "");
    client.expect(release, 1_000);
    client.expect("DBSIZE", 0);
}

#[test]
fn a_lease_until_the_end_of_time_is_a_lease() {
    const LONG: i64 = 1 << 62;
    const LONGEST_WAIT: i64 = (1 << 53) - 1;
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    client.expect(format!("LOCK.ACQUIRE long TOKEN t PX {LONG}"), ("t", INT, LONG));
    client.expect(format!("LOCK.ACQUIRE short TOKEN t PX 200 WAIT {LONGEST_WAIT}"), ("t", INT, 200));
    client.expect(format!("LOCK.ACQUIRE too-long TOKEN t PX {}", i64::MAX), err("ERR PX must be an integer from 1 to"));
    client.expect(format!("LOCK.ACQUIRE too-long TOKEN t EX {LONG}"), err("ERR EX must be an integer from 1 to"));
    let mut waiter = server.client();
    waiter.send(format!("LOCK.ACQUIRE long TOKEN next PX {LONG} WAIT {LONGEST_WAIT}"));
    eventually_wait(&server, 1);
    eventually("other leases end", || client.cmd("EXISTS short") == Reply::Int(0));
    client.expect("DEBUG RELOAD", OK);
    let left = client.cmd("LOCK.INFO long").field("holders").at(0).field("lease-ms").int();
    assert!((LONG - 60_000..=LONG).contains(&left), "{left}");
    client.expect("LOCK.EXTEND long t PX 100", 1);
    waiter.read().is(("next", INT, LONG));
    client.expect("STOCK.CREATE sale 2", OK);
    client.expect(format!("STOCK.DECR_ONCE sale a HOLD {LONG}"), ("OK", 1, 1, INT, ""));
    client.expect("STOCK.DECR_ONCE sale b HOLD 100", ("OK", 1, 0, INT, ""));
    eventually("the short hold lapses", || client.cmd("STOCK.INFO sale").field("held") == Reply::Int(1));
    client.expect(format!("STOCK.EXTEND sale a PX {}", i64::MAX), err("ERR PX must be an integer from 1 to"));
    client.expect("STOCK.CANCEL sale a", ("OK", 0, 2, -1, ""));
}

#[test]
fn who_does_not_read_its_replies_is_cut_off_and_its_session_with_it() {
    const HOLDERS: usize = 5_000;
    let server = Server::builder().config("client-output-buffer-limit normal 8mb 0 0").start();
    let mut client = server.client();
    for start in (0..HOLDERS).step_by(500) {
        client.pipeline((start..start + 500).map(|n| format!("LOCK.ACQUIRE shared TOKEN t-{n} SHARED EX 3600")));
    }
    let mut glutton = server.client();
    glutton.expect("LOCK.ACQUIRE lock TOKEN glutton SESSION EX 3600", ANY);
    // Some 300 KB each. The server reads a part of the calls before it sees what their replies amount to.
    glutton.send_raw("LOCK.INFO shared\r\n".repeat(400).as_bytes());
    let mut next = server.client();
    next.expect("LOCK.ACQUIRE lock TOKEN next WAIT 20000", ("next", INT, 30_000));
    let shown = client.cmd("LOCK.INFO shared").field("holders").items().len();
    assert_eq!(shown, HOLDERS);
    let log = server.log();
    assert!(log.contains("overcoming of output buffer limits"), "{log}");
}

/// Clients may together have 600 kB. Two fat ones wait, one of them exempt by NO-EVICT.
#[test]
fn a_waiter_that_the_server_evicts_loses_its_turn_and_one_that_it_may_not_evict_keeps_it() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ANY);
    let mut waiters = ["fat", "exempt", "slim"].map(|token| {
        let mut waiter = server.client();
        if token == "exempt" {
            waiter.expect("CLIENT NO-EVICT ON", OK);
        }
        line.enter(&mut waiter, format!("LOCK.ACQUIRE lock TOKEN {token} WAIT 0 SESSION"));
        waiter
    });
    // What a blocked client sends stays in its buffer.
    let text = vec![b'x'; 900_000];
    for fat in &mut waiters[..2] {
        fat.send([&b"ECHO"[..], &text]);
    }
    let buffered = || {
        let clients = server.cmd("CLIENT LIST").text();
        let sizes = clients.split(" qbuf=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        sizes.filter(|size| *size > text.len()).count()
    };
    eventually("both are in the server's memory", || buffered() == 2);
    holder.expect("CONFIG SET maxmemory-clients 600kb", OK);
    line.until("lock_waiters", 2);
    assert_eq!(waiters[0].read_to_end(), []);
    // The replies that follow are in the server's memory until they are read.
    holder.expect("CONFIG SET maxmemory-clients 0", OK);
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiters[1].read().is(("exempt", INT, 30_000));
    waiters[1].read().is(text.as_slice());
    waiters[1].expect("LOCK.RELEASE lock exempt", 1);
    waiters[2].read().is(("slim", INT, 30_000));
}

#[test]
fn who_may_only_release_releases_what_it_can_name_and_learns_nothing() {
    let server = Server::start();
    let mut owner = server.client();
    owner.expect("LOCK.ACQUIRE jobs:1 TOKEN secret EX 3600", ANY);
    owner.expect("LOCK.ACQUIRE other:1 TOKEN secret EX 3600", ANY);
    owner.expect("STOCK.CREATE jobs:sale 5", OK);
    let mut tenant = as_user(&server, "~jobs:* +lock.release +lock.mrelease");
    for call in [
        "LOCK.ACQUIRE jobs:1 TOKEN t",
        "LOCK.ACQUIRE jobs:1 TOKEN t WAIT 0",
        "LOCK.MACQUIRE 1 jobs:2",
        "LOCK.EXTEND jobs:1 secret",
        "LOCK.INFO jobs:1",
        "LOCK.APPLY jobs:1 ENDED secret",
        "STOCK.CANCEL jobs:sale a",
        "LOCK.RELEASE other:1 secret",
        "LOCK.MRELEASE secret 2 jobs:1 other:1",
        "DEL jobs:1",
        "INFO lockstock",
    ] {
        tenant.expect(call, err("NOPERM"));
    }
    // Held by another token, or free: the caller cannot tell.
    for call in ["LOCK.RELEASE jobs:1 guess", "LOCK.RELEASE jobs:2 guess", "LOCK.MRELEASE guess 2 jobs:1 jobs:2"] {
        tenant.expect(call, 0);
    }
    tenant.expect("LOCK.RELEASE jobs:sale guess", err("WRONGTYPE"));
    tenant.expect("LOCK.RELEASE jobs:1 secret", 1);
    owner.expect("DBSIZE", 2);
}

#[test]
fn who_may_read_sees_tokens_but_ends_nothing() {
    let server = Server::start();
    let mut owner = server.client();
    owner.expect("LOCK.ACQUIRE jobs:1 TOKEN secret EX 3600", ANY);
    owner.expect("LOCK.ACQUIRE other:1 TOKEN secret EX 3600", ANY);
    let mut reader = as_user(&server, "%R~jobs:* +@all");
    let token = reader.cmd("LOCK.INFO jobs:1").field("holders").at(0).field("token").text();
    assert_eq!(token, "secret");
    for call in [
        "LOCK.RELEASE jobs:1 secret",
        "LOCK.MRELEASE secret 1 jobs:1",
        "LOCK.ACQUIRE jobs:1 TOKEN secret PX 1",
        "LOCK.ACQUIRE jobs:1 TOKEN t WAIT 0",
        "LOCK.EXTEND jobs:1 secret PX 1",
        "LOCK.APPLY jobs:1 ENDED secret",
        "DEL jobs:1",
        "LOCK.INFO other:1",
    ] {
        reader.expect(call, err("NOPERM"));
    }
    owner.expect("LOCK.INFO jobs:1", ANY);
}

#[test]
fn a_tenant_neither_waits_for_nor_sees_the_keys_of_another() {
    let server = Server::start();
    let mut owner = server.client();
    owner.expect("LOCK.ACQUIRE b:lock TOKEN secret EX 3600", ANY);
    owner.expect("STOCK.CREATE b:sale 5 STREAM b:events", OK);
    owner.expect("STOCK.DECR_ONCE b:sale ann", ANY);
    let mut tenant = as_user(&server, "~a:* +@all -@admin -@dangerous -info");
    for call in [
        "LOCK.ACQUIRE b:lock WAIT 0",
        "LOCK.MACQUIRE 2 a:lock b:lock WAIT 0",
        "LOCK.MRELEASE secret 2 a:lock b:lock",
        "LOCK.INFO b:lock",
        "STOCK.DECR_ONCE b:sale bob",
        "STOCK.ORDER b:sale ann",
        "STOCK.ORDERS b:sale 0",
        "STOCK.BUYER b:sale ann",
        "STOCK.INFO b:sale",
        "STOCK.CREATE a:sale 5 STREAM b:events",
        "INFO lockstock",
        "DUMP b:lock",
    ] {
        tenant.expect(call, err("NOPERM"));
    }
    assert_eq!(server.info_int("lockstock", "lockstock_lock_waiters"), 0);
    // What it learns of the others is what any client of a server learns: that there are more keys.
    tenant.expect("LOCK.ACQUIRE a:lock TOKEN mine", ("mine", INT, 30_000));
    tenant.expect("DBSIZE", 4);
    let told = server.cmd("INFO lockstock").text();
    assert!(!told.contains("b:") && !told.contains("secret"), "{told}");
}

#[test]
fn effects_are_for_administrators() {
    let server = Server::start();
    server.expect("STOCK.CREATE sale 5", OK);
    // Redis 7.0 knows no categories for the commands of modules, so there they are taken one by one.
    let rules = if server.is_valkey() || server.version() >= [7, 2, 0] {
        "~* +@all -@admin -@dangerous"
    } else {
        "~* +@all -lock.apply -stock.apply"
    };
    let mut tenant = as_user(&server, rules);
    for call in ["LOCK.APPLY lock HELD t 5 9000000000000", "STOCK.APPLY sale TAKEN a 5", "STOCK.APPLY sale ADJUSTED 5"]
    {
        tenant.expect(call, err("NOPERM"));
        let script = format!("return redis.call('{}')", call.replace(' ', "','"));
        tenant.expect(["EVAL", &script, "0"], err("ERR"));
    }
    tenant.expect("STOCK.DECR_ONCE sale a", ("OK", 1, 4, -1, ""));
}

#[test]
fn a_user_that_is_deleted_waits_no_more_and_its_sessions_end() {
    let server = Server::start();
    let mut owner = server.client();
    owner.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    let mut tenant = as_user(&server, "~* +@all");
    tenant.expect("LOCK.ACQUIRE session TOKEN t SESSION EX 3600", ANY);
    tenant.send("LOCK.ACQUIRE lock TOKEN tenant WAIT 0");
    eventually_wait(&server, 1);
    owner.expect("ACL DELUSER tenant", 1);
    tenant.read_to_end();
    eventually_wait(&server, 0);
    owner.expect("LOCK.ACQUIRE session TOKEN next WAIT 5000", ("next", INT, 30_000));
}

#[test]
fn names_of_any_kind_cost_what_others_do() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5000", OK);
    // Long, alike but for the last byte, and of bytes that mean something elsewhere.
    let longest = |number: u16| [&[0xff; 510][..], &number.to_be_bytes()].concat();
    for number in 0..2_000 {
        client.expect([&b"STOCK.DECR_ONCE"[..], b"sale", &longest(number)], ("OK", 1, INT, -1, ""));
    }
    client.expect([&b"STOCK.DECR_ONCE"[..], b"sale", &[b'x'; 513]], err("ERR id must be a string of 1 to 512 bytes"));
    client.expect([&b"LOCK.ACQUIRE"[..], b"lock", b"TOKEN", &[b'x'; 513]], err("ERR TOKEN must be"));
    let took = std::time::Instant::now();
    for number in 0..2_000 {
        client.expect([&b"STOCK.ORDER"[..], b"sale", &longest(number)], ANY);
    }
    assert!(took.elapsed() < Duration::from_secs(10), "{:?}", took.elapsed());
    client.expect("LOCK.ACQUIRE lock", (TEXT, INT, INT));
}
