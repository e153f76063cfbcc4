//! A client that never waits for anything but replies: sends some commands in one go, reads their replies, sends the next.

use std::rc::Rc;
use std::time::Instant;

use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::stand::Side;
use crate::wire::Reply;

/// Which command this is.
#[derive(Clone, Copy, Default)]
pub struct At {
    pub connection: usize,
    /// The how manieth operation of this connection, and the how manieth command of that operation.
    pub turn: u64,
    pub step: u64,
}

impl At {
    /// A number that no other operation of this crowd has.
    pub fn serial(self) -> u64 {
        self.turn * CONNECTIONS as u64 + self.connection as u64
    }
}

/// How many pumps work side by side.
pub const CONNECTIONS: usize = 50;

type Say = dyn Fn(At, &mut Desk<'_>);
type Judge = dyn Fn(At, Reply<'_>) -> Option<&'static str>;

/// The words that a pump sends.
pub struct Script {
    /// The commands of one operation.
    pub steps: u64,
    /// Sends one command.
    pub say: Box<Say>,
    /// A word for the answer if it is one of those that may come.
    pub judge: Box<Judge>,
}

impl Script {
    pub fn new(
        steps: u64,
        say: impl Fn(At, &mut Desk<'_>) + 'static,
        judge: impl Fn(At, Reply<'_>) -> Option<&'static str> + 'static,
    ) -> Rc<Self> {
        Rc::new(Self { steps, say: Box::new(say), judge: Box::new(judge) })
    }
}

/// A way that needs nothing but pumps.
pub fn way(name: &str, side: Side, depth: usize, script: &Rc<Script>) -> Way {
    let script = Rc::clone(script);
    Way::new(name, side, move |connection| Pump::new(Rc::clone(&script), depth, connection))
}

pub struct Pump {
    script: Rc<Script>,
    /// Commands in one go.
    depth: usize,
    connection: usize,
    said: u64,
    heard: u64,
    since: Instant,
}

impl Pump {
    fn new(script: Rc<Script>, depth: usize, connection: usize) -> Self {
        Self { script, depth, connection, said: 0, heard: 0, since: Instant::now() }
    }

    fn at(&self, number: u64) -> At {
        At { connection: self.connection, turn: number / self.script.steps, step: number % self.script.steps }
    }

    fn begins(&self, number: u64) -> bool {
        number.is_multiple_of(self.script.steps)
    }
}

impl Member for Pump {
    fn start(&mut self, desk: &mut Desk<'_>) {
        for _ in 0..self.depth {
            // What was begun is brought to its end.
            if desk.closing && self.begins(self.said) {
                return;
            }
            if self.begins(self.said) {
                self.since = Instant::now();
            }
            (self.script.say)(self.at(self.said), desk);
            self.said += 1;
        }
    }

    fn hear(&mut self, _: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        let at = self.at(self.heard);
        let Some(answer) = (self.script.judge)(at, reply) else {
            panic!("an answer that cannot be: {} (command {} of operation {})", reply.show(), at.step, at.turn);
        };
        desk.tally.count(answer);
        self.heard += 1;
        if self.begins(self.heard) {
            desk.tally.finish(desk.number, self.since);
        }
        if self.heard == self.said {
            self.start(desk);
        }
    }
}
