//! A lock is an ordinary key for the administrator of the server.

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, TEXT, Tap, eventually, unix_ms};

use crate::support::scene::holds;

#[test]
fn it_has_a_type_a_size_and_no_time_to_live() {
    let server = Server::builder().config("maxmemory-policy allkeys-lfu").start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 5000", ANY);
    assert_eq!(client.cmd("TYPE lock"), Reply::Simple("lockstk-l".into()));
    client.expect("OBJECT ENCODING lock", "raw");
    client.expect("OBJECT FREQ lock", 0..=100);
    client.expect("PTTL lock", -1);
    client.expect("SCAN 0 TYPE lockstk-l", ("0", ("lock",)));
    let one = client.cmd("MEMORY USAGE lock").int();
    assert!((50..400).contains(&one), "{one} bytes for one hold");
    for number in 0..1_000 {
        client.expect(format!("LOCK.ACQUIRE crowd TOKEN a-token-of-some-length-{number} SHARED"), ANY);
    }
    let many = client.cmd("MEMORY USAGE crowd").int();
    assert!((50_000..500_000).contains(&many), "{many} bytes for a thousand holds");
    client.expect("DEBUG OBJECT lock", ANY);
}

#[test]
fn memory_usage_is_what_the_server_gives_out() {
    let server = Server::start();
    let mut client = server.client();
    let used = || server.info_int("memory", "used_memory_dataset");
    let before = used();
    let mut batch = vec![];
    for number in 0..20_000 {
        batch.push(format!("LOCK.ACQUIRE crowd TOKEN a-token-of-some-length-{number} SHARED"));
    }
    client.pipeline(batch);
    let told = client.cmd("MEMORY USAGE crowd").int();
    let grown = used() - before;
    assert!((grown * 2 / 3..grown * 3 / 2).contains(&told), "{told} of {grown} bytes");
}

#[test]
fn copy_refuses_and_copies_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    let mut tap = Tap::attach(&server);
    for (words, target) in
        [("COPY lock other", "other"), ("COPY lock other REPLACE", "other"), ("COPY lock lock DB 1", "lock")]
    {
        let reply = client.cmd(words);
        assert!(reply == Reply::Int(0) || reply.is_error(), "{words}: {reply:?}");
        if target == "other" {
            client.expect("EXISTS other", 0);
        }
    }
    client.expect("DBSIZE", 1);
    client.pipeline(["SELECT 1", "DBSIZE", "SELECT 0"])[1].clone().is(0);
    assert_eq!(tap.drain(), [""; 0]);
}

#[test]
fn rename_and_move_take_the_holds_along() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE old TOKEN t EX 3600", ANY);
    let before = holds(&server, "old");
    client.expect("RENAME old new", OK);
    assert_eq!(holds(&server, "new"), before);
    assert!(holds(&server, "old").is_empty());
    client.expect("LOCK.ACQUIRE new TOKEN other", NULL);
    client.expect("LOCK.ACQUIRE old TOKEN other", ("other", INT, 30_000));
    client.expect("LOCK.RELEASE new t", 1);

    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    client.expect("MOVE lock 5", 1);
    client.expect("LOCK.RELEASE lock t", 0);
    client.expect("SELECT 5", OK);
    client.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    client.expect("LOCK.RELEASE lock t", 1);
    client.expect("DBSIZE", 0);
}

/// A holder's lock gets a TTL that ends before the lease, and the waiter gets the lock.
#[track_caller]
fn an_earlier_expire_hands_over(server: &Server) {
    let (mut client, mut waiter) = (server.client(), server.client());
    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    waiter.send("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    client.expect("PEXPIRE lock 20", 1);
    waiter.read().is(("next", INT, 30_000));
    client.expect("LOCK.RELEASE lock next", 1);
}

#[test]
fn an_earlier_expire_unlocks_by_force_and_a_later_one_changes_no_lease() {
    let server = Server::start();
    let mut client = server.client();
    an_earlier_expire_hands_over(&server);

    let replies = client.pipeline(["LOCK.ACQUIRE lock TOKEN t PX 20", "EXPIRE lock 3600"]);
    assert_eq!(replies[1], Reply::Int(1));
    eventually("the lease ends all the same", || client.cmd("DBSIZE").int() == 0);

    let replies = client.pipeline(["LOCK.ACQUIRE lock TOKEN t PX 20", "EXPIRE lock 3600", "PERSIST lock", "PTTL lock"]);
    assert_eq!(replies[1..], [1, 1, -1].map(Reply::Int));
    eventually("the lease ends all the same", || client.cmd("DBSIZE").int() == 0);
    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    client.expect("PERSIST lock", 0);
    client.expect("LOCK.EXTEND lock t PX 1", 1);
    eventually("the lease ends all the same", || client.cmd("DBSIZE").int() == 0);
}

#[test]
fn an_earlier_expire_on_what_is_waited_for_needs_no_search_of_the_server() {
    const LOCKS: usize = 500;
    let server = Server::start();
    let mut client = server.client();
    // As good as never, among many other keys with a TTL.
    client.expect("DEBUG SET-ACTIVE-EXPIRE 0", OK);
    an_earlier_expire_hands_over(&server);

    for lock in 0..LOCKS {
        client.expect(format!("LOCK.ACQUIRE lock{lock} TOKEN t EX 3600"), ANY);
        client.expect(format!("LOCK.ACQUIRE lock{lock} TOKEN next EX 3600 WAIT 0 NOTIFY news"), 1);
        client.expect(format!("PEXPIRE lock{lock} 20"), 1);
    }
    eventually("each is handed over", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
    client.expect("LOCK.RELEASE lock0 t", 0);
    client.expect("LOCK.RELEASE lock499 next", 1);
}

#[test]
fn an_expire_concerns_the_holds_it_was_set_on_and_not_the_next_ones() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    let mut waiter = primary.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    client.expect("EXPIRE lock 1000", 1);
    // Renewed and extended, it is still the same hold.
    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    client.expect("LOCK.EXTEND lock t EX 3600", 1);
    client.expect("TTL lock", 900..=1_000);
    waiter.send("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    eventually("it waits", || primary.info_int("lockstock", "lockstock_lock_waiters") == 1);
    client.expect("LOCK.RELEASE lock t", 1);
    waiter.read().is(("next", INT, 30_000));
    client.expect("TTL lock", -1);
    replica.wait_in_sync(&primary);
    replica.expect("TTL lock", -1);
    replica.keys().are(&primary.keys());
    assert_eq!(replica.digest(), primary.digest());
}

/// Whether a transaction that watched `lock` while `others` did their part was carried out.
#[track_caller]
fn undisturbed(server: &Server, others: impl FnOnce(&mut Client)) -> bool {
    let (mut watcher, mut other) = (server.client(), server.client());
    watcher.expect("WATCH lock", OK);
    others(&mut other);
    let replies = watcher.pipeline(["MULTI", "PING", "EXEC"]);
    !matches!(replies[2], Reply::Nil(_))
}

#[test]
fn watch_is_touched_by_changes_and_not_by_refusals() {
    let server = Server::start();
    assert!(!undisturbed(&server, |other| {
        other.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    }));
    assert!(undisturbed(&server, |other| {
        other.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
        other.expect("LOCK.ACQUIRE lock TOKEN other WAIT 1", NULL);
        other.expect("LOCK.RELEASE lock other", 0);
        other.expect("LOCK.EXTEND lock other", 0);
        other.expect("LOCK.INFO lock", ANY);
        other.expect("LOCK.ACQUIRE lock TOKEN t LIMIT 2", harness::err("ERR"));
        other.expect("LOCK.ACQUIRE another TOKEN t", ANY);
    }));
    let changes = ["LOCK.ACQUIRE lock TOKEN t EX 3600", "LOCK.EXTEND lock t EX 3600", "LOCK.RELEASE lock t"];
    for change in changes {
        assert!(!undisturbed(&server, |other| drop(other.expect(change, ANY))), "{change}");
    }
    // An end that nobody asked for.
    assert!(!undisturbed(&server, |other| {
        other.expect("LOCK.ACQUIRE lock TOKEN t PX 1", ANY);
        eventually("the lease is over", || other.cmd("DBSIZE").int() == 1);
    }));
    server.expect("LOCK.ACQUIRE lock TOKEN t PX 3000", ANY);
    assert!(!undisturbed(&server, |other| {
        eventually("the lease is over", || other.cmd("DBSIZE").int() == 1);
    }));
    let mut session = server.client();
    session.expect("LOCK.ACQUIRE lock TOKEN t SESSION", ANY);
    assert!(!undisturbed(&server, |other| {
        session.close();
        eventually("the hold is over", || other.cmd("DBSIZE").int() == 1);
    }));
}

#[test]
fn caches_on_the_clients_side_hear_of_changes_and_of_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    let mut cache = server.client();
    cache.hello3();
    cache.expect("CLIENT TRACKING ON", OK);
    let watch = |cache: &mut Client| {
        cache.expect("LOCK.INFO lock", ANY);
        cache.expect("GET end", ANY);
    };
    let invalidated = |cache: &mut Client, client: &mut Client| {
        client.expect("SET end x", OK);
        let first = cache.read().at(1).at(0).text();
        if first != "end" {
            cache.read().at(1).clone().is(("end",));
        }
        first
    };
    watch(&mut cache);
    client.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", (TEXT, INT, INT));
    assert_eq!(invalidated(&mut cache, &mut client), "lock");
    watch(&mut cache);
    client.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    client.expect("LOCK.RELEASE lock other", 0);
    client.expect("LOCK.EXTEND lock other", 0);
    assert_eq!(invalidated(&mut cache, &mut client), "end", "nothing changed");
    watch(&mut cache);
    client.expect("LOCK.EXTEND lock t PX 1", 1);
    assert_eq!(invalidated(&mut cache, &mut client), "lock");
    eventually("the lease is over", || client.cmd("DBSIZE").int() == 1);

    client.expect("LOCK.ACQUIRE lock TOKEN t PX 3000", ANY);
    let over = unix_ms() + 3_000;
    watch(&mut cache);
    eventually("the lease is over", || unix_ms() > over && client.cmd("DBSIZE").int() == 1);
    assert_eq!(invalidated(&mut cache, &mut client), "lock");
}
