//! State that only the thread with the server's lock uses.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::LocalKey;

thread_local! {
    /// Whether this thread is the one that loaded the module: the server's main thread.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread may be running without the server's lock.
    static IS_UNLOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as the main thread. Called once, when the module is loaded.
pub fn claim_main_thread() {
    IS_MAIN.set(true);
}

/// Whether this is the server's main thread. Another module may call commands from a thread of its own.
pub fn is_main_thread() -> bool {
    IS_MAIN.get()
}

/// Runs `f` for an entry that the server makes without its lock, on any thread: every cell refuses it, unless this is the main thread.
pub(super) fn without_lock<R>(f: impl FnOnce() -> R) -> R {
    let _marked = Marked::set(&IS_UNLOCKED, !is_main_thread());
    f()
}

/// A mark of this thread, until the drop.
pub(super) struct Marked {
    mark: &'static LocalKey<Cell<bool>>,
    /// The mark before this one, which the drop restores.
    pub(super) before: bool,
}

impl Marked {
    pub(super) fn set(mark: &'static LocalKey<Cell<bool>>, value: bool) -> Self {
        Self { mark, before: mark.replace(value) }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.mark.set(self.before);
    }
}

/// A global that only the thread with the server's lock may use, and without re-entry.
///
/// The server calls us with its lock: on its main thread, or on the thread of another module that took the lock to call a command. It also
/// frees values on background threads, without the lock; such a thread is refused. So is a call into the server that calls back into us.
pub struct ServerCell<T> {
    value: UnsafeCell<T>,
    is_in_use: AtomicBool,
}

// SAFETY: `with` makes at most one reference to the value at a time. Two threads never meet in it, because one of them has the server's lock
// and all others are refused. The value may be used and dropped on any thread, because it is `Send`.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    /// A cell with `value`.
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_in_use: AtomicBool::new(false) }
    }

    /// Runs `f` on the value; `None` on a thread without the server's lock, or while an outer call is using the value.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        // A load and a store are enough, and cheaper than an exchange: no other thread is here.
        if IS_UNLOCKED.get() || self.is_in_use.load(Ordering::Acquire) {
            return None;
        }
        self.is_in_use.store(true, Ordering::Relaxed);
        let _use = Use(&self.is_in_use);
        // SAFETY: this thread has the server's lock, and `is_in_use` keeps out any inner call until `f` has returned or panicked.
        Some(f(unsafe { &mut *self.value.get() }))
    }
}

/// One use of a cell; its end frees the cell, also in a panic.
struct Use<'a>(&'a AtomicBool);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::thread;

    use super::*;

    #[test]
    fn an_inner_call_is_refused_and_a_panic_frees_the_cell() {
        static CELL: ServerCell<u32> = ServerCell::new(1);
        assert_eq!(CELL.with(|value| CELL.with(|_| ()).is_none() && *value == 1), Some(true));
        assert!(panic::catch_unwind(|| CELL.with(|_| panic!("a fault"))).is_err());
        assert_eq!(CELL.with(|value| *value), Some(1));
    }

    #[test]
    fn a_thread_without_the_lock_is_refused_and_the_main_thread_is_not() {
        static CELL: ServerCell<u32> = ServerCell::new(1);
        let seen = thread::spawn(|| {
            let inside = without_lock(|| without_lock(|| CELL.with(|_| ())).or_else(|| CELL.with(|_| ())));
            (inside, CELL.with(|value| *value))
        });
        assert_eq!(seen.join().unwrap(), (None, Some(1)));
        let main = thread::spawn(|| {
            claim_main_thread();
            without_lock(|| CELL.with(|value| *value))
        });
        assert_eq!(main.join().unwrap(), Some(1));
    }
}
