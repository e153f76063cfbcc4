//! The bytes that values are kept in: numbers of variable length and strings with their length in front.
//!
//! Whatever is read may be damaged or hostile. Nothing is trusted, nothing is allocated on a promise.

/// Why bytes are not a value of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// Written by a newer version, whose format this one does not know.
    Newer(u8),
    /// The bytes end too early.
    Truncated,
    /// The bytes say something that cannot be.
    Invalid,
}

/// Appends values to a byte string.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

/// Takes values off a byte string, in the order they were written.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl Writer {
    /// One byte as it is.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// A number: seven bits per byte, the lowest first; the top bit says that more follow.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }

    /// A string with its length in front.
    pub fn string(&mut self, string: &[u8]) {
        self.number(u64::try_from(string.len()).unwrap_or(u64::MAX));
        self.bytes.extend_from_slice(string);
    }

    /// What was written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

impl<'a> Reader<'a> {
    /// Starts in front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// One byte as it is.
    ///
    /// # Errors
    /// [`Corrupt::Truncated`] at the end.
    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        let (byte, rest) = self.rest.split_first().ok_or(Corrupt::Truncated)?;
        self.rest = rest;
        Ok(*byte)
    }

    /// A number, in the one form that [`Writer::number`] gives it.
    ///
    /// # Errors
    /// [`Corrupt::Truncated`], or [`Corrupt::Invalid`] if it has needless bytes or more than 64 bits.
    pub fn number(&mut self) -> Result<u64, Corrupt> {
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

    /// A string with its length in front.
    ///
    /// # Errors
    /// [`Corrupt`] if it is not all there.
    pub fn string(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = usize::try_from(self.number()?).map_err(|_| Corrupt::Truncated)?;
        let (string, rest) = self.rest.split_at_checked(len).ok_or(Corrupt::Truncated)?;
        self.rest = rest;
        Ok(string)
    }

    /// Checks that nothing is left over.
    ///
    /// # Errors
    /// [`Corrupt::Invalid`] if something is.
    pub fn finish(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        ] {
            assert_eq!(Reader::new(bytes).number(), number, "{bytes:?}");
        }
    }

    #[test]
    fn a_string_longer_than_the_bytes_is_refused_without_allocating_for_it() {
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        writer.byte(b'x');
        assert_eq!(Reader::new(&writer.finish()).string(), Err(Corrupt::Truncated));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(numbers: Vec<u64>, strings: Vec<Vec<u8>>) {
            let mut writer = Writer::default();
            for number in &numbers { writer.number(*number); }
            for string in &strings { writer.string(string); }
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes);
            for number in &numbers { prop_assert_eq!(reader.number(), Ok(*number)); }
            for string in &strings { prop_assert_eq!(reader.string(), Ok(&string[..])); }
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }
}
