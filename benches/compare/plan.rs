//! How much is done: all of it in about ten minutes, or a taste of it in two.

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
        self.whole() || self.only.iter().any(|name| name == chapter)
    }

    /// Whether everything is wanted.
    pub fn whole(&self) -> bool {
        self.only.is_empty()
    }

    /// The first number in a full run, the second one in a quick one.
    pub fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How often each way has its turn. Odd, so that there is a median.
    pub fn rounds(&self) -> usize {
        self.either(5, 3)
    }

    /// How long a round may take, whatever it has got done.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.either(1_500, 600))
    }
}
