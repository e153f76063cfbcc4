//! A value that is written under a lock.

use crate::check::judge;
use crate::history::History;

fn verdict(fences: &[i64]) -> Vec<&'static str> {
    let history = History { journal: fences.to_vec(), ..History::default() };
    judge(&history, &[]).violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_write_of_an_older_holder_after_one_of_a_newer_is_seen() {
    assert!(verdict(&[1, 1, 2, 5, 5]).is_empty());
    assert_eq!(verdict(&[1, 2, 1]), ["no late write"]);
    assert_eq!(verdict(&[3, 2, 5, 4, 6]), ["no late write", "no late write"]);
}
