//! Extending holds: to an end that is named, or to none sooner than before; one hold, or several together.

use harness::{ANY, INT, OK, Reply, Server, Want, err, eventually};

use crate::support::line::Line;

#[test]
fn without_a_lease_of_its_own_it_never_shortens() {
    let server = Server::builder().module_args("default-lease-ms 5000").start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    client.expect("LOCK.ACQUIRE long TOKEN t PX 600000", ANY);
    client.expect("LOCK.ACQUIRE short TOKEN t PX 3000", ANY);
    for call in ["LOCK.EXTEND long t", "LOCK.EXTEND short t", "LOCK.MEXTEND t 2 short long"] {
        client.expect(call, 1);
        assert!(line.leases("long")[0] > 500_000, "{call}");
    }
    let short = line.leases("short")[0];
    assert!((3_001..=5_000).contains(&short), "{short}");
    // An end that is named is taken, be it later or sooner.
    client.expect("LOCK.EXTEND long t PX 50000", 1);
    assert!(line.leases("long")[0] <= 50_000);
    client.expect("LOCK.MEXTEND t 2 long short EX 9", 1);
    for lock in ["long", "short"] {
        assert!((5_001..=9_000).contains(&line.leases(lock)[0]), "{lock}");
    }
    // What ended is not revived.
    client.expect("LOCK.EXTEND long t PX 1", 1);
    eventually("it is over", || client.cmd("EXISTS long") == Reply::Int(0));
    client.expect("LOCK.EXTEND long t", 0);
    client.expect("LOCK.MEXTEND t 2 short long", 0);
}

#[test]
fn several_are_extended_together_or_none() {
    let server = Server::start();
    let (mut line, mut client) = (Line::at(&server), server.client());
    // Taken together and apart, alone and with others.
    let fence = client.expect("LOCK.MACQUIRE 2 a b TOKEN t PX 10000", ("t", INT, 10_000)).at(1).int();
    client.expect("LOCK.ACQUIRE shared TOKEN u SHARED PX 10000", ANY);
    client.expect("LOCK.ACQUIRE shared TOKEN t SHARED PX 10000", ANY);
    client.expect("LOCK.ACQUIRE permits TOKEN t LIMIT 3 PX 10000", ANY);
    client.expect("LOCK.ACQUIRE other TOKEN u PX 10000", ANY);
    client.expect("SET text x", OK);
    let mut are = |leases: [&[bool]; 5]| {
        for (lock, expected) in ["a", "b", "shared", "permits", "other"].into_iter().zip(leases) {
            let long: Vec<bool> = line.leases(lock).iter().map(|left| *left > 10_000).collect();
            assert_eq!(long, expected, "{lock}");
        }
    };
    for (call, reply) in [
        ("LOCK.MEXTEND t 3 a b other EX 60", Want::from(0)),
        ("LOCK.MEXTEND t 3 a b free EX 60", Want::from(0)),
        ("LOCK.MEXTEND t 3 a b text EX 60", err("WRONGTYPE")),
        ("LOCK.MEXTEND t 3 a text free EX 60", err("WRONGTYPE")),
        ("LOCK.MEXTEND v 1 a EX 60", Want::from(0)),
    ] {
        client.expect(call, reply);
        are([&[false], &[false], &[false, false], &[false], &[false]]);
    }
    client.expect("EXISTS free", 0);
    client.expect("LOCK.MEXTEND t 5 a permits shared b a EX 60", 1);
    are([&[true], &[true], &[false, true], &[true], &[false]]);
    assert_eq!(client.cmd("LOCK.INFO a").field("holders").at(0).field("fence").int(), fence);
    client.expect("LOCK.MACQUIRE 2 a b TOKEN t", ("t", fence, 30_000));
}

#[test]
fn who_extends_many_is_heard_while_others_wait_for_them() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.MACQUIRE 2 a b TOKEN t PX 60000", ANY);
    let mut one = line.join("LOCK.ACQUIRE a TOKEN u WAIT 0");
    let mut both = line.join("LOCK.MACQUIRE 2 b a TOKEN v WAIT 0");
    holder.expect("LOCK.MEXTEND t 2 a b", 1);
    assert_eq!((line.waiters("a"), line.waiters("b")), (vec!["u".into(), "v".into()], vec!["v".into()]));
    // A lease that is over hands over as ever, though it was extended.
    holder.expect("LOCK.MEXTEND t 2 a b PX 30", 1);
    one.read().is(("u", INT, 30_000));
    one.expect("LOCK.RELEASE a u", 1);
    both.read().is(("v", INT, 30_000));
    both.expect("LOCK.MEXTEND t 2 a b", 0);
}
