//! A panic while a file or a replica is written or read.

use harness::{ANY, Aof, INT, NULL, OK, Reply, Server, TEXT, err, eventually};

use super::site::Site;

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_a_file_is_written() {
    let server = Server::builder().aof("always").start();
    let mut site = Site::on(server);
    let status = |site: &Site, field: &str| site.server.info("persistence")[field].clone();
    // A file that lacks a lock or a sale must not take the place of one that has it.
    site.arm("saving a value");
    site.client.expect("BGSAVE", ANY);
    eventually("the file is given up", || status(&site, "rdb_last_bgsave_status") == "err");
    site.struck("saving a value");
    site.arm("");
    site.client.expect("BGSAVE", ANY);
    eventually("the next one is whole", || status(&site, "rdb_last_bgsave_status") == "ok");

    site.client.expect("CONFIG SET aof-use-rdb-preamble no", OK);
    site.arm("rewriting a value");
    site.client.expect("BGREWRITEAOF", ANY);
    eventually("the rewrite is given up", || status(&site, "aof_last_bgrewrite_status") == "err");
    site.arm("");
    site.client.expect("BGREWRITEAOF", ANY);
    eventually("the next one is whole", || status(&site, "aof_last_bgrewrite_status") == "ok");
    site.struck("rewriting a value");

    // What DUMP gives then is refused where it is restored.
    let whole = site.client.cmd("DUMP key").bytes();
    site.arm("saving a value");
    let broken = site.client.cmd("DUMP key").bytes();
    assert_ne!(whole, broken);
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &broken], err("ERR Bad data format"));
    site.arm("loading a value");
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &whole], err("ERR Bad data format"));
    site.client.expect([&b"RESTORE"[..], b"copy", b"0", &whole], OK);
    site.client.expect("LOCK.RELEASE copy first", 1);
    site.struck("loading a value");
    site.proves_whole();
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_a_replica_is_fed_or_a_file_is_read() {
    let mut site = Site::set();
    site.arm("saving a value");
    let replica = Server::builder().replica_of(&site.server).start();
    site.struck("saving a value");
    // The child that was to feed it failed; it asks again.
    site.arm("");
    replica.wait_in_sync(&site.server);
    assert_eq!(replica.digest(), site.server.digest());
    site.client.expect("LOCK.INFO key", ANY);

    // A file that cannot be read whole is not read at all.
    let mut other = Site::set();
    other.arm("loading a value");
    other.client.expect("DEBUG RELOAD", err("ERR"));
    other.struck("loading a value");
    other.client.expect("PING", Reply::Simple("PONG".into()));
    other.client.expect("LOCK.ACQUIRE new TOKEN t", (TEXT, INT, INT));
    site.proves_whole();
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_a_replica_applies_an_effect() {
    let server = Server::start();
    let replica = Server::builder().aof("always").replica_of(&server).start();
    replica.wait_in_sync(&server);
    replica.wait_for_rewrite();
    replica.expect(["LOCK.FAULT", "a command", "3"], (INT, INT));
    server.expect("LOCK.ACQUIRE lock TOKEN t EX 3600", ANY);
    server.expect("LOCK.ACQUIRE next TOKEN t EX 3600", ANY);
    replica.wait_in_sync(&server);
    assert!(replica.log().contains("is sending an error to its"), "it says so");
    // It lacks that one effect, and no other.
    replica.expect("LOCK.INFO lock", NULL);
    replica.expect("LOCK.INFO next", ANY);
    replica.promote();
    eventually("it tells its own replicas and its file what it has", || {
        Aof::of(&replica).commands.iter().any(|command| *command == "UNLINK lock")
    });
    replica.follow(&server);
    replica.wait_in_sync(&server);
    eventually("it has loaded everything anew", || replica.digest() == server.digest());
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_the_fence_clock_is_saved_or_loaded() {
    let mut site = Site::set();
    site.arm("saving the module's data");
    site.client.expect("BGSAVE", ANY);
    let done = || site.server.info_int("persistence", "rdb_bgsave_in_progress") == 0;
    eventually("the file is written or given up", done);
    let given_up = site.server.info("persistence")["rdb_last_bgsave_status"] == "err";
    // Redis 7.0 has no place in the file for it.
    assert_eq!(given_up, site.server.log().contains("lockstock: saving the module's data was given up"));
    assert!(given_up || site.server.version() < [7, 2, 0], "nothing was struck");
    site.arm("loading the module's data");
    site.client.cmd("DEBUG RELOAD");
    site.client.expect("PING", Reply::Simple("PONG".into()));
    site.client.expect("LOCK.INFO nothing", NULL);
}
