//! `PX ms | EX s`: the lease that several commands take.

use crate::config;
use crate::core::time::{Millis, UnixMs};
use crate::error::Error;
use crate::server::args::{Args, Range};
use crate::server::register::Arg;

/// How the choice of units appears in the documentation.
pub const LEASE: Arg =
    Arg::one_of(c"lease", &[Arg::integer(c"milliseconds").after(c"PX"), Arg::integer(c"seconds").after(c"EX")])
        .optional();

/// The lease that a request names, if it does.
#[derive(Default)]
pub struct Lease(Option<Millis>);

impl Lease {
    /// Takes the value behind `PX` or `EX`; any other word, or a second one of the two, is a syntax error. Any positive lease is
    /// legal that ends at a 64-bit millisecond time, counted from `now`.
    pub fn option(&mut self, word: &[u8], args: &mut Args<'_>, now: UnixMs) -> Result<(), Error> {
        let longest = UnixMs(i64::MAX).left(now).0;
        let lease = match word {
            b"PX" if self.0.is_none() => args.integer("PX", Range::new(1..=longest))?,
            b"EX" if self.0.is_none() => {
                let seconds = args.integer("EX", Range::new(1..=longest.wrapping_div(1_000)))?;
                seconds.saturating_mul(1_000)
            }
            _ => return Err(Error::Syntax),
        };
        self.0 = Some(Millis(lease));
        Ok(())
    }

    /// The lease, or the configured one.
    pub fn or_default(self) -> Millis {
        self.0.unwrap_or_else(config::default_lease)
    }
}
