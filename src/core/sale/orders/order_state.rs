//! The states of an order.

/// The bits of a record's first byte that say the state, and the one that says that it waits.
pub(super) const STATE: u8 = 0b1000_0011;
pub(super) const WAITING: u8 = 0b1000_0000;

/// The state of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Reserved until its deadline.
    Held,
    /// Bought.
    Sold,
    /// Given back by the caller.
    Cancelled,
    /// Given back by itself, at its deadline.
    Expired,
    /// On the waitlist: it has nothing yet.
    Waiting,
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

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Sold => 1,
            Self::Cancelled => 2,
            Self::Expired => 3,
            Self::Waiting => WAITING,
        }
    }

    pub(super) fn of_code(code: u8) -> Self {
        match code & STATE {
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
    fn words_and_codes_of_states() {
        for state in State::ALL {
            assert_eq!(State::of_code(state.code()), state);
        }
        assert_eq!(State::ALL.map(State::word), ["held", "sold", "cancelled", "expired", "waiting"]);
    }
}
