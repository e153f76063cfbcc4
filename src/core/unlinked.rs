//! Values that lost their name: deleted, overwritten, or renamed, which from where they stand looks the same.
//!
//! The value has an [`Unlinked`], and whoever looks for it an [`UnlinkedWatch`]. The watch ends when the value is destroyed, on whichever
//! thread that may be, or when it has been found under a new name.

use std::sync::{Arc, Weak};

/// In the value: it has no name that anybody knows.
#[derive(Debug, Default)]
pub struct Unlinked(Arc<()>);

/// Outside: tells whether the value still exists and has not been found.
#[derive(Debug)]
pub struct UnlinkedWatch(Weak<()>);

impl Unlinked {
    /// A watch on this value.
    #[must_use]
    pub fn watch(&self) -> UnlinkedWatch {
        UnlinkedWatch(Arc::downgrade(&self.0))
    }
}

impl UnlinkedWatch {
    /// Whether the value is still out there.
    #[must_use]
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
