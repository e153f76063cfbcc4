//! Short texts in place, without an allocation.

use super::invariant::Known;

/// A text of up to `N` bytes, at most 255. Two are equal exactly if their texts are; the order is by length first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inline<const N: usize> {
    len: u8,
    /// The text, and zeros behind it.
    bytes: [u8; N],
}

impl<const N: usize> Inline<N> {
    /// A copy of `text`; `None` if it is longer.
    #[inline]
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut inline = Self { len: u8::try_from(text.len()).ok()?, bytes: [0; N] };
        inline.bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(inline)
    }

    /// The text in upper case. Zeros are no letters, so all bytes are changed alike, which is cheaper than so many of them.
    #[inline]
    #[must_use]
    pub fn to_ascii_uppercase(mut self) -> Self {
        self.bytes.make_ascii_uppercase();
        self
    }

    /// The text.
    #[inline]
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).or_invariant("a length is kept with bytes that it fits", &[])
    }

    /// The text with zeros behind it, always `N` bytes: for a hash, which is cheaper to make of a fixed number of bytes.
    #[inline]
    pub fn padded(&self) -> &[u8; N] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_comes_back() {
        assert_eq!(size_of::<Inline<22>>(), 23);
        for len in 0..=22 {
            let text = vec![7; len];
            let inline = Inline::<22>::new(&text).unwrap();
            assert_eq!(inline.text(), text);
            assert_eq!(inline.padded()[..len], text);
            assert_ne!(Inline::<22>::new(&[&text[..], &[0]].concat()), Some(inline), "zeros at the end count");
        }
        assert_eq!(Inline::<22>::new(&[7; 23]), None);
        assert_eq!(Inline::<300>::new(&[7; 256]), None);
    }
}
