//! Ids as the caller sent them: borrowed, or unpacked from a packed form.

use std::fmt;
use std::ops::Deref;

use crate::core::inline::Inline;

/// The number of bytes that fit without an allocation: a UUID in its usual spelling, or any 64-bit integer.
const SHORT: usize = 36;

/// The bytes of an id, borrowed or owned.
#[derive(Clone)]
pub struct IdText<'a>(Kind<'a>);

#[derive(Clone)]
enum Kind<'a> {
    Borrowed(&'a [u8]),
    Short(Inline<SHORT>),
    Long(Box<[u8]>),
}

impl IdText<'_> {
    /// Empty, for no id. An id is never empty.
    pub const NONE: IdText<'static> = IdText(Kind::Borrowed(&[]));

    /// A copy of `bytes`, which needs no allocation if there are at most 36.
    pub fn copy_of(bytes: &[u8]) -> IdText<'static> {
        IdText(Inline::new(bytes).map_or_else(|| Kind::Long(bytes.into()), Kind::Short))
    }

    /// An owned copy.
    pub fn detach(&self) -> IdText<'static> {
        IdText::copy_of(self)
    }
}

impl Deref for IdText<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Borrowed(bytes) => bytes,
            Kind::Short(bytes) => bytes.text(),
            Kind::Long(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for IdText<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Kind::Borrowed(bytes))
    }
}

impl PartialEq for IdText<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for IdText<'_> {}

impl PartialEq<[u8]> for IdText<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for IdText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_name_reads_the_same() {
        for len in [0, 1, SHORT, SHORT + 1, 512] {
            let bytes = vec![7; len];
            assert_eq!(*IdText::from(&bytes[..]).detach(), bytes[..]);
            assert_eq!(*IdText::from(&bytes[..]).detach().detach(), bytes[..]);
        }
    }
}
