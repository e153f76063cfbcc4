//! `SET NX PX` asked for again and again until it is granted.

use std::time::{Duration, Instant};

use super::lock::{Sha, loading};
use super::{COMPARE_AND_DELETE, Hold, token};
use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::stand::Side;
use crate::wire::Reply;

struct Contender {
    token: String,
    hold: Hold,
    every: Duration,
    sha: Sha,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Asking,
    Holding,
    Releasing,
}

impl Contender {
    fn release(&mut self, desk: &mut Desk<'_>) {
        self.state = State::Releasing;
        desk.tally.passed = Instant::now();
        desk.send(0, &[b"EVALSHA", self.sha.borrow().as_bytes(), b"1", b"contended", self.token.as_bytes()]);
    }
}

impl Member for Contender {
    fn start(&mut self, desk: &mut Desk<'_>) {
        self.state = State::Asking;
        let lease = self.hold.lease();
        desk.send(0, &[b"SET", b"contended", self.token.as_bytes(), b"NX", b"PX", lease.as_bytes()]);
    }

    fn hear(&mut self, _: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        match self.state {
            State::Asking if reply.is_null() => desk.pause(self.every),
            State::Asking => {
                assert!(reply.is_ok(), "not a grant: {}", reply.show());
                desk.tally.finish(desk.number, desk.tally.passed);
                self.state = State::Holding;
                match self.hold.begin(desk.tally) {
                    Some(time) => desk.pause(time),
                    None => self.release(desk),
                }
            }
            State::Releasing => {
                assert!(reply.int() == Some(1), "the lock was lost: {}", reply.show());
                self.start(desk);
            }
            State::Holding => panic!("nothing was asked: {}", reply.show()),
        }
    }

    fn resume(&mut self, desk: &mut Desk<'_>) {
        match (&self.state, self.hold) {
            (State::Holding, Hold::Works { .. }) => self.release(desk),
            _ => self.start(desk),
        }
    }
}

/// Contenders that ask every so often.
pub fn contended(every: Duration, hold: Hold) -> Way {
    let (sha, load) = loading(COMPARE_AND_DELETE);
    let name = format!("SET NX PX, polled every {} ms", every.as_millis());
    let member = move |number| Contender { token: token(number), hold, every, sha: sha.clone(), state: State::Asking };
    Way::new(&name, Side::Plain, member).prepared(load)
}
