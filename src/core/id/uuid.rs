//! UUIDs in 16 bytes.

use uuid::Uuid;
use uuid::fmt::{Hyphenated, Simple};

use super::text::{INLINE, IdText};

/// The spelling of a UUID. Every packed spelling is restored exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `67e55044-10b1-426f-9247-bb680e5fe0c8`
    Hyphenated,
    /// `67e5504410b1426f9247bb680e5fe0c8`
    Simple,
}

/// The 16 bytes of a lower-case UUID; `None` for any other text.
pub fn pack(text: &[u8]) -> Option<(Spelling, [u8; 16])> {
    let spelling = match text.len() {
        Hyphenated::LENGTH => Spelling::Hyphenated,
        Simple::LENGTH => Spelling::Simple,
        _ => return None,
    };
    if text.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    Some((spelling, Uuid::try_parse_ascii(text).ok()?.into_bytes()))
}

/// The text from which [`pack`] made these bytes.
pub fn unpack(spelling: Spelling, packed: [u8; 16]) -> IdText<'static> {
    let (uuid, mut text) = (Uuid::from_bytes(packed), [0; INLINE]);
    let len = match spelling {
        Spelling::Hyphenated => uuid.hyphenated().encode_lower(&mut text).len(),
        Spelling::Simple => uuid.simple().encode_lower(&mut text).len(),
    };
    IdText::inline(text, len)
}

/// A new random UUID, of version 4.
pub fn random() -> [u8; 16] {
    Uuid::new_v4().into_bytes()
}
