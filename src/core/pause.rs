//! Pauses between two looks or two tries.

use super::time::{Millis, UnixMs};

/// A time until which something is left alone.
///
/// A pause never gets longer when the clock is set back: it is over then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    began: UnixMs,
    end: Option<UnixMs>,
}

impl Pause {
    /// A pause of `length` that begins at `now`.
    pub fn begin(now: UnixMs, length: Millis) -> Self {
        Self { began: now, end: now.plus(length) }
    }

    /// The end of the pause, or `None` if the pause is over at `now`.
    pub fn look(&mut self, now: UnixMs) -> Option<UnixMs> {
        self.end.take_if(|end| end.reached(now) || now < self.began);
        self.end
    }

    /// The end of the pause, or `None` if the pause was over at the last look.
    pub fn end(&self) -> Option<UnixMs> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_in_time_and_when_the_clock_is_set_back() {
        let begun = Pause::begin(UnixMs(9_000), Millis(50));
        let look = |now| {
            let mut pause = begun;
            pause.look(UnixMs(now))
        };
        assert_eq!((look(9_000), look(9_049)), (Some(UnixMs(9_050)), Some(UnixMs(9_050))));
        assert_eq!((look(9_050), look(8_999)), (None, None));
        let mut over = begun;
        assert_eq!((over.look(UnixMs(1_000)), over.end(), over.look(UnixMs(9_000))), (None, None, None));
        assert_eq!((begun.end(), Pause::default().end()), (Some(UnixMs(9_050)), None));
    }
}
