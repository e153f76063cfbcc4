//! Commands, as clients, the primary and an append-only file send them.

use super::simulator::Simulator;
use crate::core::time::{Millis, UnixMs};

/// Carries out one command after another: the lines of `data`, with a blank between two words.
///
/// A line of its own lets time pass (`+500`, in milliseconds), another connection speak (`@2`), or the one that speaks
/// hang up (`@!`).
pub fn requests(data: &[u8]) {
    let mut stage = Simulator::at(UnixMs(1_700_000_000_000));
    for line in data.split(|byte| *byte == b'\n') {
        match line {
            [b'+', span @ ..] => stage.pass(Millis(i64::try_from(number(span)).unwrap_or(i64::MAX))),
            b"@!" => stage.hang_up(),
            [b'@', client @ ..] => stage.turn_to(number(client)),
            line => {
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
                // That it is refused is as good an outcome as any.
                drop(stage.call(&words));
            }
        }
    }
    stage.pass(Millis(0));
}

fn number(digits: &[u8]) -> u64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(1)
}
