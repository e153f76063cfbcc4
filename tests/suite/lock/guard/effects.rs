//! Replicas and files get what a guarded command did, and nothing of the guard.

use std::thread;

use harness::{ANY, Aof, INT, NULL, OK, Reply, Server, Stage, Words, err, eventually, unix_ms};

use super::held;

/// Times as `T` and ids of stream entries as `I`, after a look whether they are of now.
fn readable(mut words: Words) -> String {
    for word in &mut words.0 {
        let text = String::from_utf8_lossy(word).into_owned();
        let near = |time: i64| (unix_ms() - 60_000..unix_ms() + 4_000_000).contains(&time);
        if text.parse().is_ok_and(near) {
            *word = b"T".to_vec();
        }
        if text.split_once('-').is_some_and(|(time, _)| time.parse().is_ok_and(near)) {
            *word = b"I".to_vec();
        }
    }
    if words.name() == "UNLINK" {
        words.0[0] = b"DEL".to_vec();
    }
    format!("{words:?}")
}

#[test]
fn each_effect_is_told_once_and_absolute() {
    let mut stage = Stage::set(readable);
    let mut client = held(&stage.server);
    stage.told();
    for (command, effects) in [
        ("SET k v", &["SET k v"][..]),
        ("SET k v EX 1000", &["SET k v PXAT T"]),
        ("EXPIRE k 2000", &["PEXPIREAT k T"]),
        ("GETDEL k", &["DEL k"]),
        ("GETDEL k", &[]),
        ("GET k", &[]),
        ("INCRBYFLOAT f 1.5", &["SET f 1.5 KEEPTTL"]),
        ("XADD stream * f v", &["XADD stream I f v"]),
        ("SADD set one", &["SADD set one"]),
        ("SPOP set", &["SREM set one"]),
        ("LPUSH f x", &[]),
        ("NO-SUCH", &[]),
        ("STOCK.CREATE sale 5", &["STOCK.CREATE sale 5"]),
        ("STOCK.DECR_ONCE sale ann", &["STOCK.DECR_ONCE sale ann"]),
        ("LOCK.EXTEND lock t PX 3600000", &["LOCK.APPLY lock HELD t"]),
        ("LOCK.RELEASE lock t", &["LOCK.RELEASE lock t"]),
        ("SET k late", &[]),
    ] {
        client.cmd(format!("LOCK.GUARD lock t {command}"));
        let told = stage.told();
        assert_eq!(told.len(), effects.len(), "{command}: {told:?}");
        for (told, effect) in told.iter().zip(effects) {
            assert!(told.starts_with(effect), "{command}: {told}");
        }
    }
}

#[test]
fn in_a_transaction_or_a_script_it_stays_within() {
    let mut stage = Stage::set(readable);
    let mut client = held(&stage.server);
    stage.told();
    client.pipeline(["MULTI", "SET a 1", "LOCK.GUARD lock t INCR b", "LOCK.GUARD lock u INCR b", "EXEC"])[4]
        .at(2)
        .clone()
        .is(err("NOTHELD"));
    stage.tells(&["MULTI", "SET a 1", "INCR b", "EXEC"]);
    let script = "redis.call('LOCK.GUARD', KEYS[1], 't', 'PING') redis.call('INCR', KEYS[2]) return redis.call('LOCK.GUARD', KEYS[1], 't', 'INCR', KEYS[3])";
    client.expect(["EVAL", script, "3", "lock", "a", "b"], 2);
    stage.tells(&["MULTI", "INCR a", "INCR b", "EXEC"]);
    client.expect(["EVAL", script, "3", "free", "a", "b"], err("NOTHELD"));
    stage.tells(&[]);
}

#[test]
fn random_commands_and_relative_times_are_the_same_on_replicas_and_after_a_restart() {
    let mut primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    let chained = Server::builder().replica_of(&replica).start();
    let mut client = held(&primary);
    for number in 0..200 {
        client.expect(format!("SADD set m{number}"), 1);
        client.expect(format!("ZADD sorted {number} m{number}"), 1);
        client.expect(format!("HSET hash f{number} v"), 1);
    }
    for number in 0..50 {
        for command in [
            "SPOP set 2",
            "SPOP set",
            "XADD stream * f v",
            "XADD stream MAXLEN ~ 20 * f v",
            "ZPOPMIN sorted",
            "INCRBYFLOAT float 0.1",
            "HINCRBYFLOAT hash n 0.1",
            "PEXPIRE set 3600000",
            "SET string v PX 3600000",
            "GETEX string EX 3600",
            "RESTORE copy 0 x",
            "SORT set BY nosort STORE sorted-copy",
            "LMOVE none other LEFT LEFT",
            "SRANDMEMBER set 3",
            "HRANDFIELD hash 2",
        ] {
            client.cmd(format!("LOCK.GUARD lock t {command}"));
        }
        client.cmd(format!("LOCK.GUARD lock t SET k{number} v EX 3600"));
        client.cmd(format!("LOCK.GUARD lock t GETDEL k{}", number / 2));
    }
    replica.wait_in_sync(&primary);
    chained.wait_in_sync(&replica);
    let digest = primary.digest();
    assert_eq!([replica.digest(), chained.digest()], [digest.clone(), digest.clone()]);
    primary.kill9();
    primary.start_again();
    assert_eq!(primary.digest(), digest);
}

#[test]
fn the_rest_of_the_server_sees_the_command_as_if_it_had_come_by_itself() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let mut client = held(&server);
    let mut listener = server.client();
    listener.expect("SUBSCRIBE __keyevent@0__:set", ANY);
    client.expect("LOCK.GUARD lock t SET k v", OK);
    listener.read().is(("message", "__keyevent@0__:set", "k"));
    let calls = |command: &str| {
        let stats = server.info("commandstats");
        let line = stats.get(&format!("cmdstat_{command}")).cloned().unwrap_or_default();
        line.split(&['=', ','][..]).nth(1).and_then(|calls| calls.parse::<i64>().ok()).unwrap_or(0)
    };
    // Both are counted, each as itself.
    assert_eq!((calls("lock.guard"), calls("set")), (1, 1));
    client.expect("LOCK.GUARD lock t LPUSH k x", err("WRONGTYPE"));
    client.expect("LOCK.GUARD lock u GET k", err("NOTHELD"));
    assert_eq!((calls("lock.guard"), calls("lpush"), calls("get")), (3, 1, 0));
    let errors = server.info("errorstats");
    assert_eq!(errors.get("errorstat_WRONGTYPE").map(String::as_str), Some("count=1"));
    assert_eq!(errors.get("errorstat_NOTHELD").map(String::as_str), Some("count=1"));
    // A client that tracks what it has written or read is told.
    let mut tracker = server.client();
    tracker.hello3();
    tracker.expect("CLIENT TRACKING on BCAST PREFIX k", OK);
    client.expect("LOCK.GUARD lock t SET k w", OK);
    tracker.read().is(("invalidate", ("k",)));
    if server.is_valkey() || server.version() >= [7, 2, 0] {
        let mut reader = server.client();
        reader.hello3();
        reader.expect("CLIENT TRACKING on", OK);
        reader.expect("LOCK.GUARD lock t GET k", "w");
        client.expect("SET k x", OK);
        reader.read().is(("invalidate", ("k",)));
    }
}

#[test]
fn a_power_cut_in_the_middle_of_many_leaves_whole_commands() {
    let mut server = Server::builder().aof("always").start();
    let mut client = held(&server);
    let fence = client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ("t", INT, INT)).at(1).int();
    let mut done = 0;
    let call = Words::from("LOCK.GUARD lock t MSET a x b x");
    client.try_send(&vec![call; 2_000]).expect("sent");
    while done < 500 {
        client.read().is(OK);
        done += 1;
    }
    server.kill9();
    server.start_again();
    let mut client = server.client();
    client.expect("MGET a b", ("x", "x"));
    client.expect(format!("LOCK.GUARD lock t FENCE {fence} GET a"), "x");
    client.expect("LOCK.GUARD lock t GET none", NULL);
    assert_eq!(client.cmd("DBSIZE"), Reply::Int(3));
}

/// Commands with a random, relative or generated outcome, each guarded.
fn chances(round: usize) -> Vec<Words> {
    let commands = [
        "INCR rounds".into(),
        format!("SADD set a{round} b{round} c{round}"),
        "SPOP set".into(),
        "SPOP set 2".into(),
        format!("SET k{} v", round % 7),
        format!("EXPIRE k{} 1000", round % 7),
        format!("GETDEL k{}", round % 5),
        "XADD stream MAXLEN 50 * f v".into(),
    ];
    commands.iter().map(|command| format!("LOCK.GUARD lock t {command}").into()).collect()
}

/// All data, and when keys expire, which the digest leaves out.
fn state(server: &Server) -> (String, Vec<Reply>) {
    let times = (0..7).map(|key| server.cmd(format!("PEXPIRETIME k{key}"))).collect();
    (server.digest(), times)
}

#[test]
fn a_replica_that_is_promoted_in_the_middle_has_what_its_primary_had_by_then() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = held(&primary);
    replica.wait_in_sync(&primary);
    thread::scope(|scope| {
        let promotion = scope.spawn(|| {
            eventually(
                "the replica is in the middle",
                || matches!(replica.cmd("GET rounds"), Reply::Bulk(rounds) if rounds.len() > 1),
            );
            replica.promote();
        });
        let mut rounds = 0..;
        let mut play = || {
            let round = rounds.next().expect("a number");
            client.pipeline(chances(round)).iter().for_each(|reply| assert!(!reply.is_error(), "{reply:?}"));
        };
        while !promotion.is_finished() {
            play();
        }
        play();
    });
    // The same history, command by command, on a server that decides nothing.
    let history = Aof::of(&primary).commands;
    let (judge, wanted) = (Server::start(), state(&replica));
    judge.take_effects();
    let mut line = judge.client();
    let mut same = history.iter().map(|effect| {
        let reply = line.cmd(effect);
        assert!(!reply.is_error(), "{effect:?}: {reply:?}");
        state(&judge) == wanted
    });
    assert!(same.any(|same| same), "the replica has what the primary never had");
    assert!(same.next().is_some(), "the primary went on");
    // The new primary goes on by itself.
    replica.expect("LOCK.GUARD lock t INCR rounds", INT);
    replica.expect("LOCK.GUARD lock u INCR rounds", err("NOTHELD"));
}

#[test]
fn the_slow_log_has_the_guard_of_its_client_and_the_command_of_nobody() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("CLIENT SETNAME ann", OK);
    client.expect("CONFIG SET slowlog-log-slower-than 0", OK);
    client.expect("SLOWLOG RESET", OK);
    client.expect("LOCK.GUARD lock t SET k v", OK);
    client.expect("LOCK.GUARD lock u SET k late", err("NOTHELD"));
    client.expect("LOCK.GUARD lock t LPUSH k x", err("WRONGTYPE"));
    client.expect("CONFIG SET slowlog-log-slower-than -1", OK);
    let log = client.cmd("SLOWLOG GET -1");
    let mut entries: Vec<(String, String)> = log
        .items()
        .iter()
        .map(|entry| {
            let words: Vec<String> = entry.at(3).items().iter().map(Reply::text).collect();
            (words.join(" "), entry.at(5).text())
        })
        .filter(|(words, _)| words != "SLOWLOG RESET")
        .collect();
    entries.reverse();
    let wants = [
        ("SET k v", ""),
        ("LOCK.GUARD lock t SET k v", "ann"),
        ("LOCK.GUARD lock u SET k late", "ann"),
        ("LPUSH k x", ""),
        ("LOCK.GUARD lock t LPUSH k x", "ann"),
    ];
    assert_eq!(entries, wants.map(|(words, name)| (words.into(), name.into())));
}
