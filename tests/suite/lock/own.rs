//! What a token holds is no obstacle to what it waits for, wherever that stands in line.

use harness::{ANY, INT, NULL, Server};

use crate::support::line::Line;

#[test]
fn two_requests_of_one_token_are_granted_together() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE a TOKEN holder", ANY);
    let mut wide = line.join("LOCK.MACQUIRE 3 a b d TOKEN t PX 60000 WAIT 0");
    let mut between = line.join("LOCK.MACQUIRE 3 b c d TOKEN x WAIT 0");
    let mut narrow = line.join("LOCK.MACQUIRE 2 b d TOKEN t PX 50000 WAIT 0");
    let mut single = line.join("LOCK.ACQUIRE d TOKEN t PX 40000 WAIT 0");
    // All in the step in which the first can be.
    holder.pipeline(["MULTI", "LOCK.RELEASE a holder", "LOCK.INFO b", "LOCK.INFO d", "EXEC"])[4]
        .at(2)
        .field("waiting")
        .is(1);
    let fence = wide.read().is(("t", INT, 60_000)).at(1).int();
    narrow.read().is(("t", fence, 50_000));
    single.read().is(("t", fence, 40_000));
    assert_eq!((line.waiters("b"), line.waiters("d")), (vec!["x".to_owned()], vec!["x".to_owned()]));
    holder.expect("LOCK.MRELEASE t 3 a b d", 3);
    between.read().is(("x", INT, 30_000));
}

#[test]
fn a_single_lock_behind_others_is_granted_with_what_its_token_gets() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE a TOKEN holder", ANY);
    let mut both = line.join("LOCK.MACQUIRE 2 a b TOKEN t WAIT 0");
    let mut other = line.join("LOCK.ACQUIRE b TOKEN other WAIT 0");
    let mut single = line.join("LOCK.ACQUIRE b TOKEN t PX 50000 WAIT 0");
    holder.expect("LOCK.RELEASE a holder", 1);
    let fence = both.read().is(("t", INT, 30_000)).at(1).int();
    single.read().is(("t", fence, 50_000));
    holder.expect("LOCK.ACQUIRE b TOKEN barger", NULL);
    holder.expect("LOCK.MRELEASE t 2 a b", 2);
    other.read().is(("other", INT, 30_000));
}
