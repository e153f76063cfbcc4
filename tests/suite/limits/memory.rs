//! A server without memory to spare: what frees something still works, what needs some is refused and changes nothing.

use harness::{ANY, Aof, INT, NULL, OK, Reply, Server, Words, err, eventually, unix_ms};

/// Leaves `server` no memory.
#[track_caller]
fn fill(server: &Server) {
    server.expect("CONFIG SET maxmemory 1", OK);
}

#[test]
fn locks_are_released_and_extended_but_not_given() {
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    for line in [
        "LOCK.ACQUIRE held TOKEN t PX 60000",
        "LOCK.ACQUIRE shared TOKEN a SHARED",
        "LOCK.ACQUIRE permits TOKEN a LIMIT 9",
        "LOCK.ACQUIRE waited TOKEN first EX 3600",
        "LOCK.ACQUIRE lapsing TOKEN first EX 3600",
    ] {
        client.expect(line, ANY);
    }
    let mut waiters = ["waited", "lapsing"].map(|lock| {
        let mut waiter = server.client();
        waiter.send(["LOCK.ACQUIRE", lock, "TOKEN", "next", "WAIT", "0"]);
        waiter
    });
    eventually("both wait", || server.info_int("lockstock", "lockstock_lock_waiters") == 2);
    fill(&server);
    let (before, told) = (server.keys(), Aof::of(&server).commands.len());
    for line in [
        "LOCK.ACQUIRE free TOKEN t",
        "LOCK.ACQUIRE free TOKEN t WAIT 0",
        "LOCK.ACQUIRE held TOKEN t",
        "LOCK.ACQUIRE shared TOKEN b SHARED",
        "LOCK.ACQUIRE permits TOKEN b LIMIT 9",
        "LOCK.MACQUIRE 2 one two TOKEN t",
    ] {
        client.expect(line, err("OOM"));
    }
    client.expect(["EVAL", "return redis.call('LOCK.ACQUIRE', KEYS[1])", "1", "free"], err("OOM"));
    server.keys().are(&before);
    assert_eq!(Aof::of(&server).commands.len(), told);

    client.expect("LOCK.INFO held", ANY);
    client.expect("LOCK.EXTEND held t EX 3600", 1);
    client.expect("LOCK.EXTEND shared a", 1);
    client.expect("LOCK.MEXTEND a 2 shared permits", 1);
    client.expect("LOCK.RELEASE held t", 1);
    client.expect("LOCK.MRELEASE a 2 shared permits", 2);
    // A waiter was let in when there was memory; it is not left waiting because there is none now.
    client.expect("LOCK.RELEASE waited first", 1);
    waiters[0].read().is(("next", INT, 30_000));
    client.expect("LOCK.EXTEND lapsing first PX 30", 1);
    waiters[1].read().is(("next", INT, 30_000));
    client.expect("LOCK.RELEASE lapsing next", 1);
    client.expect("LOCK.RELEASE waited next", 1);
    client.expect("DBSIZE", 0);
    client.expect("CONFIG SET maxmemory 0", OK);
    client.expect("LOCK.ACQUIRE free TOKEN t", ("t", INT, 30_000));
}

#[test]
fn stock_is_given_back_and_confirmed_but_not_taken() {
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    for line in [
        "STOCK.CREATE sale 10 STREAM events",
        "STOCK.DECR_ONCE sale h1 HOLD 3600000",
        "STOCK.DECR_ONCE sale h2 HOLD 3600000",
        "STOCK.DECR_ONCE sale h3 HOLD 1000",
        "STOCK.DECR_ONCE sale sold QTY 2",
    ] {
        client.expect(line, ANY);
    }
    fill(&server);
    let (before, told) = (server.keys(), Aof::of(&server).commands.len());
    for line in ["STOCK.CREATE other 10", "STOCK.DECR_ONCE sale new", "STOCK.DECR_ONCE sale new HOLD 1000"] {
        client.expect(line, err("OOM"));
    }
    if Aof::of(&server).commands.len() == told {
        server.keys().are(&before);
    }
    client.expect("STOCK.CONFIRM sale h1", ("OK", 1, 5..=6, -1, ""));
    client.expect("STOCK.EXTEND sale h2 PX 3600000", ("OK", 1, 5..=6, INT, ""));
    client.expect("STOCK.CANCEL sale h2", ("OK", 0, 6..=7, -1, ""));
    client.expect("STOCK.CANCEL sale sold", ("OK", 0, 8..=9, -1, ""));
    eventually("a hold lapses all the same", || {
        client.cmd("STOCK.INFO sale").field("remaining") == Reply::Int(9)
            && Aof::of(&server).commands.contains(&Words::from("STOCK.APPLY sale LAPSED h3"))
    });
    client.expect("CONFIG SET maxmemory 0", OK);
    client.expect("STOCK.DECR_ONCE sale new", ("OK", 1, 8, -1, ""));
}

#[test]
fn a_server_that_may_evict_what_matters_is_told_so_when_the_module_loads() {
    for (policy, warned) in
        [("allkeys-lru", true), ("allkeys-random", true), ("volatile-lru", false), ("noeviction", false)]
    {
        let server = Server::builder().config(&format!("maxmemory-policy {policy}")).start();
        let log = server.log();
        let warning = log.lines().find(|line| line.contains("maxmemory-policy is"));
        assert_eq!(warning.is_some(), warned, "{log}");
        assert!(warning.is_none_or(|line| line.contains(policy) && line.contains("noeviction")), "{warning:?}");
    }
}

#[test]
fn a_volatile_policy_evicts_no_lock_and_an_evicted_one_goes_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    client.expect("STOCK.CREATE sale 10", OK);
    client.expect("CONFIG SET maxmemory-policy volatile-lru", OK);
    fill(&server);
    client.expect("SET x y", err("OOM"));
    client.expect("DBSIZE", 2);

    client.expect("CONFIG SET maxmemory 0", OK);
    let mut waiter = server.client();
    waiter.send("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    client.expect("CONFIG SET maxmemory-policy allkeys-random", OK);
    fill(&server);
    client.cmd("SET x y");
    waiter.read().is(("next", INT, 30_000));
}

#[test]
fn an_evicted_sale_is_gone_with_its_orders_and_nothing_of_it_falls_due() {
    let server = Server::builder().config("maxmemory-policy allkeys-lru").start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 2 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale sold", ("OK", 1, 1, -1, ""));
    let deadline = client.expect("STOCK.DECR_ONCE sale held HOLD 2000", ("OK", 1, 0, INT, "")).at(3).int();
    client.expect("STOCK.DECR_ONCE sale waits HOLD 2000 WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("CONFIG SET maxmemory 1", OK);
    eventually("all is evicted", || client.cmd("EXISTS sale events") == Reply::Int(0));
    client.expect("CONFIG SET maxmemory 0", OK);
    assert!(unix_ms() < deadline, "the machine is too slow for this test");
    for field in ["sales", "orders"] {
        assert_eq!(server.info_int("lockstock", &format!("lockstock_{field}")), 0, "{field}");
    }
    client.expect("STOCK.INFO sale", NULL);
    for words in ["DECR_ONCE sale sold", "CONFIRM sale held", "CANCEL sale waits"] {
        client.expect(format!("STOCK.{words}"), ("NOSTOCK", 0, 0, -1, ""));
    }
    // A sale of the same name begins anew.
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale sold", ("OK", 1, 0, -1, ""));
    eventually("the deadline is over", || unix_ms() > deadline + 300);
    client.expect("XLEN events", 1);
    client.expect("STOCK.DECR_ONCE sale held", ("SOLDOUT", 0, 0, -1, ""));
    assert_eq!(server.info_int("lockstock", "lockstock_stock_lapses"), 0);
}
