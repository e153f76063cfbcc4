//! Faults on purpose: only in builds with the feature `inject-faults`, which exist to be tested (`make test-panics`).

/// A step of the work that a fault may come before. In a build without the feature this is nothing.
#[inline]
pub fn point() {
    #[cfg(feature = "inject-faults")]
    injected::pass();
}

/// As [`point`], before a reply is begun: what follows of it is written from values that are all there.
#[inline]
pub fn reply_point() {
    #[cfg(feature = "inject-faults")]
    injected::reply();
}

#[cfg(feature = "inject-faults")]
pub use injected::{Entry, Fault, arm, seen};

#[cfg(feature = "inject-faults")]
mod injected {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A fault to come.
    pub struct Fault {
        /// What it strikes.
        pub doing: Vec<u8>,
        /// Before which point of it; 0: at its start.
        pub point: u64,
        /// How often.
        pub times: u64,
    }

    static ARMED: Mutex<Option<Fault>> = Mutex::new(None);

    /// How many faults have struck.
    static STRUCK: AtomicU64 = AtomicU64::new(0);

    /// The most points that an entry came to that the fault was armed for.
    static MOST: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// How many points the entry that is running on this thread has to come to for the fault; 0: none is for it.
        static LEFT: Cell<u64> = const { Cell::new(0) };
        /// To how many it has come.
        static PASSED: Cell<u64> = const { Cell::new(0) };
        /// Whether it has begun to reply.
        static REPLYING: Cell<bool> = const { Cell::new(false) };
    }

    /// Has the next entries from the server that do what `fault` says, and come so far, panic, in place of any armed before.
    pub fn arm(fault: Fault) {
        LEFT.set(0);
        if !fault.doing.is_empty() {
            MOST.store(0, Ordering::Relaxed);
        }
        *armed() = Some(fault).filter(|fault| !fault.doing.is_empty() && fault.times > 0);
    }

    /// How many faults have struck, and the most points that an entry came to since the last one was armed for it.
    pub fn seen() -> (u64, u64) {
        (STRUCK.load(Ordering::Relaxed), MOST.load(Ordering::Relaxed))
    }

    /// One entry from the server, while it runs.
    pub struct Entry {
        /// Whether the fault is armed for it.
        chosen: bool,
    }

    impl Entry {
        /// An entry that does `doing` begins; panics if that is where the fault is to be.
        pub fn begin(doing: &str) -> Self {
            let found = armed().as_ref().filter(|fault| fault.doing == doing.as_bytes()).map(|fault| fault.point);
            let entry = Self { chosen: found.is_some() };
            if let Some(point) = found {
                REPLYING.set(false);
                PASSED.set(0);
                LEFT.set(point);
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
                LEFT.set(0);
                MOST.fetch_max(PASSED.get(), Ordering::Relaxed);
            }
        }
    }

    pub fn pass() {
        let left = LEFT.get();
        if left > 0 {
            PASSED.set(PASSED.get().saturating_add(1));
            LEFT.set(left.saturating_sub(1));
        }
        if left == 1 {
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
        LEFT.set(0);
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
