//! Locks whose contenders are parked in the server: ours, and a list with one token in it.

use std::time::Instant;

use super::{Hold, token};
use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::stand::Side;
use crate::wire::Reply;

/// How one of them is asked for and given back.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lock,
    List,
}

/// Takes it, gives it back, goes to the end of the line.
struct Contender {
    kind: Kind,
    token: String,
    hold: Hold,
    releasing: bool,
}

impl Contender {
    fn release(&mut self, desk: &mut Desk<'_>) {
        self.releasing = true;
        desk.tally.passed = Instant::now();
        match self.kind {
            Kind::Lock => desk.send(0, &[b"LOCK.RELEASE", b"contended", self.token.as_bytes()]),
            Kind::List => desk.send(0, &[b"LPUSH", b"contended", b"token"]),
        }
    }
}

impl Member for Contender {
    fn start(&mut self, desk: &mut Desk<'_>) {
        let lease = self.hold.lease();
        match self.kind {
            Kind::Lock => {
                let words: [&[u8]; 8] = [
                    b"LOCK.ACQUIRE",
                    b"contended",
                    b"TOKEN",
                    self.token.as_bytes(),
                    b"PX",
                    lease.as_bytes(),
                    b"WAIT",
                    b"0",
                ];
                desk.send(0, &words);
            }
            Kind::List => desk.send(0, &[b"BLPOP", b"contended", b"0"]),
        }
    }

    fn hear(&mut self, _: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        if self.releasing {
            assert!(reply.int() == Some(1) || self.kind == Kind::List, "the lock was lost: {}", reply.show());
            self.releasing = false;
            return self.start(desk);
        }
        assert!(reply.is_array(), "not a grant: {}", reply.show());
        desk.tally.finish(desk.number, desk.tally.passed);
        match self.hold.begin(desk.tally) {
            Some(time) => desk.pause(time),
            None => self.release(desk),
        }
    }

    fn resume(&mut self, desk: &mut Desk<'_>) {
        match self.hold {
            Hold::Works { .. } => self.release(desk),
            Hold::Dies { .. } => self.start(desk),
        }
    }
}

fn contender(kind: Kind, hold: Hold) -> impl Fn(usize) -> Contender {
    move |number| Contender { kind, token: token(number), hold, releasing: false }
}

/// Contenders for a lock of ours.
pub fn lock(hold: Hold) -> Way {
    Way::new("LOCK.ACQUIRE WAIT, LOCK.RELEASE", Side::Ours, contender(Kind::Lock, hold))
}

/// Contenders for the token in a list. It has no lease: a holder that dies takes it along.
pub fn list(hold: Hold) -> Way {
    Way::new("BLPOP, LPUSH", Side::Plain, contender(Kind::List, hold)).prepared(|stand| {
        stand.cmd("LPUSH contended token");
    })
}
