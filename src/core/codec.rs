//! The encoding of values: numbers of variable length, and strings with a length prefix. Locks and sales use it in files and payloads, and
//! orders in memory as well.
//!
//! The input may be damaged or hostile. The reader trusts nothing, and never allocates memory for an announced length.

use derive_more::Display;

use super::invariant::Known;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum Corrupt {
    /// Written by a newer version, in a format that this version does not know.
    #[display(
        "its format {version} is newer than {newest}, the newest this version of lockstock reads; use a newer one"
    )]
    Newer {
        /// The version in the bytes.
        version: u8,
        /// The newest version that can be read.
        newest: u8,
    },
    /// The bytes end too early.
    #[display("it ends early")]
    Truncated,
    /// The bytes contain an impossible value.
    #[display("it says what cannot be")]
    Invalid,
}

/// Appends values to a byte string.
pub trait Encode {
    /// A number: seven bits per byte, the lowest first; the top bit means that more bytes follow.
    fn number(&mut self, number: u64);
    /// A signed number. Numbers near zero are short.
    fn signed(&mut self, number: i64);
    /// A string with a length prefix.
    fn string(&mut self, string: &[u8]);
}

/// Reads values from a byte string, in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl Encode for Vec<u8> {
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.push(number.to_le_bytes()[0]);
    }

    #[inline]
    fn signed(&mut self, number: i64) {
        self.number((number.wrapping_shl(1) ^ number.wrapping_shr(63)).cast_unsigned());
    }

    fn string(&mut self, string: &[u8]) {
        self.number(u64::try_from(string.len()).ok().or_invariant("a length fits 64 bits", u64::MAX));
        self.extend_from_slice(string);
    }
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the version, which is the first of `bytes`, and returns it with a reader for the rest. It must be 1 to `newest`.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no version, or one out of this range.
    pub fn versioned(bytes: &'a [u8], newest: u8) -> Result<(Self, u8), Corrupt> {
        let mut reader = Self::new(bytes);
        match reader.byte()? {
            0 => Err(Corrupt::Invalid),
            version if version > newest => Err(Corrupt::Newer { version, newest }),
            version => Ok((reader, version)),
        }
    }

    /// The bytes that have not been read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte, unchanged.
    ///
    /// # Errors
    /// [`Corrupt::Truncated`] at the end.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        let (byte, rest) = self.rest.split_first().ok_or(Corrupt::Truncated)?;
        self.rest = rest;
        Ok(*byte)
    }

    /// The next `len` bytes, unchanged.
    ///
    /// # Errors
    /// [`Corrupt::Truncated`] if there are fewer.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Corrupt::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number, in exactly the form that [`Encode::number`] writes.
    ///
    /// # Errors
    /// [`Corrupt::Truncated`], or [`Corrupt::Invalid`] if it has needless bytes or more than 64 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Corrupt> {
        // Most numbers have one byte.
        match self.rest.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Corrupt> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Corrupt::Invalid);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Corrupt::Invalid)
    }

    /// Passes over a number; `None` if it has no end. Only for bytes that this module wrote. It is called so often that the text of an
    /// error would cost too much.
    #[inline]
    pub fn skip_number(&mut self) -> Option<()> {
        let last = self.rest.iter().position(|byte| *byte < 0x80)?;
        self.rest = self.rest.get(last.wrapping_add(1)..)?;
        Some(())
    }

    /// A signed number, as [`Encode::signed`] wrote it.
    ///
    /// # Errors
    /// As [`Reader::number`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Corrupt> {
        let folded = self.number()?;
        Ok((folded >> 1).cast_signed() ^ (folded & 1).cast_signed().wrapping_neg())
    }

    /// A string with a length prefix.
    ///
    /// # Errors
    /// [`Corrupt`] if it is incomplete.
    pub fn string(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = usize::try_from(self.number()?).map_err(|_| Corrupt::Truncated)?;
        self.take(len)
    }

    /// Checks that everything has been read.
    ///
    /// # Errors
    /// [`Corrupt::Invalid`] if bytes are left.
    pub fn finish(self) -> Result<(), Corrupt> {
        if self.is_empty() { Ok(()) } else { Err(Corrupt::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::limits::MAX_EXACT;

    #[test]
    fn a_number_has_one_form_only() {
        for (bytes, number) in [
            (&[0][..], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0x80, 1], Ok(128)),
            (&[0x80, 0], Err(Corrupt::Invalid)),
            (&[0x80], Err(Corrupt::Truncated)),
            (&[], Err(Corrupt::Truncated)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Ok(u64::MAX)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], Err(Corrupt::Invalid)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0], Err(Corrupt::Invalid)),
            (&[0xff; 10], Err(Corrupt::Invalid)),
            (&[0xff; 11], Err(Corrupt::Invalid)),
        ] {
            assert_eq!(Reader::new(bytes).number(), number, "{bytes:?}");
        }
    }

    #[test]
    fn a_string_longer_than_the_bytes_is_refused_without_allocating_for_it() {
        let mut writer = Vec::new();
        writer.number(u64::MAX);
        writer.push(b'x');
        assert_eq!(Reader::new(&writer).string(), Err(Corrupt::Truncated));
    }

    #[test]
    fn the_ends_of_the_range_come_back() {
        for number in [0, 1, 127, 128, MAX_EXACT, u64::MAX] {
            let mut writer = Vec::new();
            writer.number(number);
            assert_eq!(Reader::new(&writer).number(), Ok(number));
        }
        assert_eq!(Reader::new(&[1, 2]).take(3), Err(Corrupt::Truncated));
    }

    #[test]
    fn a_version_is_known_newer_or_none() {
        assert!(Reader::versioned(&[2, 7], 2).is_ok_and(|(reader, version)| version == 2 && reader.rest() == [7]));
        assert_eq!(Reader::versioned(&[3], 2).err(), Some(Corrupt::Newer { version: 3, newest: 2 }));
        assert_eq!(Reader::versioned(&[0], 2).err(), Some(Corrupt::Invalid));
        assert_eq!(Reader::versioned(&[], 2).err(), Some(Corrupt::Truncated));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(numbers: Vec<u64>, strings: Vec<Vec<u8>>) {
            let mut writer = Vec::new();
            for number in &numbers { writer.number(*number); }
            for string in &strings { writer.string(string); }
            let mut reader = Reader::new(&writer);
            for number in &numbers { prop_assert_eq!(reader.number(), Ok(*number)); }
            for string in &strings { prop_assert_eq!(reader.string(), Ok(&string[..])); }
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn any_signed_number_comes_back(value: i64, tail: u8) {
            let mut writer = Vec::new();
            writer.signed(value);
            writer.push(tail);
            let mut reader = Reader::new(&writer);
            prop_assert_eq!(reader.signed(), Ok(value));
            prop_assert_eq!(reader.rest(), &[tail]);
            let mut reader = Reader::new(&writer);
            reader.skip_number().unwrap();
            prop_assert_eq!(reader.rest(), &[tail]);
        }
    }
}
