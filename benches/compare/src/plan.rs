//! How much is done: all of it in half an hour or more, or a taste of it in a few minutes.

use std::env;
use std::time::Duration;

#[derive(Clone)]
pub struct Plan {
    pub quick: bool,
    /// The only chapters that are wanted; none: all.
    only: Vec<String>,
}

impl Plan {
    /// `QUICK` set to anything but nothing and 0 asks for the short run, `ONLY=cycles,sales` for some chapters.
    pub fn from_env() -> Self {
        let only = env::var("ONLY").unwrap_or_default();
        Self {
            quick: env::var("QUICK").is_ok_and(|quick| !quick.is_empty() && quick != "0"),
            only: only.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        }
    }

    pub fn wants(&self, chapter: &str) -> bool {
        // Counting instructions takes its time, and is the same on any day.
        let left_out = self.quick && ["instructions", "guard"].contains(&chapter);
        (self.whole() && !left_out) || self.only.iter().any(|name| name == chapter)
    }

    /// What the page of a run of some chapters is called, if `KEEP` says that it is to be kept.
    pub fn page(&self) -> Option<String> {
        env::var_os("KEEP").map(|_| self.only.join("-"))
    }

    /// Whether everything is wanted.
    pub fn whole(&self) -> bool {
        self.only.is_empty()
    }

    /// The first number in a full run, the second one in a quick one.
    pub fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Rounds where a turn is short.
    pub fn rounds(&self) -> usize {
        self.either(5, 3)
    }

    /// Operations of a turn whose commands come one at a time, or in pipelines.
    pub fn goal(&self, depth: usize) -> u64 {
        if depth == 1 { self.either(40_000, 10_000) } else { self.either(150_000, 50_000) }
    }

    /// How long a turn may take, whatever it has got done.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.either(1_000, 300))
    }
}
