//! A fence is never given twice and never goes back, whatever happens to the data in between.

use harness::{ANY, Client, OK, Reply, Server, Tap, eventually, unix_ms};

/// The largest number that a fence may be.
const LARGEST: i64 = (1 << 53) - 1;

/// Every fence seen so far was lower than the next one.
struct Ladder {
    last: i64,
}

impl Ladder {
    /// Grants a few locks on `server` and releases them again.
    #[track_caller]
    fn climb(&mut self, server: &Server) {
        let mut client = server.client();
        for lock in ["lock", "other", "lock"] {
            self.step(&client.cmd(["LOCK.ACQUIRE", lock, "TOKEN", "t"]));
            client.expect(["LOCK.RELEASE", lock, "t"], 1);
        }
    }

    #[track_caller]
    fn step(&mut self, grant: &Reply) {
        let fence = grant.at(1).int();
        assert!(fence > self.last && fence <= LARGEST, "fence {fence} after {}", self.last);
        self.last = fence;
    }

    /// Grants and releases as fast as the server goes.
    #[track_caller]
    fn race(&mut self, client: &mut Client) {
        for _ in 0..10 {
            let pair = ["LOCK.ACQUIRE lock TOKEN t", "LOCK.RELEASE lock t"];
            let replies = client.pipeline(pair.into_iter().cycle().take(1_000));
            replies.iter().step_by(2).for_each(|grant| self.step(grant));
        }
    }
}

/// Whether an RDB file of `server` can hold more than keys: Redis 7.0 has only a way that would make every file depend on the module.
fn saves_the_counter(server: &Server) -> bool {
    server.is_valkey() || server.version() >= [7, 2, 0]
}

/// Has `server` give fences that are ahead of the clock by an hour, as after its clock was set back.
#[track_caller]
fn set_the_clock_back(server: &Server, ladder: &mut Ladder) {
    let ahead = (unix_ms() + 3_600_000) * 1_000;
    server.take_effects();
    server.expect(format!("LOCK.APPLY ahead HELD t {ahead} {}", unix_ms() + 3_600_000), OK);
    server.expect("LOCK.RELEASE ahead t", 1);
    ladder.last = ladder.last.max(ahead);
    ladder.climb(server);
}

#[test]
fn across_release_expiry_deletion_and_flush() {
    let server = Server::start();
    let mut ladder = Ladder { last: (unix_ms() - 1) * 1_000 };
    // With the clock as it is, and with one that is behind all fences given so far.
    for clock_set_back in [false, true] {
        if clock_set_back {
            set_the_clock_back(&server, &mut ladder);
        }
        ladder.climb(&server);
        ladder.step(&server.cmd("LOCK.ACQUIRE lock TOKEN t PX 1"));
        eventually("the lease is over", || server.cmd("DBSIZE").int() == 0);
        ladder.climb(&server);
        for command in
            ["DEL lock", "UNLINK lock", "FLUSHALL SYNC", "FLUSHALL ASYNC", "FLUSHDB", "SWAPDB 0 1", "SET lock x"]
        {
            ladder.step(&server.cmd("LOCK.ACQUIRE lock TOKEN t"));
            server.expect(command, ANY);
            server.expect("FLUSHALL", OK);
            ladder.climb(&server);
        }
        ladder.step(&server.cmd("LOCK.ACQUIRE lock TOKEN t"));
        server.expect("DEBUG RELOAD", OK);
        server.expect("LOCK.RELEASE lock t", 1);
        ladder.climb(&server);
    }
}

#[test]
fn across_a_restart_from_an_rdb_file_old_or_new() {
    let mut server = Server::start();
    let mut ladder = Ladder { last: 0 };
    ladder.race(&mut server.client());
    server.expect("SAVE", OK);
    // All of these are lost.
    ladder.race(&mut server.client());
    server.kill9();
    server.start_again();
    ladder.climb(&server);

    set_the_clock_back(&server, &mut ladder);
    ladder.step(&server.cmd("LOCK.ACQUIRE held TOKEN t EX 3600"));
    server.restart();
    ladder.climb(&server);
    if saves_the_counter(&server) {
        // The newest fence is that of a lock that is free, and then there is no lock at all.
        server.save_in_background();
        server.kill9();
        server.start_again();
        ladder.climb(&server);
        server.expect("DEL held", 1);
        server.restart();
        ladder.climb(&server);
    }
}

#[test]
fn across_a_power_cut_with_an_append_only_file() {
    let mut server = Server::builder().aof("always").start();
    let mut ladder = Ladder { last: 0 };
    for rewrite in [None, Some(true), Some(false)] {
        ladder.race(&mut server.client());
        if let Some(preamble) = rewrite {
            server.rewrite_aof(preamble);
        }
        server.kill9();
        server.start_again();
        ladder.climb(&server);
    }
    set_the_clock_back(&server, &mut ladder);
    server.kill9();
    server.start_again();
    ladder.climb(&server);
    if saves_the_counter(&server) {
        server.rewrite_aof(true);
        server.kill9();
        server.start_again();
        ladder.climb(&server);
    }
    // A file of commands has what goes with a lock or a sale that is there.
    for (make, unmake) in [("LOCK.ACQUIRE held TOKEN t EX 3600", "DEL held"), ("STOCK.CREATE sale 5", "DEL sale")] {
        server.expect(make, ANY);
        ladder.climb(&server);
        server.rewrite_aof(false);
        server.kill9();
        server.start_again();
        server.expect(unmake, 1);
        ladder.climb(&server);
    }
}

#[test]
fn across_a_failover() {
    let mut primary = Server::start();
    let mut ladder = Ladder { last: 0 };
    if saves_the_counter(&primary) {
        set_the_clock_back(&primary, &mut ladder);
    }
    ladder.race(&mut primary.client());
    // What was given before the replica came, and then what it heard of.
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    replica.promote();
    ladder.climb(&replica);

    primary.follow(&replica);
    primary.wait_in_sync(&replica);
    set_the_clock_back(&replica, &mut ladder);
    primary.wait_in_sync(&replica);
    primary.promote();
    ladder.climb(&primary);
    primary.kill9();
}

#[test]
fn of_a_key_that_came_with_a_payload_are_passed() {
    let server = Server::start();
    let mut ladder = Ladder { last: 0 };
    set_the_clock_back(&server, &mut ladder);
    ladder.step(&server.cmd("LOCK.ACQUIRE lock TOKEN t"));
    let payload = server.cmd("DUMP lock").bytes();

    // Deleted in the same turn of the event loop, before anything of the module had a look at it.
    let other = Server::start();
    let mut client = other.client();
    let restore = [&b"RESTORE"[..], b"lock", b"0", &payload].into();
    let replies = client.pipeline([restore, "DEL lock".into(), harness::Words::from("LOCK.ACQUIRE lock TOKEN t")]);
    ladder.step(&replies[2]);
}

#[test]
fn are_the_same_on_every_replica_and_told_in_full() {
    let primary = Server::start();
    let mut tap = Tap::attach(&primary);
    let grant = primary.cmd("LOCK.ACQUIRE lock TOKEN t PX 60000");
    let told = tap.drain();
    assert_eq!(told[0].0[4], grant.at(1).int().to_string().as_bytes(), "{told:?}");
}
