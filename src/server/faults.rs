//! Injected panics for tests (`make test-panics`), only in debug builds.

/// A point where a panic can be injected. In a release build it does nothing.
#[inline]
pub fn point() {
    #[cfg(debug_assertions)]
    injected::pass();
}

/// Like [`point`], before a reply begins. The rest of a reply is written from complete values.
#[inline]
pub fn reply_point() {
    #[cfg(debug_assertions)]
    injected::reply();
}

/// Runs `f`, which calls a command of ours only to ask the server something. No injected panic strikes that command: panics are meant for what
/// a test does.
#[inline]
pub fn spare<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    let _spared = super::cell::Marked::set(&injected::SPARED, true);
    f()
}

#[cfg(debug_assertions)]
pub use injected::{Entry, Fault, arm, seen};

#[cfg(debug_assertions)]
mod injected {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A panic to inject.
    pub struct Fault {
        /// The name of the entry that it strikes.
        pub doing: Vec<u8>,
        /// The number of the point before which it strikes; 0 for the start.
        pub point: u64,
        /// How many times it strikes.
        pub times: u64,
    }

    static ARMED: Mutex<Option<Fault>> = Mutex::new(None);

    /// The number of injected panics.
    static STRUCK: AtomicU64 = AtomicU64::new(0);

    /// The most points that an entry chosen by the armed panic has passed.
    static MOST: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The point at which the current entry on this thread panics; `None` if no panic is armed for it.
        static STRIKES_AT: Cell<Option<u64>> = const { Cell::new(None) };
        /// How many points it has reached.
        static PASSED: Cell<u64> = const { Cell::new(0) };
        /// Whether it has begun to reply.
        static REPLYING: Cell<bool> = const { Cell::new(false) };
        /// Whether no entry is struck now.
        pub static SPARED: Cell<bool> = const { Cell::new(false) };
    }

    /// Arms `fault`, replacing the one before: the next entries with its name panic at its point.
    pub fn arm(fault: Fault) {
        STRIKES_AT.set(None);
        if !fault.doing.is_empty() {
            MOST.store(0, Ordering::Relaxed);
        }
        *armed() = Some(fault).filter(|fault| !fault.doing.is_empty() && fault.times > 0);
    }

    /// The number of injected panics, and the most points that a chosen entry has reached since the last arming.
    pub fn seen() -> (u64, u64) {
        (STRUCK.load(Ordering::Relaxed), MOST.load(Ordering::Relaxed))
    }

    /// One entry from the server, while it runs.
    pub struct Entry {
        /// Whether a panic is armed for it.
        chosen: bool,
    }

    impl Entry {
        /// Begins the entry `doing`; panics if a panic is armed for its start.
        pub fn begin(doing: &str) -> Self {
            let strikes = |fault: &&Fault| fault.doing == doing.as_bytes() && !SPARED.get();
            let found = armed().as_ref().filter(strikes).map(|fault| fault.point);
            let entry = Self { chosen: found.is_some() };
            if let Some(point) = found {
                REPLYING.set(false);
                PASSED.set(0);
                STRIKES_AT.set(Some(point));
            }
            if found == Some(0) {
                strike();
            }
            entry
        }
    }

    impl Drop for Entry {
        fn drop(&mut self) {
            if self.chosen {
                STRIKES_AT.set(None);
                MOST.fetch_max(PASSED.get(), Ordering::Relaxed);
            }
        }
    }

    pub fn pass() {
        let Some(point) = STRIKES_AT.get() else { return };
        PASSED.set(PASSED.get().saturating_add(1));
        if PASSED.get() == point {
            strike();
        }
    }

    pub fn reply() {
        if !REPLYING.replace(true) {
            pass();
        }
    }

    #[expect(clippy::panic, reason = "that is what it is for")]
    fn strike() {
        STRIKES_AT.set(None);
        STRUCK.fetch_add(1, Ordering::Relaxed);
        let mut fault = armed();
        if let Some(fault) = fault.as_mut() {
            fault.times = fault.times.saturating_sub(1);
        }
        fault.take_if(|fault| fault.times == 0);
        drop(fault);
        panic!("injected");
    }

    fn armed() -> MutexGuard<'static, Option<Fault>> {
        ARMED.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
