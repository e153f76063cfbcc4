//! The ways that are compared: each way to lock or to sell, as its own users do it.

use std::time::{Duration, Instant};

use crate::tally::Tally;

pub mod cart;
pub mod floor;
pub mod guard;
pub mod line;
pub mod lock;
pub mod notified;
pub mod plain;
pub mod poll;
pub mod queue;
pub mod redisson;
pub mod sale;
pub mod watch;

/// An owner's token: as long as the UUIDs that most libraries make.
pub fn token(number: usize) -> String {
    format!("82319027-c8f1-4337-8b8d-{number:012}")
}

/// A lease that does not end while anything is measured.
pub const LEASE: &[u8] = b"600000";

/// Deletes a lock if it is one's own, as the libraries do whose lock is `SET NX PX`.
pub const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                                        return redis.call('DEL', KEYS[1]) \
                                      else \
                                        return 0 \
                                      end";

/// What a contender does with a lock once it has it.
#[derive(Clone, Copy)]
pub enum Hold {
    /// Works so long, gives it back and wants it again.
    Works { time: Duration },
    /// Never gives it back: the next one has it when the lease ends.
    Dies { lease: Duration },
}

impl Hold {
    /// The hold has begun: how long to do nothing now; `None` if it is given back at once.
    pub fn begin(self, tally: &mut Tally) -> Option<Duration> {
        match self {
            Self::Dies { lease } => {
                tally.passed = Instant::now() + lease;
                Some(lease * 2)
            }
            Self::Works { time } => (!time.is_zero()).then_some(time),
        }
    }

    /// The lease that is asked for, in milliseconds.
    pub fn lease(self) -> String {
        match self {
            Self::Works { .. } => String::from_utf8_lossy(LEASE).into_owned(),
            Self::Dies { lease } => lease.as_millis().to_string(),
        }
    }
}
