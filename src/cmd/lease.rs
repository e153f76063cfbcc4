//! `PX ms | EX s`: the lease option of several commands.

use super::fence::{FENCE_WORD, fence};
use super::{Args, Error, Param};
use crate::config;
use crate::core::fence::Fence;
use crate::core::lock::Extension;
use crate::core::time::{Millis, UnixMs};

/// The option in the documentation.
pub const LEASE: Param =
    Param::one_of(c"lease", &[Param::integer(c"milliseconds").after(c"PX"), Param::integer(c"seconds").after(c"EX")])
        .optional();

/// The lease of a request, if it names one.
#[derive(Default)]
pub struct Lease(Option<Millis>);

impl Lease {
    /// Parses the value after `PX` or `EX`; any other word, or a second lease, is a syntax error. A lease must be positive, and `now` plus
    /// the lease must fit in a 64-bit millisecond time.
    pub fn option(&mut self, word: &[u8], args: &mut Args<'_>, now: UnixMs) -> Result<(), Error> {
        self.0 = Some(match word {
            b"PX" if self.0.is_none() => args.span_from("PX", 1, now)?,
            b"EX" if self.0.is_none() => args.span_from("EX", 1_000, now)?,
            _ => return Err(args.unknown().into()),
        });
        Ok(())
    }

    /// The extension of a hold by this lease: without a named lease the hold ends after the default lease, but not sooner than it would have.
    fn extension(self) -> Extension {
        Extension { only_later: self.0.is_none(), lease: self.or_default() }
    }

    /// The lease, or the default from the settings.
    pub fn or_default(self) -> Millis {
        self.0.unwrap_or_else(config::default_lease)
    }
}

/// Parses `[PX ms | EX s] [FENCE fence]` at the end of a command: the change of the lease, and the fence.
pub fn extension(mut args: Args<'_>, now: UnixMs) -> Result<(Extension, Option<Fence>), Error> {
    let (mut lease, mut named) = (Lease::default(), None);
    while let Some(word) = args.keyword() {
        match word.text() {
            FENCE_WORD if named.is_none() => named = Some(fence(&mut args)?),
            other => lease.option(other, &mut args, now)?,
        }
    }
    Ok((lease.extension(), named))
}
