//! Bytes in and out: the few shapes that records, snapshots and digests are made of.
//!
//! Numbers are little-endian base-128 varints, so that a small sale stays small. Reading never trusts a length: whatever
//! does not fit the bytes at hand is `None`.

/// The longest varint of a `u64`, in bytes.
const LONGEST: u32 = 10;

/// Reads from the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next varint; `None` also for one that a `u64` cannot hold, or that is longer than it need be.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for place in 0..LONGEST {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shift = place.wrapping_mul(7);
            let shifted = bits.wrapping_shl(shift);
            if shifted.wrapping_shr(shift) != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return (place == 0 || byte != 0).then_some(value);
            }
        }
        None
    }

    /// Passes over a varint.
    #[inline]
    pub fn skip_varint(&mut self) -> Option<()> {
        let last = self.0.iter().position(|byte| byte & 0x80 == 0)?;
        self.0 = self.0.get(last.wrapping_add(1)..)?;
        Some(())
    }

    /// The next signed number, as [`put_signed`] wrote it.
    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        let folded = self.varint()?;
        Some((folded >> 1).cast_signed() ^ (folded & 1).cast_signed().wrapping_neg())
    }
}

/// Appends `value` as a varint of 1 to 10 bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends `value` so that numbers near zero, of either sign, are short.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value.wrapping_shl(1) ^ value.wrapping_shr(63)).cast_unsigned());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_range_come_back() {
        for value in [0, 1, 127, 128, (1 << 53) - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Some(value));
        }
    }

    #[test]
    fn a_number_that_is_too_large_or_cut_short_is_no_number() {
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
        assert_eq!(Reader::new(&[0x80]).varint(), None);
        assert_eq!(Reader::new(&[0x80, 0]).varint(), None, "one zero byte would have done");
        assert_eq!(Reader::new(&[]).varint(), None);
        assert_eq!(Reader::new(&[1, 2]).take(3), None);
    }

    proptest! {
        #[test]
        fn any_signed_number_comes_back(value: i64, tail: u8) {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            out.push(tail);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.signed(), Some(value));
            prop_assert_eq!(reader.rest(), &[tail]);
            let mut reader = Reader::new(&out);
            reader.skip_varint().unwrap();
            prop_assert_eq!(reader.rest(), &[tail]);
        }
    }
}
