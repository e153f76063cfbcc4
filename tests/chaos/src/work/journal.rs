//! Clients that write a value of the server under a lock, and are often too late.

use super::Worker;
use super::notes::Note;
use crate::history::{LockAnswer, LockCall, Mode, Outcome};
use crate::route::PATIENCE;

/// A list in the server: the fence of each write.
pub const JOURNAL: &str = "{journal}";
/// The lock of the clients that append to it.
const LOCK: &str = "{journal}lock";

impl Worker<'_> {
    /// Takes the lock and appends to the journal, also when its lease is long over: by way of `LOCK.GUARD`, or without.
    pub(super) fn journal(&mut self, guarded: bool) {
        let keys = [LOCK.to_owned()];
        let token = format!("{}-{}", self.number, self.count);
        let (lease, wait) = (self.span(100, 400), Some(self.span(100, 2_000)));
        let ask = LockCall::Acquire { token: token.clone(), mode: Mode::Exclusive, lease, wait, session: false };
        let answer = self.persist(3, |worker| worker.lock(&keys, ask.clone()));
        let Some(LockAnswer::Granted(fence)) = answer else { return };
        for _ in 0..self.random.u8(1..6) {
            if self.chance(8) {
                // Frozen for longer than its lease, and unaware of it.
                let from = self.route.clock.now();
                self.rest(lease / 1_000 * 11 / 10, lease / 1_000 * 13 / 10);
                self.confess("client frozen", from);
            } else {
                self.rest(0, 20);
            }
            let write = format!("RPUSH {JOURNAL} {fence}");
            let words = if guarded { format!("LOCK.GUARD {LOCK} {token} {write}") } else { write };
            let written = self.line.ask((), LOCK, &words.into(), PATIENCE);
            if matches!(&written.outcome, Outcome::Refused(text) if text.starts_with("NOTHELD")) {
                self.record.note(Note::Stopped);
            }
        }
        // Sometimes the lease is left to end it.
        if !self.chance(5) {
            let release = LockCall::Release { token };
            self.persist(3, |worker| worker.lock(&keys, release.clone()));
        }
    }
}
