//! What the server says, held against the model.

use harness::{NULL, Reply, err, unix_ms};

use super::{KEYS, Trial, end};
use crate::support::models::lock::{Hold, Outcome, Waiter};
use crate::support::models::timed;

impl Trial {
    /// Compares the reply to a request with its outcome; `granted` takes note of the hold with its fence.
    #[track_caller]
    pub fn was_answered(
        &mut self,
        call: &str,
        reply: Reply,
        outcome: Outcome,
        granted: impl FnOnce(&mut Self, i64) -> (&'static str, i64),
    ) {
        match outcome {
            Outcome::Granted { fence } => {
                assert!(!reply.is_error() && !matches!(reply, Reply::Nil(_)), "{call}: {reply:?}, {:?}", self.locks);
                let given = reply.at(1).int();
                let is_new = given > self.newest && self.fences.insert(given);
                assert!(fence.map_or(is_new, |fence| fence == given), "{call}: {reply:?}, {fence:?}");
                let (token, lease) = granted(self, given);
                reply.is((token, given, lease));
            }
            Outcome::Refused => drop(reply.is(NULL)),
            Outcome::OtherMode => drop(reply.is(err("ERR the token holds this lock in another mode"))),
            Outcome::WrongType => drop(reply.is(err("WRONGTYPE"))),
        }
    }

    /// The next waiter is told, and no other.
    pub fn hand_over(&mut self) {
        let waits = |trial: &Self| trial.locks.values().map(|lock| lock.line.len()).sum::<usize>();
        let before = waits(self);
        for key in KEYS {
            while let Some(waiter) = self.lock(key).next() {
                let Waiter { token, mode, lease, session, connection, .. } = waiter;
                let reply = self.connections[connection].read();
                if self.lock(key).foreign {
                    reply.is(err("WRONGTYPE"));
                    continue;
                }
                let what = format!("{token} waited for {key}");
                let when = self.began..=unix_ms();
                let before = self.lock(key).holds.iter().map(|hold| hold.fence).max().unwrap_or_default();
                assert!(reply.at(1).int() > before, "out of order: {reply:?}");
                self.was_answered(&what, reply, Outcome::Granted { fence: None }, |trial, fence| {
                    let session = session.then_some(connection);
                    trial.lock(key).set(Hold { token, fence, end: end(&when, lease), mode, session });
                    (token, lease)
                });
                // With a short lease it is over, and the next one's turn.
                self.let_the_short_ones_lapse();
            }
        }
        // That may have been at a lock which had been looked at already.
        if waits(self) < before {
            self.hand_over();
        }
    }

    /// Every field of `LOCK.INFO`.
    pub fn looks_like_the_model(&mut self, key: &'static str) {
        let (info, when) = timed(|| self.eye.cmd(["LOCK.INFO", key]));
        let lock = self.locks.entry(key).or_default();
        if lock.foreign {
            info.is(err("WRONGTYPE"));
            return;
        }
        if lock.holds.is_empty() {
            // A waiter for it has it by now.
            assert!(lock.line.is_empty(), "{lock:?}");
            info.is(NULL);
            return;
        }
        lock.holds.sort_by_key(|hold| hold.fence);
        let mode = lock.holds[0].mode;
        assert_eq!(info.field("mode").text(), mode.word(), "{info:?}, {lock:?}");
        let limit = lock.holds.iter().map(|hold| hold.mode.permits()).max();
        assert_eq!(Some(info.field("limit").int()), limit, "{info:?}, {lock:?}");
        let (holders, waiters) = (info.field("holders"), info.field("waiters"));
        assert_eq!(holders.items().len(), lock.holds.len(), "{info:?}, {lock:?}");
        for (shown, hold) in holders.items().iter().zip(&lock.holds) {
            assert_eq!((shown.field("token").text().as_str(), shown.field("fence").int()), (hold.token, hold.fence));
            let left = hold.end.start() - when.end()..=hold.end.end() - when.start();
            assert!(left.contains(&shown.field("lease-ms").int()), "{shown:?}, {left:?}");
            assert_eq!(shown.field("session").text() == "yes", hold.session.is_some(), "{shown:?}, {hold:?}");
        }
        assert_eq!(info.field("waiting").int(), i64::try_from(lock.line.len()).expect("few"), "{info:?}, {lock:?}");
        assert_eq!(waiters.items().len(), lock.line.len(), "{info:?}, {lock:?}");
        for (shown, waiter) in waiters.items().iter().zip(&lock.line) {
            assert_eq!(shown.field("token").text(), waiter.token);
            assert_eq!(shown.field("mode").text(), waiter.mode.word());
            assert_eq!(shown.field("client").int(), self.ids[waiter.connection]);
            let waited = when.start() - waiter.since.end()..=when.end() - waiter.since.start();
            assert!(waited.contains(&shown.field("waited-ms").int()), "{shown:?}, {waited:?}");
            let left = match waiter.wait {
                0 => -1..=-1,
                wait => wait - waited.end()..=wait - waited.start(),
            };
            assert!(left.contains(&shown.field("wait-left-ms").int()), "{shown:?}, {left:?}");
        }
    }
}
