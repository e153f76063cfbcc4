//! FENCE: a command that is about one hold of its token, and no other.

use harness::{ANY, Client, INT, OK, Server, Stage, Want, err};

use crate::support::line::Line;

/// Takes `lock` as `t` and returns the fence.
#[track_caller]
fn take(client: &mut Client, lock: &str) -> i64 {
    client.expect(format!("LOCK.ACQUIRE {lock} TOKEN t"), ("t", INT, 30_000)).at(1).int()
}

#[test]
fn a_repeated_release_does_not_end_a_later_hold() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    let first = take(&mut client, "lock");
    client.expect(format!("LOCK.RELEASE lock t FENCE {first}"), 1);
    let second = take(&mut client, "lock");
    for (call, reply) in [
        (format!("LOCK.RELEASE lock t FENCE {first}"), 0),
        (format!("LOCK.RELEASE lock t fence {}", second + 1), 0),
        (format!("LOCK.RELEASE lock u FENCE {second}"), 0),
        (format!("LOCK.EXTEND lock t FENCE {first} PX 600000"), 0),
        (format!("LOCK.MEXTEND t 1 lock PX 600000 FENCE {first}"), 0),
        (format!("LOCK.MRELEASE t 2 lock free FENCE {first}"), 0),
    ] {
        client.expect(&*call, reply);
        assert!(line.leases("lock")[0] <= 30_000, "{call}");
        assert_eq!(line.holders("lock"), ["t"], "{call}");
    }
    client.expect(format!("LOCK.EXTEND lock t FENCE {second}"), 1);
    client.expect(format!("LOCK.EXTEND lock t EX 600 FENCE {second}"), 1);
    client.expect(format!("LOCK.MEXTEND t 1 lock FENCE {second} PX 600000"), 1);
    assert!(line.leases("lock")[0] > 590_000);
    client.expect(format!("LOCK.RELEASE lock t FENCE {second}"), 1);
    client.expect(format!("LOCK.RELEASE lock t FENCE {second}"), 0);
    client.expect("DBSIZE", 0);
}

#[test]
fn of_several_locks_only_those_of_the_fence_are_meant() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    let both = client.expect("LOCK.MACQUIRE 2 a b TOKEN t", ("t", INT, 30_000)).at(1).int();
    take(&mut client, "c");
    client.expect("SET text x", OK);
    client.expect(format!("LOCK.MEXTEND t 3 a b c PX 600000 FENCE {both}"), 0);
    for lock in ["a", "b", "c"] {
        assert!(line.leases(lock)[0] <= 30_000, "{lock}");
    }
    client.expect(format!("LOCK.MEXTEND t 2 a b PX 600000 FENCE {both}"), 1);
    client.expect(format!("LOCK.MRELEASE t 2 a text FENCE {both}"), err("WRONGTYPE"));
    client.expect(format!("LOCK.MRELEASE t 3 a b c FENCE {both}"), 2);
    assert_eq!(line.holders("c"), ["t"]);
    client.expect("EXISTS a b", 0);
}

#[test]
fn a_request_that_waits_is_not_touched() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    let earlier = take(&mut client, "lock");
    client.expect("LOCK.RELEASE lock t", 1);
    let mut holder = server.client();
    let now = holder.expect("LOCK.ACQUIRE lock TOKEN holder", ("holder", INT, 30_000)).at(1).int();
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN t WAIT 0");
    let mut both = line.join("LOCK.MACQUIRE 2 lock other TOKEN t WAIT 0");
    for fence in [earlier, now, now + 1] {
        client.expect(format!("LOCK.RELEASE lock t FENCE {fence}"), 0);
        client.expect(format!("LOCK.MRELEASE t 2 lock other FENCE {fence}"), 0);
    }
    assert_eq!(line.waiters("lock"), ["t", "t"]);
    holder.expect(format!("LOCK.RELEASE lock holder FENCE {now}"), 1);
    let granted = waiter.read().is(("t", INT, 30_000)).at(1).int();
    // What the token holds is no obstacle to it.
    let granted = both.read().is(("t", INT, 30_000)).at(1).int().max(granted);
    client.expect(format!("LOCK.MRELEASE t 2 lock other FENCE {granted}"), 2);
    client.expect("DBSIZE", 0);
}

#[test]
fn it_is_an_integer_that_a_fence_can_be() {
    let server = Server::start();
    let mut client = server.client();
    let fence = take(&mut client, "lock");
    let calls = ["LOCK.RELEASE lock t", "LOCK.EXTEND lock t", "LOCK.MEXTEND t 1 lock", "LOCK.MRELEASE t 1 lock"];
    let range = "ERR FENCE must be an integer from 1 to 9007199254740991";
    for call in calls {
        for bad in ["0", "-1", "9007199254740992", "x", "1.0", "", "9223372036854775808"] {
            client.expect([call.split(' ').collect(), vec!["FENCE", bad]].concat(), err(range));
        }
        for bad in [format!("FENCE {fence} FENCE {fence}"), "FENCE".into(), format!("FENCES {fence}"), "5".into()] {
            client.expect(format!("{call} {bad}"), err("ERR syntax error"));
        }
        client.expect(format!("{call} FENCE 9007199254740991"), 0);
    }
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect(format!("LOCK.EXTEND lock t FENCE {fence}"), 1);
    client.expect(format!("LOCK.RELEASE lock t FENCE {fence}"), 1);
}

#[test]
fn replicas_and_files_end_just_what_has_ended() {
    for commands in ["yes", "no"] {
        let mut stage = Stage::set(|words| words.name());
        let mut client = stage.server.client();
        client.expect(format!("CONFIG SET lockstock.replicate-commands {commands}"), OK);
        let old = take(&mut client, "lock");
        client.expect("LOCK.RELEASE lock t", 1);
        let fence = take(&mut client, "lock");
        let both = client.expect("LOCK.MACQUIRE 2 a b TOKEN t", ANY).at(1).int();
        take(&mut client, "c");
        stage.told();
        let released = if commands == "yes" { "LOCK.RELEASE" } else { "LOCK.APPLY" };
        for (call, reply, told) in [
            (format!("LOCK.RELEASE lock t FENCE {old}"), 0, vec![]),
            (format!("LOCK.EXTEND lock t FENCE {old}"), 0, vec![]),
            (format!("LOCK.MEXTEND t 3 a b c FENCE {both}"), 0, vec![]),
            (format!("LOCK.MRELEASE t 3 a c b FENCE {both}"), 2, vec!["MULTI", "LOCK.APPLY", "LOCK.APPLY", "EXEC"]),
            (format!("LOCK.RELEASE lock t FENCE {fence}"), 1, vec![released]),
        ] {
            client.expect(&*call, Want::from(reply));
            let heard = stage.told();
            assert_eq!(
                heard.into_iter().filter(|word| word != "DEL" && word != "UNLINK").collect::<Vec<_>>(),
                told,
                "{call}"
            );
        }
        let before = stage.server.digest();
        stage.server.expect("CONFIG SET appendfsync always", OK);
        stage.server.shutdown();
        stage.server.start_again();
        assert_eq!(stage.server.digest(), before);
        stage.server.expect("EXISTS lock a b c", 1);
    }
}
