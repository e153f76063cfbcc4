//! UUIDs in 16 bytes.

use uuid::Uuid;

use super::text::IdText;

/// The spelling of a UUID. Every packed spelling is restored exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `67e55044-10b1-426f-9247-bb680e5fe0c8`
    Hyphenated,
    /// `67e5504410b1426f9247bb680e5fe0c8`
    Simple,
}

/// Where every four digits begin between the hyphens.
const FOURS: [usize; 8] = [0, 4, 9, 14, 19, 24, 28, 32];
/// Where the hyphens are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The 16 bytes of a lower-case UUID; `None` for any other text.
pub fn pack(text: &[u8]) -> Option<(Spelling, [u8; 16])> {
    let (spelling, digits) = match <&[u8; 36]>::try_from(text) {
        // The length is constant, so no part has to be checked.
        Ok(text) => {
            let mut digits = [0; 32];
            for (four, at) in digits.as_chunks_mut().0.iter_mut().zip(FOURS) {
                *four = *text.get(at..)?.first_chunk::<4>()?;
            }
            if HYPHENS.map(|at| text.get(at)) != [Some(&b'-'); 4] {
                return None;
            }
            (Spelling::Hyphenated, digits)
        }
        _ => (Spelling::Simple, text.try_into().ok()?),
    };
    // The letters are 0x61 to 0x66, the numerals 0x30 to 0x39. Anything else is not spelled again as it was.
    let values = digits.map(|digit| (digit & 0xf).wrapping_add((digit >> 6 & 1).wrapping_mul(9)) & 0xf);
    if values.map(spell) != digits {
        return None;
    }
    let mut packed = [0; 16];
    for (byte, [high, low]) in packed.iter_mut().zip(values.as_chunks().0) {
        *byte = high << 4 | low;
    }
    Some((spelling, packed))
}

/// The text from which [`pack`] made these bytes.
pub fn unpack(spelling: Spelling, packed: [u8; 16]) -> IdText<'static> {
    let uuid = Uuid::from_bytes(packed);
    let mut text = [0; 36];
    let text = match spelling {
        Spelling::Simple => uuid.simple().encode_lower(&mut text),
        Spelling::Hyphenated => uuid.hyphenated().encode_lower(&mut text),
    };
    IdText::copy_of(text.as_bytes())
}

/// The digit with this value, which is at most 15.
fn spell(value: u8) -> u8 {
    value.wrapping_add(if value > 9 { b'a' - 10 } else { b'0' })
}

/// A new random UUID, of version 4.
pub fn random() -> [u8; 16] {
    Uuid::new_v4().into_bytes()
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
