//! What replicas and the append-only file are told: effects, each once, with absolute times, and nothing else.
//!
//! The append-only file gets the same commands as the replicas; every story here compares the two.

use harness::{ANY, Client, INT, NULL, Nil, OK, Reply, Server, Stage, TEXT, Tap, Words, err, eventually, unix_ms};

/// Far beyond the end of every test.
const LATER: i64 = 3_600_000;

/// Fences as `F` and ends of leases as `D`; both are checked for being what they should be before they are replaced.
#[track_caller]
fn readable(mut words: Words) -> String {
    if words.name() == "LOCK.APPLY"
        && let Some(held) = words.0.iter().position(|word| word == b"HELD")
    {
        let number = |word: &[u8]| -> i64 { String::from_utf8_lossy(word).parse().expect("a number") };
        let (fence, deadline) = (number(&words.0[held + 2]), number(&words.0[held + 3]));
        let now = unix_ms();
        assert!((now - 60_000..now + 60_000).contains(&(fence / 1_000)), "{words:?}");
        assert!((now - 60_000..now + 2 * LATER).contains(&deadline), "{words:?}");
        words.0[held + 2] = b"F".to_vec();
        words.0[held + 3] = b"D".to_vec();
    }
    if words.name() == "UNLINK" {
        // Valkey frees in the background by default, and says so.
        words.0[0] = b"DEL".to_vec();
    }
    format!("{words:?}")
}

#[test]
fn of_every_way_to_be_granted_a_lock() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    for (request, effect) in [
        ("a TOKEN t", "a HELD t F D"),
        ("a TOKEN t EX 60", "a HELD t F D"),
        ("a TOKEN t SESSION", "a HELD t F D"),
        ("a TOKEN t SHARED", "a HELD t F D SHARED"),
        ("a TOKEN t", "a HELD t F D"),
        ("s TOKEN r1 SHARED", "s HELD r1 F D SHARED"),
        ("s TOKEN r2 SHARED WAIT 1000", "s HELD r2 F D SHARED"),
        ("l TOKEN p LIMIT 3", "l HELD p F D LIMIT 3"),
        ("l TOKEN q LIMIT 7 SESSION PX 60000", "l HELD q F D LIMIT 7"),
        ("l TOKEN p LIMIT 4", "l HELD p F D LIMIT 4"),
    ] {
        client.expect(format!("LOCK.ACQUIRE {request}"), (TEXT, INT, INT));
        stage.tells(&[&format!("LOCK.APPLY {effect}")]);
    }
    client.expect("LOCK.EXTEND a t EX 10", 1);
    client.expect("LOCK.EXTEND s r1 EX 10", 1);
    client.expect("LOCK.EXTEND l q EX 10", 1);
    let all = ["LOCK.APPLY a HELD t F D", "LOCK.APPLY s HELD r1 F D SHARED", "LOCK.APPLY l HELD q F D LIMIT 7"];
    stage.tells(&all);
    client.expect("LOCK.EXTEND a t", 1);
    stage.tells(&all[..1]);
}

#[test]
fn of_several_locks_together() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE b TOKEN other", ANY);
    let mut waiter = stage.waiter("LOCK.MACQUIRE 3 a b a TOKEN t WAIT 0");
    stage.tells(&["LOCK.APPLY b HELD other F D"]);
    client.expect("LOCK.RELEASE b other", 1);
    let fence = waiter.read().is(("t", INT, 30_000)).at(1).int();
    stage.tells(&["MULTI", "LOCK.APPLY b ENDED other", "LOCK.APPLY a HELD t F D", "LOCK.APPLY b HELD t F D", "EXEC"]);
    assert_eq!(["a", "b"].map(|lock| crate::support::scene::holds(&stage.server, lock)["t"]), [fence, fence]);
    client.expect("LOCK.MACQUIRE 2 b c TOKEN other", NULL);
    stage.tells(&[]);
    client.expect("LOCK.MEXTEND t 3 b a b PX 60000", 1);
    stage.tells(&["MULTI", "LOCK.APPLY a HELD t F D", "LOCK.APPLY b HELD t F D", "EXEC"]);
    client.expect("LOCK.MEXTEND t 3 a b c PX 60000", 0);
    stage.tells(&[]);
    client.expect("LOCK.MRELEASE t 3 a b c", 2);
    stage.tells(&["LOCK.MRELEASE t 3 a b c"]);
    client.expect("LOCK.MRELEASE t 3 a b c", 0);
    stage.tells(&[]);
}

#[test]
fn the_numbers_are_those_of_the_reply() {
    let mut stage = Stage::set(readable);
    let before = unix_ms();
    let grant = stage.server.cmd("LOCK.ACQUIRE lock TOKEN t PX 5000");
    let after = unix_ms();
    let told = stage.tap.drain().remove(0);
    let number = |index: usize| -> i64 { String::from_utf8_lossy(&told.0[index]).parse().unwrap() };
    assert_eq!(number(4), grant.at(1).int());
    assert!((before + 5_000..=after + 5_000).contains(&number(5)), "{told:?} between {before} and {after}");
}

#[test]
fn raw_bytes_are_told_as_they_are() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    let raw = crate::support::scene::RAW;
    client.expect([b"LOCK.ACQUIRE", raw, b"TOKEN", raw], ANY);
    let grant = client.cmd("LOCK.ACQUIRE random");
    let told = stage.tap.drain();
    assert_eq!(told[0].0[..4], [b"LOCK.APPLY", raw, b"HELD", raw]);
    assert_eq!(told[1].0[3], grant.at(0).bytes(), "the token that the server made");
}

#[test]
fn nothing_of_a_refusal() {
    let mut stage = Stage::set(readable);
    stage.server.take_effects();
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect("LOCK.ACQUIRE shared TOKEN a SHARED", ANY);
    client.expect("LOCK.ACQUIRE shared TOKEN b SHARED", ANY);
    client.expect("SET string x", OK);
    stage.told();
    for (refused, answer) in [
        ("LOCK.ACQUIRE lock TOKEN other", NULL),
        ("LOCK.ACQUIRE lock TOKEN other SHARED", NULL),
        ("LOCK.ACQUIRE lock TOKEN other WAIT 1", NULL),
        ("LOCK.ACQUIRE shared TOKEN a", NULL),
        ("LOCK.ACQUIRE lock TOKEN holder LIMIT 3", err("ERR the token holds this lock in another mode")),
        ("LOCK.ACQUIRE lock TOKEN other PX", err("ERR syntax error")),
        ("LOCK.ACQUIRE string TOKEN other", err("WRONGTYPE")),
        ("LOCK.RELEASE lock other", 0.into()),
        ("LOCK.RELEASE none other", 0.into()),
        ("LOCK.RELEASE string other", err("WRONGTYPE")),
        ("LOCK.EXTEND lock other", 0.into()),
        ("LOCK.EXTEND none other", 0.into()),
        ("LOCK.INFO lock", ANY),
        ("LOCK.INFO none", NULL),
        ("LOCK.APPLY string HELD t 1 1", err("WRONGTYPE")),
        ("LOCK.APPLY lock HELD t 0 1", err("ERR")),
        ("LOCK.APPLY lock LOAD x", err("ERR the effect is damaged")),
    ] {
        client.expect(refused, answer);
        stage.tells(&[]);
    }
}

#[test]
fn a_release_and_the_grant_that_follows_stay_together() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN a", ANY);
    client.expect("LOCK.RELEASE lock a", 1);
    stage.tells(&["LOCK.APPLY lock HELD a F D", "LOCK.RELEASE lock a"]);

    client.expect("LOCK.ACQUIRE lock TOKEN a", ANY);
    let mut waiters =
        ["b SHARED", "c SHARED", "d"].map(|who| stage.waiter(&format!("LOCK.ACQUIRE lock WAIT 0 TOKEN {who}")));
    stage.tells(&["LOCK.APPLY lock HELD a F D"]);
    client.expect("LOCK.RELEASE lock a", 1);
    waiters[0].read().is(("b", INT, 30_000));
    waiters[1].read().is(("c", INT, 30_000));
    stage.tells(&["MULTI", "LOCK.APPLY lock ENDED a HELD b F D SHARED", "LOCK.APPLY lock HELD c F D SHARED", "EXEC"]);
}

#[test]
fn a_lease_that_ends_by_itself() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN a PX 30", ANY);
    stage.tells_in_time("ENDED", &["LOCK.APPLY lock HELD a F D", "LOCK.APPLY lock ENDED a LAPSED"]);

    client.expect("LOCK.ACQUIRE lock TOKEN a PX 2000", ANY);
    let mut waiter = stage.waiter("LOCK.ACQUIRE lock TOKEN b WAIT 0");
    stage.tells(&["LOCK.APPLY lock HELD a F D"]);
    waiter.read().is(("b", INT, 30_000));
    stage.tells(&["LOCK.APPLY lock ENDED a LAPSED HELD b F D"]);
}

#[test]
fn a_connection_that_ends_however_it_ends() {
    let mut stage = Stage::set(readable);
    for (round, hang_up) in [Client::close as fn(Client), Client::reset].into_iter().enumerate() {
        let token = format!("t{round}");
        let mut holder = stage.server.client();
        holder.expect(format!("LOCK.ACQUIRE lock TOKEN {token} SESSION"), ANY);
        hang_up(holder);
        stage.tells_in_time(
            "ENDED",
            &[&format!("LOCK.APPLY lock HELD {token} F D"), &format!("LOCK.APPLY lock ENDED {token} DISCONNECTED")],
        );
    }
    // Killed by an administrator, on whose command replicas must not act.
    let mut holder = stage.server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN t SESSION", ANY);
    holder.expect("LOCK.ACQUIRE second TOKEN t SESSION", ANY);
    let mut waiter = stage.waiter("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    stage.told();
    let id = holder.id();
    stage.server.expect(format!("CLIENT KILL ID {id}"), 1);
    waiter.read().is(("next", INT, 30_000));
    eventually("both holds are over", || stage.server.cmd("DBSIZE").int() == 1);
    stage.tells(&[
        "MULTI",
        "LOCK.APPLY lock ENDED t DISCONNECTED HELD next F D",
        "LOCK.APPLY second ENDED t DISCONNECTED",
        "EXEC",
    ]);
}

#[test]
fn a_waiter_that_leaves_is_not_mentioned() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN a", ANY);
    stage.told();
    stage.waiter("LOCK.ACQUIRE lock TOKEN b WAIT 0 SESSION").close();
    stage.waiter("LOCK.ACQUIRE lock TOKEN c WAIT 20").read().is(NULL);
    let mut killed = stage.waiter("LOCK.ACQUIRE lock TOKEN d WAIT 0");
    client.expect("CLIENT KILL TYPE normal SKIPME yes", ANY);
    killed.read_to_end();
    eventually("nobody waits", || stage.server.info_int("lockstock", "lockstock_lock_waiters") == 0);
    stage.tap = Tap::attach(&stage.server);
    stage.tells(&[]);
}

#[test]
fn what_others_do_to_the_key() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN a", ANY);
    let mut waiter = stage.waiter("LOCK.ACQUIRE lock TOKEN b WAIT 0");
    stage.told();
    // First the cause, then the grant.
    client.expect("DEL lock", 1);
    waiter.read().is(("b", INT, 30_000));
    stage.tells(&["DEL lock", "LOCK.APPLY lock HELD b F D"]);

    waiter.send("LOCK.ACQUIRE lock TOKEN c WAIT 0");
    eventually("it waits", || stage.server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    client.expect("FLUSHALL", OK);
    waiter.read().is(("c", INT, 30_000));
    stage.tells(&["FLUSHALL", "LOCK.APPLY lock HELD c F D"]);

    client.expect("LOCK.EXTEND lock c EX 600", 1);
    client.expect("PEXPIREAT lock 1", 1);
    stage.tells(&["LOCK.APPLY lock HELD c F D", "DEL lock"]);
}

#[test]
fn transactions_and_scripts() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    let replies = client.pipeline([
        "MULTI",
        "LOCK.ACQUIRE a TOKEN t WAIT 0",
        "LOCK.ACQUIRE a TOKEN other WAIT 0",
        "LOCK.EXTEND a t",
        "SET s x",
        "LOCK.RELEASE a t",
        "LOCK.RELEASE a t",
        "EXEC",
    ]);
    replies[7].clone().is((("t", INT, 30_000), NULL, 1, OK, 1, 0));
    stage.tells(&[
        "MULTI",
        "LOCK.APPLY a HELD t F D",
        "LOCK.APPLY a HELD t F D",
        "SET s x",
        "LOCK.RELEASE a t",
        "EXEC",
    ]);
    client.pipeline(["MULTI", "LOCK.ACQUIRE a TOKEN t", "EXEC"]);
    // Some servers wrap even a single effect; replicas accept that.
    let told: Vec<String> = stage.told().into_iter().filter(|line| line != "MULTI" && line != "EXEC").collect();
    assert_eq!(told, ["LOCK.APPLY a HELD t F D"]);
    client.pipeline(["MULTI", "LOCK.ACQUIRE a TOKEN other WAIT 0", "EXEC"])[2].clone().is([NULL].to_vec());
    stage.tells(&[]);

    let script = "local grant = redis.call('LOCK.ACQUIRE', KEYS[1], 'TOKEN', ARGV[1], 'WAIT', '0') \
                  redis.call('LOCK.RELEASE', KEYS[1], ARGV[1]) \
                  return grant";
    client.expect(["EVAL", script, "1", "scripted", "t"], ("t", INT, 30_000));
    stage.tells(&["MULTI", "LOCK.APPLY scripted HELD t F D", "LOCK.RELEASE scripted t", "EXEC"]);
    client.expect(["EVAL", script, "1", "a", "t2"], NULL);
    stage.tells(&[]);
}

#[test]
fn effects_are_passed_on_as_they_came() {
    let mut stage = Stage::set(readable);
    stage.server.take_effects();
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t LIMIT 2 EX 3600", ANY);
    stage.told();
    let effect = format!("LOCK.APPLY lock HELD u 9 {} LIMIT 5", unix_ms() + LATER);
    client.expect(&effect, OK);
    assert_eq!(stage.tap.drain(), [effect.as_str()]);
    client.expect("LOCK.APPLY lock ENDED u LAPSED", OK);
    assert_eq!(stage.tap.drain(), ["LOCK.APPLY lock ENDED u LAPSED"]);
}

#[test]
fn all_of_it_makes_the_same_holds_on_a_fresh_server() {
    let mut stage = Stage::set(readable);
    let scene = crate::support::scene::Scene::set(&stage.server);
    let mut client = stage.server.client();
    client.expect("LOCK.RELEASE semaphore permit-3", 1);
    client.expect("RENAME semaphore renamed", OK);
    client.expect("PEXPIRE shared 3000000", 1);
    let fresh = Server::start();
    fresh.take_effects();
    let mut copier = fresh.client();
    // Databases matter here, so every command is taken as it comes.
    client.expect("PUBLISH the end", 0);
    loop {
        let words = stage.tap.next();
        if words.name() == "PUBLISH" {
            break;
        }
        copier.expect(words, ANY);
    }
    fresh.keys().are(&stage.server.keys());
    assert_eq!(fresh.digest(), stage.server.digest());
    drop(scene);
}

#[test]
fn a_file_with_a_request_instead_of_its_effect_neither_blocks_nor_aborts() {
    let mut server = Server::builder().aof("always").start();
    server.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    server.kill9();
    let dir = server.dir().join("appendonlydir");
    let name = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let file = name.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    for line in [
        "LOCK.ACQUIRE lock TOKEN other WAIT 0",
        "LOCK.ACQUIRE lock TOKEN other WAIT 10000 SESSION",
        "LOCK.ACQUIRE free TOKEN t WAIT 0 EX 3600",
        "LOCK.RELEASE lock other",
        "LOCK.EXTEND lock holder EX 3600",
        "MULTI",
        "LOCK.ACQUIRE lock TOKEN other WAIT 0",
        "EXEC",
        "SET after x",
    ] {
        bytes.extend(Words::from(line).wire());
    }
    std::fs::write(&file, bytes).unwrap();
    server.start_again();
    server.expect("GET after", "x");
    server.expect("LOCK.ACQUIRE lock TOKEN late", NULL);
    server.expect("LOCK.RELEASE lock holder", 1);
    assert_eq!(server.info_int("lockstock", "lockstock_lock_waiters"), 0);
    assert_eq!(server.cmd("LOCK.INFO lock"), Reply::Nil(Nil::Bulk), "nobody waited");
}
