//! `LOCK.GUARD`: a command that runs only while a token holds a lock.

mod as_if_sent;
mod cluster;
mod effects;
mod ours;
mod rights;

use harness::{ANY, Client, Cluster, INT, NULL, OK, Reply, Server, err, eventually};

use crate::support::line::Line;

/// A client, and the lock "lock" held by "t" for longer than the test.
#[track_caller]
fn held(server: &Server) -> Client {
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ("t", INT, INT));
    client
}

#[test]
fn the_command_runs_while_the_token_holds_the_lock_in_any_mode() {
    let server = Server::start();
    let (mut client, mut line) = (server.client(), Line::at(&server));
    for mode in ["", "SHARED", "LIMIT 2", "SESSION"] {
        let fence = client.expect(format!("LOCK.ACQUIRE lock TOKEN t {mode}"), ("t", INT, INT)).at(1).int();
        client.expect("LOCK.GUARD lock t SET k v", OK);
        client.expect(format!("lock.guard lock t fence {fence} get k"), "v");
        client.expect(format!("LOCK.GUARD lock t FENCE {} SET k late", fence - 1), err("NOTHELD"));
        client.expect("LOCK.GUARD lock u SET k late", err("NOTHELD"));
        client.expect("LOCK.GUARD free t SET k late", err("NOTHELD"));
        client.expect("GET k", "v");
        let lease = line.leases("lock")[0];
        assert!(lease <= 30_000, "a guard extends nothing: {lease}");
        client.expect("LOCK.RELEASE lock t", 1);
        client.expect("LOCK.GUARD lock t SET k late", err("NOTHELD"));
        client.expect("DEL k", 1);
    }
    assert_eq!((line.count("lock_guards"), line.count("lock_guards_refused")), (8, 16));
    client.expect("DBSIZE", 0);
}

#[test]
fn a_hold_of_a_request_for_several_locks_will_do() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.MACQUIRE 2 a b TOKEN t", ANY);
    client.expect("LOCK.GUARD b t SET k v", OK);
    client.expect("LOCK.RELEASE b t", 1);
    client.expect("LOCK.GUARD b t SET k late", err("NOTHELD"));
    client.expect("LOCK.GUARD a t INCR n", 1);
}

#[test]
fn a_lease_that_is_over_by_the_clock_does_not_count_though_no_timer_has_come_round() {
    let server = Server::start();
    let mut client = held(&server);
    // Nothing else runs between the commands of a transaction.
    let replies = client.pipeline([
        "MULTI",
        "LOCK.GUARD lock t SET k in-time",
        "LOCK.EXTEND lock t PX 1",
        "DEBUG SLEEP 0.02",
        "EXISTS lock",
        "LOCK.GUARD lock t SET k late",
        "LOCK.GUARD lock t DEL lock",
        "EXEC",
    ]);
    let wants = [OK, 1.into(), OK, 1.into(), err("NOTHELD"), err("NOTHELD")];
    for (reply, want) in replies[7].items().iter().zip(wants) {
        reply.clone().is(want);
    }
    client.expect("GET k", "in-time");
}

#[test]
fn a_hold_that_ended_with_its_connection_does_not_count() {
    let server = Server::start();
    let (mut tied, mut client) = (server.client(), server.client());
    tied.expect("LOCK.ACQUIRE lock TOKEN t SESSION PX 3600000", ANY);
    client.expect("LOCK.GUARD lock t INCR n", 1);
    let id = tied.id();
    // In one step: the session's end is known and nothing was done about it yet.
    let replies = client.pipeline([
        "MULTI".into(),
        format!("CLIENT KILL ID {id}"),
        "LOCK.GUARD lock t INCR n".into(),
        "EXEC".into(),
    ]);
    replies[3].at(1).clone().is(err("NOTHELD"));
    client.expect("GET n", "1");
}

#[test]
fn bad_arguments_and_other_values_run_nothing() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("SET text x", OK);
    client.expect("STOCK.CREATE sale 5", OK);
    let long = "x".repeat(513);
    for (call, error) in [
        ("LOCK.GUARD lock t", "ERR wrong number of arguments for 'lock.guard' command"),
        ("LOCK.GUARD lock t FENCE", "ERR syntax error"),
        ("LOCK.GUARD lock t FENCE 5", "ERR syntax error: LOCK.GUARD needs a command"),
        ("LOCK.GUARD lock t FENCE 0 SET k v", "ERR FENCE must be an integer from 1 to 9007199254740991"),
        ("LOCK.GUARD lock t FENCE 9007199254740992 SET k v", "ERR FENCE must be an integer from 1 to 9007199254740991"),
        ("LOCK.GUARD lock t FENCE x SET k v", "ERR FENCE must be an integer"),
        ("LOCK.GUARD text t SET k v", "WRONGTYPE"),
        ("LOCK.GUARD sale t SET k v", "WRONGTYPE"),
        (&format!("LOCK.GUARD lock {long} SET k v"), "ERR token must be a string of 1 to 512 bytes"),
    ] {
        client.expect(call, err(error));
    }
    client.expect(["LOCK.GUARD", "lock", "", "SET", "k", "v"], err("ERR token must be a string"));
    client.expect("EXISTS k", 0);
    assert_eq!(Line::at(&server).count("lock_guards_refused"), 0);
}

/// What is never run for a guard.
const REFUSED: [&str; 22] = [
    "SELECT 1",
    "sElEcT 1",
    "LOCK.GUARD lock t SET k v",
    "lock.guard lock t FENCE 5 SET k v",
    "EVAL return(redis.call('SET','k','v')) 0",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "EVAL_RO return(1) 0",
    "EVALSHA_RO 0000000000000000000000000000000000000000 0",
    "FCALL f 0",
    "FCALL_RO f 0",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH k",
    "SUBSCRIBE channel",
    "PSUBSCRIBE *",
    "AUTH any",
    "HELLO 3",
    "RESET",
    "CLIENT REPLY OFF",
    "MONITOR",
    "CONFIG SET maxmemory 1",
];

#[test]
fn what_scripts_may_not_run_and_what_would_call_itself_is_refused() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = held(&server);
    let refused = "ERR LOCK.GUARD runs neither SELECT nor another LOCK.GUARD";
    for command in REFUSED {
        client.expect(format!("LOCK.GUARD lock t {command}"), err(refused));
        client.expect("PING", ANY);
    }
    // Nor by way of another module.
    client.expect("LOCK.GUARD lock t LISTENER.CALL SET k v", OK);
    client.expect("LOCK.GUARD lock t LISTENER.CALL LOCK.GUARD lock t SET k late", err(refused));
    client.expect("LISTENER.CALL LOCK.GUARD lock t GET k", "v");
    // Twenty thousand in each other are refused, and their keys are not looked for.
    let mut words = ["LOCK.GUARD", "lock", "t"].repeat(20_000);
    words.push("PING");
    client.expect(&words, err(refused));
    words.splice(0..0, ["COMMAND", "GETKEYS"]);
    client.expect(&words, ("lock", "lock"));
    client.expect("GET k", "v");
    assert_eq!(Line::at(&server).count("lock_guards"), 3);
}

#[test]
fn what_could_block_behaves_as_in_a_transaction() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("RPUSH list x", 1);
    client.expect("XADD stream 1-1 f v", ANY);
    // Redis 7.0 lets no script run some of these.
    let old = err("ERR LOCK.GUARD");
    for (command, want) in [
        ("BLPOP list 0", ANY),
        ("BLPOP none 0", NULL),
        ("BRPOP none 0", NULL),
        ("BLMOVE none other LEFT LEFT 0", NULL),
        ("BRPOPLPUSH none other 0", NULL),
        ("BZPOPMIN none 0", NULL),
        ("BLMPOP 0 1 none LEFT", NULL),
        ("XREAD BLOCK 0 STREAMS stream 1-1", NULL),
        ("WAIT 5 0", 0.into()),
        ("LOCK.ACQUIRE other TOKEN t WAIT 0", ("t", INT, INT).into()),
        ("LOCK.ACQUIRE lock TOKEN u WAIT 0", NULL),
        ("LOCK.MACQUIRE 2 lock more TOKEN u WAIT 0", NULL),
    ] {
        let reply = client.cmd(format!("LOCK.GUARD lock t {command}"));
        assert!(want.fits(&reply) || old.fits(&reply), "{command}: {reply:?}");
        let may_be_old = (command.starts_with('B') || command.starts_with("WAIT"))
            && server.version() < [7, 2, 0]
            && !server.is_valkey();
        assert!(want.fits(&reply) || may_be_old, "{command}: {reply:?}");
    }
    assert_eq!(Line::at(&server).count("lock_waiters"), 0);
}

#[test]
fn a_script_or_function_may_begin_with_it() {
    let server = Server::start();
    let mut client = held(&server);
    let body = "redis.call('LOCK.GUARD', KEYS[1], ARGV[1], 'PING') redis.call('SET', KEYS[2], 'v') return redis.call('LOCK.GUARD', KEYS[1], ARGV[1], 'STRLEN', KEYS[2])";
    client.expect(["EVAL", body, "2", "lock", "k", "t"], 1);
    client.expect("DEL k", 1);
    client.expect(["EVAL", body, "2", "lock", "k", "u"], err("NOTHELD"));
    client.expect("EXISTS k", 0);
    let function = format!("#!lua name=lib\nredis.register_function('f', function(KEYS, ARGV) {body} end)");
    client.expect(["FUNCTION", "LOAD", &function], "lib");
    client.expect("FCALL f 2 lock k t", 1);
    client.expect("DEL k", 1);
    client.expect("FCALL f 2 lock k u", err("NOTHELD"));
    client.expect("EXISTS k", 0);
    // A script in a script is refused there, too, and the server lives.
    let nested = "return redis.pcall('LOCK.GUARD', KEYS[1], 't', 'EVAL', 'return 1', 0)";
    client.expect(["EVAL", nested, "1", "lock"], err("ERR LOCK.GUARD"));
    // A script that says that it does not write may not guard.
    client.expect(["EVAL_RO", "return redis.call('LOCK.GUARD', KEYS[1], 't', 'GET', 'k')", "1", "lock"], err("ERR"));
}

#[test]
fn in_a_transaction_each_guard_decides_by_itself() {
    let server = Server::start();
    let mut client = held(&server);
    let replies = client.pipeline([
        "MULTI",
        "LOCK.GUARD lock t SET k v",
        "LOCK.GUARD lock u SET k late",
        "LOCK.RELEASE lock t",
        "LOCK.GUARD lock t SET k late",
        "LOCK.ACQUIRE lock TOKEN u",
        "LOCK.GUARD lock u APPEND k w",
        "EXEC",
    ]);
    let wants = [OK, err("NOTHELD"), 1.into(), err("NOTHELD"), ANY, 2.into()];
    for (reply, want) in replies[7].items().iter().zip(wants) {
        reply.clone().is(want);
    }
    // It writes what it says, so it ends a watch of that; reading the lock is no change of it.
    let mut other = server.client();
    for (guarded, done) in [("SET k x", false), ("GET k", true)] {
        client.expect("WATCH k lock", OK);
        other.expect(format!("LOCK.GUARD lock u {guarded}"), ANY);
        let replies = client.pipeline(["MULTI", "PING", "EXEC"]);
        assert_eq!(matches!(replies[2], Reply::Nil(_)), !done, "{guarded}");
    }
}

#[test]
fn it_waits_while_writes_are_paused_and_is_refused_by_a_replica() {
    let server = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&server).start();
    let mut client = held(&server);
    replica.wait_in_sync(&server);
    replica.expect("LOCK.GUARD lock t SET k v", err("READONLY"));
    replica.expect("LOCK.GUARD lock t GET k", err("READONLY"));
    server.expect("CLIENT PAUSE 60000 WRITE", OK);
    client.send("LOCK.GUARD lock t SET k v");
    assert_eq!(client.try_read(std::time::Duration::from_millis(50)), None);
    server.expect("GET k", NULL);
    server.expect("CLIENT UNPAUSE", OK);
    client.read().is(OK);
    // Promoted, it decides.
    replica.wait_in_sync(&server);
    replica.promote();
    eventually("the replica decides", || replica.cmd("LOCK.GUARD lock t GET k") == Reply::Bulk("v".into()));
    replica.expect("LOCK.GUARD lock u GET k", err("NOTHELD"));
}

#[test]
fn memory_that_is_out_refuses_what_needs_some() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("SET k v", OK);
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect("SET k w", err("OOM"));
    client.expect("LOCK.GUARD lock t SET k w", err("OOM"));
    client.expect("LOCK.GUARD lock t LOCK.ACQUIRE other", err("OOM"));
    client.expect("LOCK.GUARD lock t GET k", "v");
    client.expect("LOCK.GUARD lock t DEL k", 1);
    client.expect("LOCK.GUARD lock t LOCK.RELEASE lock t", 1);
    assert_eq!(Line::at(&server).count("lock_guards"), 3);
}

/// No server tells a module the keys of MSETEX.
#[test]
fn in_a_cluster_a_command_whose_keys_cannot_be_checked_is_refused() {
    let cluster = Cluster::start(1);
    let mut client = cluster.node(0).client();
    client.expect("LOCK.ACQUIRE {t}lock TOKEN t", ANY);
    client.expect("LOCK.GUARD {t}lock t MSETEX 1 {t}k v", err("ERR LOCK.GUARD cannot check"));
    client.expect("LOCK.GUARD {t}lock t MSET {t}k v", OK);
}
