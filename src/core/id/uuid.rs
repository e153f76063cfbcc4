//! UUIDs in 16 bytes.

use uuid::Uuid;

use super::text::{INLINE, IdText};

/// The spelling of a UUID. Every packed spelling is restored exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `67e55044-10b1-426f-9247-bb680e5fe0c8`
    Hyphenated,
    /// `67e5504410b1426f9247bb680e5fe0c8`
    Simple,
}

impl Spelling {
    /// Where every eight digits begin: the first four of them, and the others.
    const fn groups(self) -> [[usize; 2]; 4] {
        match self {
            Self::Hyphenated => [[0, 4], [9, 14], [19, 24], [28, 32]],
            Self::Simple => [[0, 4], [8, 12], [16, 20], [24, 28]],
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Hyphenated => 36,
            Self::Simple => 32,
        }
    }
}

/// The 16 bytes of a lower-case UUID; `None` for any other text.
pub fn pack(text: &[u8]) -> Option<(Spelling, [u8; 16])> {
    let spelling = match text {
        [_, _, _, _, _, _, _, _, b'-', _, _, _, _, b'-', _, _, _, _, b'-', _, _, _, _, b'-', ..]
            if text.len() == 36 =>
        {
            Spelling::Hyphenated
        }
        _ if text.len() == 32 => Spelling::Simple,
        _ => return None,
    };
    let mut packed = [0; 16];
    for (group, bytes) in spelling.groups().into_iter().zip(packed.chunks_exact_mut(4)) {
        let [four, others] =
            group.map(|at| text.get(at..)?.first_chunk().map(|four| u64::from(u32::from_le_bytes(*four))));
        bytes.copy_from_slice(&from_digits(four? | others? << 32)?.to_le_bytes());
    }
    Some((spelling, packed))
}

/// The text from which [`pack`] made these bytes.
pub fn unpack(spelling: Spelling, packed: [u8; 16]) -> IdText<'static> {
    let mut text = [b'-'; INLINE];
    for (group, bytes) in spelling.groups().into_iter().zip(packed.as_chunks().0) {
        let digits = to_digits(u32::from_le_bytes(*bytes)).to_le_bytes();
        for (at, four) in group.into_iter().zip(digits.as_chunks::<4>().0) {
            if let Some(room) = text.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *room = *four;
            }
        }
    }
    IdText::inline(text, spelling.len())
}

/// A new random UUID, of version 4.
pub fn random() -> [u8; 16] {
    Uuid::new_v4().into_bytes()
}

/// Eight digits are read and written together, each in one byte of a number; the first digit is in the lowest byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The four bytes that eight lower-case hexadecimal digits spell; `None` if they are none.
fn from_digits(text: u64) -> Option<u32> {
    // The letters are 0x61 to 0x66, the numerals 0x30 to 0x39. Anything else is not spelled again as it was.
    let letters = text >> 6 & EACH;
    let values = (text & EACH.wrapping_mul(0xf)).wrapping_add(letters.wrapping_mul(9)) & EACH.wrapping_mul(0xf);
    if spell(values) != text {
        return None;
    }
    let bytes = (values << 4 | values >> 8) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    Some(((pairs | pairs >> 16) & 0xffff_ffff) as u32)
}

/// The eight digits of four bytes.
fn to_digits(bytes: u32) -> u64 {
    let pairs = u64::from(bytes);
    let pairs = (pairs | pairs << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    spell(bytes >> 4 & 0x000f_000f_000f_000f | (bytes & 0x000f_000f_000f_000f) << 8)
}

/// The digits with these values, each from 0 to 15.
fn spell(values: u64) -> u64 {
    let letters = values.wrapping_add(EACH.wrapping_mul(6)) >> 4 & EACH;
    values.wrapping_add(EACH.wrapping_mul(u64::from(b'0'))).wrapping_add(letters.wrapping_mul(0x27))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_lower_case_digits_are_packed() {
        for at in 0..32 {
            for byte in 0..=u8::MAX {
                let mut text = *b"67e5504410b1426f9247bb680e5fe0c8";
                text[at] = byte;
                let expected = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert_eq!(pack(&text).is_some(), expected, "{}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_uuid() {
        let text = b"67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert_eq!(pack(text), Some((Spelling::Hyphenated, Uuid::try_parse_ascii(text).unwrap().into_bytes())));
    }

    proptest! {
        #[test]
        fn any_uuid_comes_back(bytes: [u8; 16]) {
            let uuid = Uuid::from_bytes(bytes);
            for (spelling, text) in
                [(Spelling::Hyphenated, uuid.hyphenated().to_string()), (Spelling::Simple, uuid.simple().to_string())]
            {
                prop_assert_eq!(pack(text.as_bytes()), Some((spelling, bytes)));
                prop_assert_eq!(&*unpack(spelling, bytes), text.as_bytes());
            }
        }
    }
}
