//! What the locks guard: a register for each, which refuses stale fences.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::history::{Clock, Write};

/// All registers. They are outside the servers, so nothing that happens there touches them.
pub struct Guard {
    clock: Clock,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// The largest fence that each has seen.
    largest: HashMap<String, i64>,
    writes: Vec<Write>,
}

impl Guard {
    /// None of them has seen a fence.
    pub fn new(clock: Clock) -> Self {
        Self { clock, inside: Mutex::default() }
    }

    /// A holder writes.
    pub fn write(&self, key: &str, token: &str, fence: i64) {
        let mut inside = self.inside.lock().expect("no thread panicked");
        let at = self.clock.now();
        let largest = inside.largest.entry(key.to_owned()).or_insert(fence);
        let accepted = fence >= *largest;
        *largest = fence.max(*largest);
        inside.writes.push(Write { key: key.to_owned(), token: token.to_owned(), fence, at, accepted });
    }

    /// Every attempt so far.
    pub fn writes(&self) -> Vec<Write> {
        self.inside.lock().expect("no thread panicked").writes.clone()
    }
}
