//! Several connections of one client, which ask at the same time: each is a client of its own for the judge.

use std::collections::VecDeque;
use std::time::Duration;

use harness::{Client, Nothing, Reply, Words, patiently};

use super::Worker;
use super::notes::Note;
use crate::history::{AboutLocks, Fault, LockAnswer, LockCall, LockOp, Measure, Mode, Outcome, Time, millis};
use crate::route::PATIENCE;
use crate::wire;

/// What fills all buffers between a server and a client that does not read: the key of a string of so many bytes.
pub const LARGE: (&str, usize) = ("large", 16 << 20);

/// One of the connections.
pub(super) struct Peer {
    pub client: Client,
    pub id: i64,
    line: u64,
    number: usize,
    /// Requests that nothing has been heard of.
    asked: VecDeque<LockOp>,
}

impl Peer {
    /// Sends commands that are nothing to the judge.
    pub fn sends(&mut self, commands: &[&str]) {
        let commands: Vec<Words> = commands.iter().map(|line| Words::from(*line)).collect();
        // If it is gone, so is the reply.
        let _ = self.client.try_send(&commands);
    }

    /// Says how much a connection may have unsent before the server ends it.
    pub fn limits(&mut self, bytes: &str) {
        let words = ["CONFIG", "SET", "client-output-buffer-limit", &format!("normal {bytes} 0 0")];
        let _ = self.client.ask_within(words, Duration::from_micros(PATIENCE));
    }
}

/// How a connection ends.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    Closed,
    Reset,
    Killed,
}

/// `LOCK.ACQUIRE` or `LOCK.MACQUIRE` for a lease and a wait in milliseconds; 0: without waiting.
pub(super) fn acquire(token: &str, mode: Mode, lease: Time, wait: Time) -> LockCall {
    let wait = (wait > 0).then_some(millis(wait));
    LockCall::Acquire { token: token.to_owned(), mode, lease: millis(lease), wait, session: false }
}

impl Worker<'_> {
    /// Another connection; nothing if there is no server.
    pub(super) fn peer(&mut self) -> Option<Peer> {
        let (line, mut client) = self.route.open()?;
        let Ok(Reply::Int(id)) = client.ask_within("CLIENT ID", Duration::from_micros(PATIENCE)) else { return None };
        Some(Peer { client, id, line, number: self.another(), asked: VecDeque::new() })
    }

    /// The number of another client over this connection, and the connection's own.
    pub(super) fn a_client_of(&mut self, peer: &Peer) -> (usize, u64) {
        (self.another(), peer.line)
    }

    /// A client's number, far from those of workers and processes.
    fn another(&mut self) -> usize {
        self.peers += 1;
        (self.number + 1) * 1_000_000 + self.peers
    }

    /// Sends a request over this connection, with other commands before and after it in the same packet.
    pub(super) fn asks_between(
        &mut self,
        peer: &mut Peer,
        before: &[&str],
        about: (&[&str], LockCall),
        after: &[&str],
    ) {
        let keys: Vec<String> = about.0.iter().map(ToString::to_string).collect();
        let words = wire::lock(&keys, &about.1);
        let commands = before.iter().map(|line| Words::from(*line)).chain([words]);
        let commands: Vec<Words> = commands.chain(after.iter().map(|line| Words::from(*line))).collect();
        let server = self.route.leader().port();
        let mut op = LockOp::sent(peer.number, server, self.route.clock.now(), AboutLocks { keys, call: about.1 });
        op.line = peer.line;
        // If it is gone, so is the reply.
        let _ = peer.client.try_send(&commands);
        peer.asked.push_back(op);
    }

    /// Sends a request over this connection.
    pub(super) fn asks(&mut self, peer: &mut Peer, keys: &[&str], call: LockCall) {
        self.asks_between(peer, &[], (keys, call), &[]);
    }

    /// The outcome of the oldest request over this connection; nothing if it is not known within so many milliseconds.
    pub(super) fn hears(&mut self, peer: &mut Peer, within: u64) -> Option<Outcome<LockAnswer>> {
        match peer.client.hear(Duration::from_millis(within)) {
            Ok(reply) => Some(self.heard(peer, reply)),
            Err(Nothing::Silence) => None,
            Err(Nothing::Closed) => {
                self.is_cut_off(peer);
                Some(Outcome::Unknown(Nothing::Closed))
            }
        }
    }

    /// This is the reply to the oldest request over this connection.
    pub(super) fn heard(&mut self, peer: &mut Peer, reply: Reply) -> Outcome<LockAnswer> {
        let Some(op) = peer.asked.pop_front() else { return Outcome::Unwritten };
        let outcome = match reply {
            Reply::Error(text) => Outcome::Refused(text),
            reply => Outcome::Done(wire::lock_answer(&op.call.call, &reply)),
        };
        let returned = self.route.clock.now();
        self.record.note(Note::Locks(LockOp { returned, outcome: outcome.clone(), ..op }));
        outcome
    }

    /// Asks and hears.
    pub(super) fn has(&mut self, peer: &mut Peer, keys: &[&str], call: LockCall) -> Option<Outcome<LockAnswer>> {
        self.asks(peer, keys, call);
        let outcome = self.hears(peer, PATIENCE / 1_000);
        if outcome.is_none() {
            self.gives_up(peer);
        }
        outcome
    }

    /// Nothing came, and nobody will wait for it any more.
    pub(super) fn gives_up(&mut self, peer: &mut Peer) {
        self.leaves(peer, &Outcome::Unknown(Nothing::Silence));
    }

    /// The connection has ended, or is about to. What was handed to it may never be read.
    fn is_cut_off(&mut self, peer: &mut Peer) {
        if let Some(from) = peer.asked.front().map(|op| op.invoked) {
            self.notices(peer, "cut off", from);
            self.leaves(peer, &Outcome::Unknown(Nothing::Closed));
        }
    }

    /// This is what came of all that the connection has asked for.
    fn leaves(&mut self, peer: &mut Peer, outcome: &Outcome<LockAnswer>) {
        let returned = self.route.clock.now();
        for op in peer.asked.drain(..) {
            self.record.note(Note::Locks(LockOp { returned, outcome: outcome.clone(), ..op }));
        }
    }

    /// Releases the locks of `keys` and ends the connection of `victim`, which is granted something thereby, in one packet: its reply cannot have
    /// been handed to it.
    pub(super) fn frees_and_kills(
        &mut self,
        holder: &mut Peer,
        keys: &[&str],
        token: String,
        mut victim: Peer,
    ) -> Option<()> {
        let kill = format!("CLIENT KILL ID {}", victim.id);
        self.asks_between(holder, &[], (keys, LockCall::Release { token }), &[&kill]);
        let told = self.hears(holder, PATIENCE / 1_000);
        let killed = holder.client.hear(Duration::from_micros(PATIENCE));
        if matches!(killed, Ok(Reply::Int(1))) {
            self.leaves(&mut victim, &Outcome::Unwritten);
        } else {
            self.is_cut_off(&mut victim);
        }
        told.map(drop)
    }

    /// Ends a connection.
    pub(super) fn cut(&mut self, mut peer: Peer, cut: Cut, admin: &mut Peer) {
        self.is_cut_off(&mut peer);
        match cut {
            Cut::Closed => peer.client.close(),
            Cut::Reset => peer.client.reset(),
            Cut::Killed => {
                admin.sends(&[&format!("CLIENT KILL ID {}", peer.id)]);
                let _ = admin.client.hear(Duration::from_micros(PATIENCE));
            }
        }
    }

    /// One way or another.
    pub(super) fn any_cut(&mut self) -> Cut {
        [Cut::Closed, Cut::Reset, Cut::Killed][self.random.usize(..3)]
    }

    /// Waits until so many stand in line for a lock; whether they do.
    pub(super) fn in_line(&mut self, admin: &mut Peer, key: &str, count: i64) -> Option<()> {
        patiently(|| {
            if self.route.stopped() {
                return Some(None);
            }
            let info = admin.client.ask_within(["LOCK.INFO", key], Duration::from_micros(PATIENCE));
            match info {
                Ok(info) if !matches!(info, Reply::Nil(_) | Reply::Error(_)) => {
                    (info.field("waiting").int() == count).then_some(Some(()))
                }
                Ok(_) => None,
                Err(_) => Some(None),
            }
        })
        .flatten()
    }

    /// Something is done to this connection that its client may notice, from `from` until now.
    pub(super) fn notices(&mut self, peer: &Peer, kind: &'static str, from: Time) {
        let to = self.route.clock.now();
        self.record.note(Note::Did(Fault { kind: kind.into(), from, to, client: Some(peer.number) }));
    }

    /// Something that has a bound.
    pub(super) fn measured(&mut self, what: &str, value: u64, most: u64) {
        let at = self.route.clock.now();
        self.record.note(Note::Measured(Measure { what: what.to_owned(), at, value, most }));
    }
}
