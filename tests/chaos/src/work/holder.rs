//! Clients that take locks: they hold on, extend, come too late, walk away, and ask again after a lost reply.

use super::Worker;
use super::notes::Note;
use crate::history::{LockAnswer, LockCall, Mode, Outcome, Time};

/// A client's request.
struct Wish {
    keys: Vec<String>,
    mode: Mode,
    /// Whether a register is written under the hold.
    writes: bool,
}

impl Worker<'_> {
    /// A lock that guards a register.
    pub(super) fn mutex(&mut self) {
        let keys = vec![format!("mutex-{}", self.random.u8(..2))];
        self.hold(&Wish { keys, mode: Mode::Exclusive, writes: true });
    }

    /// A lock that readers share and writers do not.
    pub(super) fn readers(&mut self) {
        let mode = if self.chance(70) { Mode::Shared } else { Mode::Exclusive };
        self.hold(&Wish { keys: vec!["readers".into()], mode, writes: mode == Mode::Exclusive });
    }

    /// A lock with two permits, which a client now and then wants alone.
    pub(super) fn permits(&mut self) {
        let mode = if self.chance(90) { Mode::Limit(2) } else { Mode::Exclusive };
        self.hold(&Wish { keys: vec!["permits".into()], mode, writes: mode == Mode::Exclusive });
    }

    /// One, two or three of four locks, in any order.
    pub(super) fn many(&mut self) {
        let mut keys: Vec<String> = (0..4).map(|n| format!("{{many}}-{n}")).collect();
        self.random.shuffle(&mut keys);
        keys.truncate(self.random.usize(1..=3));
        self.hold(&Wish { keys, mode: Mode::Exclusive, writes: true });
    }

    /// One of its own locks, which no other client asks for: takes it for longer than any scene, extends it or gives it back.
    pub(super) fn keep(&mut self) {
        self.rest(1, 4);
        let number = self.random.usize(..self.kept.len());
        let keys = [format!("keep-{}-{number}", self.number)];
        let lease = self.span(60_000, 90_000);
        let Some(token) = self.kept[number].clone() else {
            let token = format!("{}-{}", self.number, self.count);
            let mode = [Mode::Exclusive, Mode::Shared, Mode::Limit(2)][number % 3];
            let ask = LockCall::Acquire { token: token.clone(), mode, lease, wait: None, session: false };
            let answer = self.persist(3, |worker| worker.lock(&keys, ask.clone()));
            self.kept[number] = matches!(answer, Some(LockAnswer::Granted(_))).then_some(token);
            return;
        };
        let call = if self.chance(40) { LockCall::Extend { token, lease } } else { LockCall::Release { token } };
        let answer = self.persist(3, |worker| worker.lock(&keys, call.clone()));
        let ended = matches!(call, LockCall::Release { .. }) && answer.is_some();
        if ended || answer == Some(LockAnswer::Count(0)) {
            self.kept[number] = None;
        }
    }

    /// Looks at a queue.
    pub(super) fn look(&mut self) {
        let keys = ["mutex-0", "mutex-1", "readers", "permits", "{many}-0", "{many}-1", "wanted-0", "wanted-1"];
        let key = keys[self.count % keys.len()].to_owned();
        self.lock(&[key], LockCall::Look);
        self.rest(1, 5);
    }

    fn hold(&mut self, wish: &Wish) {
        let token = format!("{}-{}", self.number, self.count);
        let wait = if self.chance(85) { Some(self.span(100, 2_500)) } else { None };
        let session = self.chance(25);
        let lease = if session && self.mortal { self.span(2_500, 4_000) } else { self.span(300, 1_200) };
        let ask = LockCall::Acquire { token: token.clone(), mode: wish.mode, lease, wait, session };
        let tries = if self.chance(60) { 3 } else { 1 };
        let answer = self.persist(tries, |worker| worker.lock(&wish.keys, ask.clone()));
        let Some(LockAnswer::Granted(fence)) = answer else { return };
        self.write(wish, &token, fence);
        self.rest(0, 3);
        match self.random.u8(..100) {
            // Frozen for longer than its lease, and unaware of it.
            0..2 => {
                let from = self.route.clock.now();
                self.rest(lease / 1_000 * 11 / 10, lease / 1_000 * 13 / 10);
                self.confess("client frozen", from);
            }
            2..20 => self.work_on(wish, &token, lease),
            20..25 => self.rest(20, 120),
            _ => {}
        }
        self.write(wish, &token, fence);
        match self.random.u8(..100) {
            // The lease is left to end it.
            0..2 => {}
            2..4 => self.hang_up(false),
            4..6 => self.hang_up(true),
            _ => {
                let release = LockCall::Release { token };
                self.persist(3, |worker| worker.lock(&wish.keys, release.clone()));
            }
        }
    }

    /// Extends the hold while it works; of several locks by asking for all of them again.
    fn work_on(&mut self, wish: &Wish, token: &str, lease: Time) {
        for _ in 0..self.random.u8(1..4) {
            self.rest(0, 60);
            let token = token.to_owned();
            let call = match wish.keys.as_slice() {
                [_] => LockCall::Extend { token, lease },
                _ => LockCall::Acquire { token, mode: wish.mode, lease, wait: None, session: false },
            };
            if let Outcome::Unknown(_) | Outcome::Refused(_) = self.lock(&wish.keys, call) {
                break;
            }
        }
    }

    fn write(&mut self, wish: &Wish, token: &str, fence: i64) {
        if wish.writes {
            for key in &wish.keys {
                let (key, token) = (key.clone(), token.to_owned());
                self.record.note(Note::Write { key, token, fence });
            }
        }
    }
}
