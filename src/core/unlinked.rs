//! Values that lost their key: deleted, overwritten, or renamed. The value itself cannot tell these cases apart.
//!
//! The value keeps an [`Unlinked`], and the searcher keeps an [`UnlinkedWatch`]. The watch ends when the value is destroyed, on any thread,
//! or when it is found under a new key.

use std::sync::{Arc, Weak};

/// Part of the value: its key is unknown.
#[derive(Debug, Default)]
pub struct Unlinked(Arc<()>);

/// Outside of the value: tells whether the value still exists and has not been found.
#[derive(Debug)]
pub struct UnlinkedWatch(Weak<()>);

impl Unlinked {
    /// A watch on this value.
    pub fn watch(&self) -> UnlinkedWatch {
        UnlinkedWatch(Arc::downgrade(&self.0))
    }
}

impl UnlinkedWatch {
    /// Whether the value still exists and has not been found.
    pub fn is_missing(&self) -> bool {
        self.0.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_with_the_value_even_on_another_thread() {
        let unlinked = Unlinked::default();
        let watch = unlinked.watch();
        assert!(watch.is_missing());
        std::thread::spawn(move || drop(unlinked)).join().unwrap();
        assert!(!watch.is_missing());
    }
}
