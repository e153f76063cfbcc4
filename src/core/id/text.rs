//! Ids as the caller sent them: borrowed, or unpacked from a packed form.

use std::fmt;
use std::ops::Deref;

use crate::core::invariant::Known;

/// The number of bytes that fit without an allocation: a UUID in its usual spelling, or any 64-bit integer.
pub const INLINE: usize = 36;

/// The bytes of an id, borrowed or owned.
#[derive(Clone)]
pub struct IdText<'a>(Kind<'a>);

#[derive(Clone)]
enum Kind<'a> {
    Borrowed(&'a [u8]),
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl IdText<'_> {
    /// Empty, for no id. An id is never empty.
    pub const NONE: IdText<'static> = IdText(Kind::Borrowed(&[]));

    /// The first `len` of `bytes`, or all of them if there are fewer.
    pub(super) fn inline(bytes: [u8; INLINE], len: usize) -> Self {
        Self(Kind::Inline { len: u8::try_from(len.min(INLINE)).ok().or_invariant("36 fits a byte", 0), bytes })
    }

    /// An owned copy. Ids of up to 36 bytes need no allocation.
    #[must_use]
    pub fn detach(&self) -> IdText<'static> {
        IdText(match &self.0 {
            Kind::Inline { len, bytes } => Kind::Inline { len: *len, bytes: *bytes },
            Kind::Heap(bytes) => Kind::Heap(bytes.clone()),
            Kind::Borrowed([]) => Kind::Borrowed(&[]),
            Kind::Borrowed(bytes) => {
                let mut copy = [0; INLINE];
                match (copy.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
                    (Some(room), Ok(len)) => {
                        room.copy_from_slice(bytes);
                        Kind::Inline { len, bytes: copy }
                    }
                    _ => Kind::Heap((*bytes).into()),
                }
            }
        })
    }
}

impl Deref for IdText<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Borrowed(bytes) => bytes,
            Kind::Inline { len, bytes } => {
                bytes.get(..usize::from(*len)).or_invariant("a length is kept with bytes that it fits", &[])
            }
            Kind::Heap(bytes) => bytes,
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
        for len in [0, 1, INLINE, INLINE + 1, 512] {
            let bytes = vec![7; len];
            assert_eq!(*IdText::from(&bytes[..]).detach(), bytes[..]);
            assert_eq!(*IdText::from(&bytes[..]).detach().detach(), bytes[..]);
        }
    }
}
