//! The options of a request for units: whose they are, how long they are held, and the reference.

use super::{Args, Error};
use crate::core::sale::Take;
use crate::core::time::UnixMs;

/// The options that were read so far.
#[derive(Default)]
pub struct OrderOptions<'a> {
    buyer: Option<&'a [u8]>,
    deadline: Option<UnixMs>,
    reference: Option<&'a [u8]>,
}

impl<'a> OrderOptions<'a> {
    /// Reads the value of the option `word` in a request at `now`. An unknown or repeated option is a syntax error.
    pub fn option(&mut self, word: &[u8], args: &mut Args<'a>, now: UnixMs) -> Result<(), Error> {
        match word {
            b"BUYER" if self.buyer.is_none() => self.buyer = Some(args.ident_bytes("BUYER")?),
            b"HOLD" if self.deadline.is_none() => {
                self.deadline = now.plus(args.span_from("HOLD", 1, now)?);
            }
            b"REF" if self.reference.is_none() => self.reference = Some(args.ident_bytes("REF")?),
            _ => return Err(args.unknown().into()),
        }
        Ok(())
    }

    /// The request for `units` for `id`.
    pub fn take(&self, id: &'a [u8], units: u64) -> Take<'a> {
        let (buyer, deadline, reference) = (self.buyer, self.deadline, self.reference.unwrap_or_default());
        Take { id, units, buyer, deadline, reference }
    }
}
