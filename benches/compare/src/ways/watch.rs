//! Stock under WATCH and MULTI: read, decide, write if nobody else has written meanwhile, else all over again.

use std::time::Instant;

use super::sale::PLENTY;
use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::stand::Side;
use crate::wire::Reply;

/// A buyer that takes one ticket after another, and writes each under its name.
struct Buyer {
    name: String,
    /// Which reply is awaited: WATCH, GET, MULTI, two times QUEUED, EXEC.
    step: u32,
    since: Instant,
}

impl Buyer {
    fn attempt(&mut self, desk: &mut Desk<'_>) {
        self.step = 0;
        desk.send(0, &[b"WATCH", b"stock"]);
        desk.send(0, &[b"GET", b"stock"]);
    }
}

impl Member for Buyer {
    fn start(&mut self, desk: &mut Desk<'_>) {
        if desk.closing {
            return;
        }
        self.since = Instant::now();
        self.attempt(desk);
    }

    fn hear(&mut self, _: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        self.step += 1;
        match self.step {
            2 => {
                assert!(reply.text().is_some_and(|stock| stock != b"0"), "nothing is left: {}", reply.show());
                desk.send(0, &[b"MULTI"]);
                desk.send(0, &[b"DECRBY", b"stock", b"1"]);
                desk.send(0, &[b"HINCRBY", b"bought", self.name.as_bytes(), b"1"]);
                desk.send(0, &[b"EXEC"]);
            }
            6 if reply.is_null() => {
                desk.tally.count("again");
                self.attempt(desk);
            }
            6 => {
                desk.tally.count("sold");
                desk.tally.finish(desk.number, self.since);
                self.start(desk);
            }
            _ => (),
        }
    }
}

/// Buyers of tickets that are in each other's way.
pub fn tickets() -> Way {
    let buyer = |number| Buyer { name: format!("buyer:{number}"), step: 0, since: Instant::now() };
    Way::new("WATCH, GET, MULTI, EXEC", Side::Plain, buyer).prepared(|stand| {
        stand.cmd(format!("SET stock {PLENTY}"));
    })
}
