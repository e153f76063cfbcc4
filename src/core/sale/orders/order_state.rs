//! The states of an order.

/// The bits of a record's first byte that say the state, and the one that says that it waits.
pub(super) const STATE: u8 = 0b1000_0011;
pub(super) const WAITING: u8 = 0b1000_0000;

/// The state of an order, with its bits in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Reserved until its deadline.
    Held = 0,
    /// Bought.
    Sold = 1,
    /// Given back by the caller.
    Cancelled = 2,
    /// Given back by itself, at its deadline.
    Expired = 3,
    /// On the waitlist: it has nothing yet.
    Waiting = WAITING,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Held, Self::Sold, Self::Cancelled, Self::Expired, Self::Waiting];

    /// The word of the reply.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Sold => "sold",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Waiting => "waiting",
        }
    }

    /// The state in the first byte of a record.
    pub(super) fn of(flags: u8) -> Self {
        match flags & STATE {
            0 => Self::Held,
            1 => Self::Sold,
            2 => Self::Cancelled,
            3 => Self::Expired,
            _ => Self::Waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bits_of_states() {
        for state in State::ALL {
            assert_eq!(State::of(state as u8), state);
        }
        assert_eq!(State::ALL.map(State::word), ["held", "sold", "cancelled", "expired", "waiting"]);
    }
}
