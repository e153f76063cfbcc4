//! State that only the main thread uses.

use std::cell::{Cell, RefCell};

thread_local! {
    /// Whether this thread is the one that loaded the module: the server's main thread.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as the main thread. Called once, when the module is loaded.
pub fn claim_main_thread() {
    IS_MAIN.set(true);
}

/// A global that only the main thread may use, and without re-entry.
///
/// The server runs modules on a single thread, with two exceptions: values may be freed on a background thread, and a call into the server
/// can call back into us. Both are refused here.
pub struct MainCell<T>(RefCell<T>);

// SAFETY: `with` touches the inner value only on the one thread that called `claim_main_thread`.
unsafe impl<T> Sync for MainCell<T> {}

impl<T> MainCell<T> {
    /// A cell with `value`.
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Runs `f` on the value; `None` on another thread, or while an outer call is using it.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !IS_MAIN.get() {
            return None;
        }
        self.0.try_borrow_mut().ok().map(|mut value| f(&mut value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_main_thread_gets_in_and_only_once() {
        static CELL: MainCell<u32> = MainCell::new(1);
        claim_main_thread();
        assert_eq!(CELL.with(|value| CELL.with(|_| ()).is_none() && *value == 1), Some(true));
        assert_eq!(std::thread::spawn(|| CELL.with(|_| ())).join().unwrap(), None);
        assert_eq!(CELL.with(|value| *value), Some(1), "free again");
    }
}
