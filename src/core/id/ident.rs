//! An id that owns its bytes, small and of fixed size: the token of a hold.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::is_id;
use super::text::IdText;
use super::uuid::{self, Spelling};
use crate::core::inline::Inline;

/// The number of bytes that fit beside the tag and the length without an allocation.
const SHORT: usize = 22;

/// A binary-safe string of 1 to [`MAX_ID`](crate::core::limits::MAX_ID) bytes in a compact form.
///
/// Two identifiers are equal exactly when their bytes are equal, because each byte string has only one form. A UUID in its usual spelling
/// takes 16 bytes instead of 36; any other text is stored unchanged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ident(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Uuid([u8; 16]),
    Short(Inline<SHORT>),
    Long(Box<[u8]>),
}

impl Ident {
    /// Stores `bytes`; `None` unless there are 1 to [`MAX_ID`](crate::core::limits::MAX_ID) of them.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if !is_id(bytes) {
            return None;
        }
        if let Some((Spelling::Hyphenated, packed)) = uuid::pack(bytes) {
            return Some(Self(Form::Uuid(packed)));
        }
        Some(Self(Inline::new(bytes).map_or_else(|| Form::Long(bytes.into()), Form::Short)))
    }

    /// A new random identifier: a UUID of version 4.
    pub fn random() -> Self {
        Self(Form::Uuid(uuid::random()))
    }

    /// The bytes as the caller sent them.
    pub fn text(&self) -> IdText<'_> {
        match &self.0 {
            Form::Uuid(packed) => uuid::unpack(Spelling::Hyphenated, *packed),
            Form::Short(bytes) => bytes.text().into(),
            Form::Long(bytes) => (&**bytes).into(),
        }
    }

    /// The allocated bytes.
    pub fn heap_size(&self) -> usize {
        match &self.0 {
            Form::Long(bytes) => bytes.len(),
            Form::Uuid(_) | Form::Short(_) => 0,
        }
    }
}

impl Hash for Ident {
    /// Uses one write, because writes are most of the cost of a keyed hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Form::Uuid(packed) => state.write(packed),
            Form::Short(bytes) => state.write(bytes.padded()),
            Form::Long(bytes) => state.write(bytes),
        }
    }
}

impl fmt::Debug for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ident(\"{}\")", self.text().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::limits::MAX_ID;

    #[test]
    fn a_hold_keeps_its_token_in_24_bytes() {
        assert_eq!(size_of::<Ident>(), 24);
    }

    #[test]
    fn only_the_usual_spelling_of_a_uuid_is_packed() {
        let usual = b"67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert!(matches!(Ident::new(usual), Some(Ident(Form::Uuid(_)))));
        for other in [
            b"67E55044-10b1-426f-9247-bb680e5fe0c8",
            b"67e5504410b1-426f-9247-bb680e5fe0c8-",
            b"67e55044-10b1-426f-9247-bb680e5fe0cg",
        ] {
            let ident = Ident::new(other).unwrap();
            assert!(!matches!(ident, Ident(Form::Uuid(_))));
            assert_eq!(&*ident.text(), other);
        }
    }

    #[test]
    fn the_length_is_bounded() {
        assert_eq!(Ident::new(b""), None);
        assert!(Ident::new(&[0; MAX_ID]).is_some());
        assert_eq!(Ident::new(&[0; MAX_ID + 1]), None);
    }

    #[test]
    fn a_random_one_reads_like_a_uuid() {
        let ident = Ident::random();
        assert_eq!(ident.text().len(), 36);
        assert_eq!(Ident::new(&ident.text()), Some(ident));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_come_back_as_they_were(bytes in proptest::collection::vec(any::<u8>(), 1..=64)) {
            let ident = Ident::new(&bytes).unwrap();
            prop_assert_eq!(&*ident.text(), &bytes[..]);
        }

        #[test]
        fn equal_bytes_and_only_they_are_equal(a in "[0-9a-f-]{35,37}", b in "[0-9a-f-]{35,37}") {
            let (x, y) = (Ident::new(a.as_bytes()), Ident::new(b.as_bytes()));
            prop_assert_eq!(x == y, a == b);
        }
    }
}
