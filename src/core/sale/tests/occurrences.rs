//! What has happened in the random schedules of a test, so that a test can tell that it tests something.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::schedule::schedules;

thread_local! {
    static SEEN: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// It has happened, once more.
pub fn saw(what: &'static str) {
    SEEN.with_borrow_mut(|seen| *seen.entry(what).or_default() += 1);
}

/// Each of these has happened, if there were so many schedules that it must have.
pub fn must_have_seen(whats: &[&str], enough: u32) {
    SEEN.with_borrow(|seen| {
        println!("{} schedules: {seen:#?}", schedules());
        let missing: Vec<_> = whats.iter().filter(|what| !seen.contains_key(*what)).collect();
        assert!(missing.is_empty() || schedules() < enough, "never seen: {missing:?}");
    });
}
