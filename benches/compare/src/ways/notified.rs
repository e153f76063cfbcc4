//! Contenders that wait with NOTIFY: the grant is a message, and meanwhile the connection is free.

use std::collections::VecDeque;
use std::time::Instant;

use super::{LEASE, token};
use crate::contest::Way;
use crate::crowd::{Desk, Member};
use crate::stand::Side;
use crate::wire::Reply;

/// Some contenders that share a connection, and another one for the messages. Each takes the lock, gives it back, goes to the end of the line.
struct Process {
    /// The numbers of its contenders.
    from: usize,
    contenders: usize,
    /// The requests that are not answered yet, in order.
    asked: VecDeque<Asked>,
}

enum Asked {
    Lock(usize),
    Release(usize),
}

impl Process {
    fn channel(&self) -> String {
        format!("granted:{}", self.from)
    }

    fn lock(&mut self, contender: usize, desk: &mut Desk<'_>) {
        self.asked.push_back(Asked::Lock(contender));
        let (token, channel) = (token(contender), self.channel());
        let request: [&[u8]; 6] = [b"LOCK.ACQUIRE", b"contended", b"TOKEN", token.as_bytes(), b"PX", LEASE];
        let wait: [&[u8]; 4] = [b"WAIT", b"0", b"NOTIFY", channel.as_bytes()];
        desk.send(0, &[&request[..], &wait].concat());
    }

    fn granted(&mut self, contender: usize, desk: &mut Desk<'_>) {
        desk.tally.finish(desk.number, desk.tally.passed);
        desk.tally.passed = Instant::now();
        self.asked.push_back(Asked::Release(contender));
        desk.send(0, &[b"LOCK.RELEASE", b"contended", token(contender).as_bytes()]);
    }
}

impl Member for Process {
    fn lanes(&self) -> usize {
        2
    }

    fn start(&mut self, desk: &mut Desk<'_>) {
        desk.send(1, &[b"SUBSCRIBE", self.channel().as_bytes()]);
    }

    fn hear(&mut self, lane: usize, reply: Reply<'_>, desk: &mut Desk<'_>) {
        if lane == 1 {
            return match reply.item(0).and_then(Reply::text) {
                Some(b"subscribe") => {
                    (self.from..self.from + self.contenders).for_each(|contender| self.lock(contender, desk));
                }
                _ => self.granted(told(reply), desk),
            };
        }
        match self.asked.pop_front() {
            Some(Asked::Lock(contender)) if reply.is_array() => self.granted(contender, desk),
            Some(Asked::Lock(_)) => assert!(reply.int().is_some(), "no place in line: {}", reply.show()),
            Some(Asked::Release(contender)) => {
                assert!(reply.int() == Some(1), "the lock was lost: {}", reply.show());
                self.lock(contender, desk);
            }
            None => panic!("nothing was asked: {}", reply.show()),
        }
    }
}

/// Whose grant a message tells: the end of a token is the number of its contender.
fn told(message: Reply<'_>) -> usize {
    let text = message.item(2).and_then(Reply::text).and_then(|text| str::from_utf8(text).ok());
    let granted = text.filter(|text| text.contains("\"event\":\"granted\""));
    let number = granted.and_then(|text| text.split_once("\"token\":\"")?.1.split('"').next()?.rsplit('-').next());
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("not a grant: {}", message.show()))
}

/// Contenders that have each their own connection.
pub fn apart() -> Way {
    let member = |number| Process { from: number, contenders: 1, asked: VecDeque::new() };
    Way::new("NOTIFY, a connection for each", Side::Ours, member)
}

/// Contenders that share one connection.
pub fn together(contenders: usize) -> Way {
    let member = move |_| Process { from: 0, contenders, asked: VecDeque::new() };
    Way { members: Some(1), ..Way::new("NOTIFY, one connection for all", Side::Ours, member) }
}
