//! Locks that vanish, move or change their type under their waiters.

use std::time::Duration;

use harness::{ANY, Client, INT, NULL, OK, Server, err, eventually, items};

use crate::support::line::Line;

/// A lock with a holder and two waiters.
struct Scene<'a> {
    line: Line<'a>,
    admin: Client,
    holder: Client,
    first: Client,
    second: Client,
}

impl<'a> Scene<'a> {
    fn set(server: &'a Server) -> Self {
        let (mut line, mut holder) = (Line::at(server), server.client());
        let first = line.join_behind(&mut holder, 60_000);
        let second = line.join("LOCK.ACQUIRE lock TOKEN second WAIT 0");
        Self { line, admin: server.client(), holder, first, second }
    }

    /// The first waiter has the lock now, and everything goes on from there.
    fn goes_on(mut self) {
        self.first.read().is(("waiter", INT, 60_000));
        assert_eq!(self.line.holders("lock"), ["waiter"]);
        self.holder.expect("LOCK.RELEASE lock holder", 0);
        self.first.expect("LOCK.RELEASE lock waiter", 1);
        self.second.read().is(("second", INT, 30_000));
        self.second.expect("LOCK.RELEASE lock second", 1);
        assert_eq!((self.line.count("locks_held"), self.line.count("lock_waiters")), (0, 0));
    }

    /// Both waiters are told that the key is no lock.
    fn ends_in_wrongtype(mut self) {
        self.first.read().is(err("WRONGTYPE"));
        self.second.read().is(err("WRONGTYPE"));
        self.line.until("lock_waiters", 0);
        self.line.until("locks_held", 0);
        self.admin.expect("LOCK.ACQUIRE lock WAIT 0", err("WRONGTYPE"));
    }
}

#[test]
fn a_lock_that_is_deleted_is_handed_over() {
    let server = Server::start();
    for words in ["DEL lock", "UNLINK lock"] {
        let mut scene = Scene::set(&server);
        scene.admin.expect(words, 1);
        scene.goes_on();
    }
    for words in ["FLUSHALL", "FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"] {
        let mut scene = Scene::set(&server);
        scene.admin.expect(words, OK);
        scene.goes_on();
    }
}

#[test]
fn a_flush_in_the_middle_of_a_transaction_is_seen_in_its_place() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    let replies =
        scene.admin.pipeline(["MULTI", "FLUSHALL", "LOCK.ACQUIRE lock TOKEN new", "LOCK.RELEASE lock holder", "EXEC"]);
    // The waiters were first, and so one of them has the lock.
    replies[4].clone().is((OK, NULL, 0));
    scene.goes_on();
}

#[test]
fn an_earlier_expiry_of_the_key_ends_the_hold_and_a_later_one_changes_nothing() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    scene.admin.expect("PEXPIRE lock 3600000", 1);
    scene.admin.expect("PERSIST lock", 1);
    scene.admin.expect("PEXPIRE lock 50", 1);
    scene.goes_on();
    // The lease counts where the key itself would live on.
    let mut scene = Scene::set(&server);
    scene.holder.expect("LOCK.ACQUIRE short TOKEN holder PX 600000", ANY);
    let mut waiter = scene.line.join("LOCK.ACQUIRE short TOKEN waiter WAIT 0");
    scene.holder.expect("LOCK.EXTEND short holder PX 50", 1);
    scene.admin.expect("PEXPIRE short 3600000", 0..=1);
    waiter.read().is(("waiter", INT, 30_000));
}

#[test]
fn waiters_are_told_when_another_value_takes_the_place() {
    let server = Server::start();
    for words in ["SET lock text", "RENAME list lock", "SUNIONSTORE lock set", "RESTORE-TEXT"] {
        server.expect("FLUSHALL", OK);
        let mut scene = Scene::set(&server);
        scene.admin.expect("RPUSH list a", 1);
        scene.admin.expect("SADD set a", 1);
        if words == "RESTORE-TEXT" {
            scene.admin.expect("SET text t", OK);
            let dump = scene.admin.cmd("DUMP text").bytes();
            scene.admin.expect([&b"RESTORE"[..], b"lock", b"0", &dump, b"REPLACE"], OK);
        } else {
            scene.admin.expect(words, ANY);
        }
        scene.ends_in_wrongtype();
    }
}

#[test]
fn databases_that_trade_places_take_their_holds_along() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    scene.admin.expect("SWAPDB 0 1", OK);
    // The waiters stayed in database 0, where nobody holds the lock now.
    scene.first.read().is(("waiter", INT, 60_000));
    scene.admin.pipeline(["SELECT 1", "PING"]);
    scene.admin.expect("LOCK.RELEASE lock holder", 1);
    scene.admin.expect("EXISTS lock", 0);
    assert_eq!(scene.line.holders("lock"), ["waiter"]);
    // The other way: a held lock comes to a key with a waiter.
    scene.admin.expect("LOCK.ACQUIRE lock TOKEN guest PX 60000", ANY);
    scene.admin.expect("SWAPDB 0 1", OK);
    assert_eq!(scene.line.holders("lock"), ["guest"]);
    assert_eq!(scene.line.waiters("lock"), ["second"]);
    scene.admin.pipeline(["SELECT 0", "PING"]);
    scene.admin.expect("LOCK.RELEASE lock guest", 1);
    scene.second.read().is(("second", INT, 30_000));
    scene.admin.pipeline(["SELECT 1", "PING"]);
    scene.admin.expect("LOCK.RELEASE lock waiter", 1);
}

#[test]
fn a_renamed_lock_keeps_its_hold_and_the_waiters_keep_the_name() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    scene.admin.expect("RENAME lock moved", OK);
    scene.first.read().is(("waiter", INT, 60_000));
    assert_eq!(scene.line.holders("moved"), ["holder"]);
    scene.holder.expect("LOCK.EXTEND moved holder PX 50000", 1);
    let mut at_new_name = scene.line.join("LOCK.ACQUIRE moved TOKEN later WAIT 0");
    scene.holder.expect("LOCK.RELEASE moved holder", 1);
    at_new_name.read().is(("later", INT, 30_000));
    at_new_name.expect("LOCK.RELEASE moved later", 1);
    scene.first.expect("LOCK.RELEASE lock waiter", 1);
    scene.second.read().is(("second", INT, 30_000));
}

#[test]
fn a_renamed_lock_still_ends_by_itself_though_nobody_asks_for_it() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let (mut holder, mut admin) = (server.client(), server.client());
    // Enough other keys that it has to be looked for.
    for n in 0..20_000 {
        admin.send(format!("SET filler-{n} x"));
    }
    (0..20_000).for_each(|_| drop(admin.read()));
    holder.expect("LOCK.ACQUIRE tied TOKEN holder PX 3600000 SESSION", ANY);
    holder.expect("LOCK.ACQUIRE away TOKEN holder PX 3600000 SESSION", ANY);
    admin.expect("RENAME tied tied-2", OK);
    admin.expect("MOVE away 5", 1);
    line.until("locks_held", 2);
    admin.pipeline(["LOCK.ACQUIRE leased TOKEN holder PX 100", "RENAME leased leased-2"])[1].clone().is(OK);
    eventually("the lease ends", || server.cmd("EXISTS leased-2").int() == 0);
    line.until("locks_held", 2);
    holder.close();
    eventually("the session ends", || server.cmd("EXISTS tied-2").int() == 0);
    admin.expect("SELECT 5", OK);
    eventually("in every database", || admin.cmd("EXISTS away").int() == 0);
    line.until("locks_held", 0);
}

#[test]
fn a_connection_that_ends_while_its_lock_is_on_the_move_is_not_forgotten() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let (mut holder, mut admin) = (server.client(), server.client());
    let id = holder.id();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000 SESSION", ANY);
    admin.pipeline(["MULTI", "RENAME lock moved", &format!("CLIENT KILL ID {id}"), "EXEC"]);
    eventually("the session ends", || admin.cmd("EXISTS moved").int() == 0);
    line.until("locks_held", 0);

    // The same when a command is the first to find it.
    let mut holder = server.client();
    let id = holder.id();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000 SESSION", ANY);
    let extend = "LOCK.EXTEND moved holder PX 3600000";
    let kill = format!("CLIENT KILL ID {id}");
    let replies = admin.pipeline(["MULTI", "RENAME lock moved", &kill, extend, "EXEC"]);
    replies[4].clone().is((OK, 1, 1));
    eventually("the session ends", || admin.cmd("EXISTS moved").int() == 0);
    line.until("locks_held", 0);
}

#[test]
fn a_lock_renamed_over_another_takes_its_place() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    scene.admin.expect("LOCK.ACQUIRE other TOKEN guest PX 60000", ANY);
    scene.admin.expect("RENAME other lock", OK);
    eventually("the engine has met it", || scene.line.holders("lock") == ["guest"]);
    assert_eq!(scene.first.try_read(Duration::from_millis(5)), None);
    assert_eq!(scene.line.waiters("lock"), ["waiter", "second"]);
    scene.admin.expect("LOCK.RELEASE lock guest", 1);
    scene.goes_on();
}

#[test]
fn copies_are_refused() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    let copied = scene.admin.cmd("COPY lock copy");
    assert!(copied.is_error() || copied.int() == 0, "{copied:?}");
    scene.admin.expect("EXISTS copy", 0);
    scene.admin.expect("LOCK.RELEASE lock holder", 1);
    scene.goes_on();
}

#[test]
fn a_reload_is_no_release() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    scene.admin.expect("DEBUG RELOAD", OK);
    assert_eq!(scene.line.holders("lock"), ["holder"]);
    assert_eq!(scene.line.waiters("lock"), ["waiter", "second"]);
    assert_eq!(scene.first.try_read(Duration::from_millis(5)), None);
    scene.admin.expect("LOCK.RELEASE lock holder", 1);
    scene.goes_on();
}

#[test]
fn eviction_is_a_release_too() {
    let server = Server::builder().config("maxmemory-policy allkeys-random").start();
    let mut scene = Scene::set(&server);
    let line = &mut scene.line;
    evict(&mut scene.admin, "the lock is evicted", || line.holders("lock") != ["holder"]);
    scene.first.read().is(("waiter", INT, 60_000));
}

/// Has the server evict until it is `done`. Any command with a key makes it evict what it can.
#[track_caller]
fn evict(admin: &mut Client, what: &str, mut done: impl FnMut() -> bool) {
    admin.expect("CONFIG SET maxmemory 1", OK);
    eventually(what, || {
        admin.cmd("GET nothing");
        done()
    });
    admin.expect("CONFIG SET maxmemory 0", OK);
}

#[test]
fn a_lock_with_a_time_to_live_is_evicted_by_a_volatile_policy_and_handed_over() {
    let server = Server::start();
    for policy in ["volatile-lru", "volatile-lfu", "volatile-ttl", "volatile-random"] {
        let mut scene = Scene::set(&server);
        let fence = scene.holder.cmd("LOCK.ACQUIRE lock TOKEN holder PX 60000").at(1).int();
        scene.admin.expect(format!("CONFIG SET maxmemory-policy {policy}"), OK);
        // A later end changes no lease, but it lets the server choose the lock.
        scene.admin.expect("PEXPIRE lock 3600000", 1);
        let line = &mut scene.line;
        evict(&mut scene.admin, policy, || line.holders("lock") == ["waiter"]);
        // The next holder's lock is a new key, without a time to live.
        assert_eq!(scene.line.waiters("lock"), ["second"], "{policy}");
        scene.admin.expect("PTTL lock", -1);
        let info = scene.admin.cmd("LOCK.INFO lock");
        assert!(info.field("holders").items()[0].field("fence").int() > fence, "{policy}");
        scene.holder.expect("LOCK.EXTEND lock holder", 0);
        scene.goes_on();
    }
}

#[test]
fn a_server_that_evicts_everything_passes_a_lock_on_through_its_whole_line() {
    let server = Server::start();
    let mut scene = Scene::set(&server);
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        scene.admin.expect(format!("CONFIG SET maxmemory-policy {policy}"), OK);
        let mut fence = scene.holder.cmd("LOCK.ACQUIRE lock TOKEN holder PX 60000").at(1).int();
        let mut many = scene.line.join("LOCK.MACQUIRE 2 other lock TOKEN many WAIT 0");
        let line = &mut scene.line;
        evict(&mut scene.admin, policy, || line.count("lock_waiters") == 0 && line.count("locks_held") == 0);
        for (client, token, lease) in
            [(&mut scene.first, "waiter", 60_000), (&mut scene.second, "second", 30_000), (&mut many, "many", 30_000)]
        {
            let next = client.read().is((token, INT, lease)).at(1).int();
            assert!(next > fence, "{policy}: {next} after {fence}");
            fence = next;
            client.expect(format!("LOCK.RELEASE lock {token}"), 0);
        }
        scene.admin.expect("DBSIZE", 0);
        scene = Scene::set(&server);
    }
}

#[test]
fn a_request_for_many_keys_survives_what_happens_to_one_of_them() {
    let server = Server::start();
    let (mut line, mut admin) = (Line::at(&server), server.client());
    admin.expect("LOCK.MACQUIRE 3 a b c TOKEN holder", ANY);
    let mut many = line.join("LOCK.MACQUIRE 3 c b a TOKEN many WAIT 0");
    admin.expect("DEL b", 1);
    admin.expect("LOCK.ACQUIRE b TOKEN hasty", NULL);
    admin.expect("LOCK.MRELEASE holder 3 a b c", 2);
    many.read().is(("many", INT, 30_000));
    let mut next = line.join("LOCK.MACQUIRE 2 b c TOKEN next WAIT 0");
    admin.expect("SET b text", OK);
    next.read().is(err("WRONGTYPE"));
    assert_eq!(line.waiters("c"), [""; 0]);
    admin.expect("LOCK.MRELEASE many 2 a c", 2);
    admin.expect("KEYS *", items(["b"]));
}

#[test]
fn what_is_restored_and_moved_in_one_step_still_ends_on_time() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 2000", ANY);
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 2000", ANY);
    let dumps = ["lock", "sale"].map(|key| (key, client.cmd(["DUMP", key]).bytes()));
    for step in ["SWAPDB 0 1", "RENAME lock moved", "RENAME sale moved", "MOVE lock 1", "MOVE sale 1"] {
        client.expect("FLUSHALL", OK);
        let before = ["lock_lapses", "stock_lapses"]
            .map(|field| (field, server.info_int("lockstock", &format!("lockstock_{field}"))));
        client.expect("MULTI", OK);
        for (key, dump) in &dumps {
            client.expect([&b"RESTORE"[..], key.as_bytes(), b"0", dump], ANY);
        }
        client.expect(step, ANY);
        client.expect("EXEC", (OK, OK, ANY));
        for (field, lapses) in before {
            // Nobody touches a key meanwhile.
            eventually(&format!("{field} after {step}"), || {
                server.info_int("lockstock", &format!("lockstock_{field}")) == lapses + 1
            });
        }
    }
}

#[test]
fn another_value_at_a_free_key_ends_the_request_that_waits_for_more_than_this_key() {
    let server = Server::start();
    let (mut client, mut line) = (server.client(), Line::at(&server));
    client.expect("LOCK.ACQUIRE held TOKEN t EX 3600", ANY);
    let mut waiter = line.join("LOCK.MACQUIRE 2 free held TOKEN w WAIT 0");
    client.expect("SET free text", OK);
    waiter.read().is(err("WRONGTYPE"));
    client.expect("GET free", "text");
    client.expect("LOCK.RELEASE held t", 1);
}
