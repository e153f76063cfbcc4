//! An id in the fewest bytes, for order records in memory and in files.
//!
//! Almost every id, buyer and ref is a number or a UUID. A canonical decimal integer takes 1 to 9 bytes, a UUID in either lower-case
//! spelling 17, any other text its length and one byte more. Each text has only one form, so two ids are equal exactly when their packed
//! bytes are equal.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::is_id;
use super::text::IdText;
use super::uuid::{self, Spelling};
use crate::core::codec::{Corrupt, Reader};
use crate::core::decimal;
use crate::core::invariant::Known;

/// Head bytes 0 to 8 announce an integer of that many bytes; the others announce the bytes that follow.
const INTEGER: u8 = 8;
const HYPHENATED: u8 = 9;
const SIMPLE: u8 = 10;
/// A text too long for the head byte; its length follows in two bytes.
const LONG: u8 = 11;
/// From here on the head byte is this value plus the length of the text.
const TEXT: u8 = 12;
/// The longest text whose length fits in the head byte.
const SHORT: usize = (u8::MAX - TEXT) as usize;

/// The head byte and the 16 bytes of a UUID.
const UUID_HEAD: u8 = 17;
const HEAD: usize = UUID_HEAD as usize;

/// Whether `text` is packed as a text, with a length of its own if it is `long`.
fn is_text(text: &[u8], long: bool) -> bool {
    is_id(text) && long == (text.len() > SHORT) && PackedId::integer(text).is_none() && uuid::pack(text).is_none()
}

/// An id in its packed form: `head` and then `rest`. Each text is also split in only one way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PackedId<'a> {
    head: [u8; HEAD],
    len: u8,
    rest: &'a [u8],
}

impl<'a> PackedId<'a> {
    /// The packed form of `text`; `None` unless it has 1 to [`MAX_ID`](crate::core::limits::MAX_ID) bytes.
    pub fn new(text: &'a [u8]) -> Option<Self> {
        if !is_id(text) {
            return None;
        }
        Some(Self::integer(text).or_else(|| Self::uuid(text)).unwrap_or_else(|| Self::text(text)))
    }

    /// Reads an id from a record or a snapshot. The bytes must be the form that [`PackedId::new`] makes, because a second form of the same
    /// id would be a second buyer.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Corrupt> {
        let packed = Self::read_trusted(reader)?;
        let [tag, ..] = packed.head;
        let is_the_form = match tag {
            0..=INTEGER => tag == 0 || packed.front().last() != Some(&0),
            HYPHENATED | SIMPLE => true,
            _ => is_text(packed.rest, tag == LONG),
        };
        if is_the_form { Ok(packed) } else { Err(Corrupt::Invalid) }
    }

    /// Reads an id that this module wrote, without checking its form.
    #[inline]
    pub fn read_trusted(reader: &mut Reader<'a>) -> Result<Self, Corrupt> {
        let (front, rest) = sizes(reader.rest()).ok_or(Corrupt::Truncated)?;
        let wide = reader.rest().first_chunk();
        let own = reader.take(front.into())?;
        // A copy of constant length is some instructions, one of any length is a call.
        let head = wide.map_or_else(|| padded(own), |wide| cut(*wide, front));
        Ok(Self { head, len: front, rest: reader.take(rest)? })
    }

    /// Skips an id that this module wrote.
    #[inline]
    pub fn skip(reader: &mut Reader<'a>) -> Option<()> {
        let (front, rest) = sizes(reader.rest())?;
        reader.take(rest.wrapping_add(front.into())).ok().map(|_| ())
    }

    /// Whether `bytes` begin with this id. No id's bytes are a prefix of another's.
    #[inline]
    pub fn leads(&self, bytes: &[u8]) -> bool {
        bytes.strip_prefix(self.front()).is_some_and(|rest| rest.starts_with(self.rest))
    }

    /// Appends the packed form.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.front() {
            [byte] => out.push(*byte),
            front => out.extend_from_slice(front),
        }
        out.extend_from_slice(self.rest);
    }

    /// A hash with a secret key, so that callers cannot choose ids that collide.
    pub fn hash(&self, keys: &RandomState) -> u64 {
        let mut hasher = keys.build_hasher();
        // For a text the head has only the length.
        hasher.write(if self.rest.is_empty() { self.front() } else { self.rest });
        hasher.finish()
    }

    /// The text, as the caller sent it.
    pub fn unpack(&self) -> IdText<'a> {
        let [tag, value @ ..] = &self.head;
        match *tag {
            0..=INTEGER => {
                // Behind the bytes of the integer there are zeros.
                let value = u64::from_le_bytes(padded(value));
                IdText::copy_of(itoa::Buffer::new().format(value).as_bytes())
            }
            HYPHENATED => uuid::unpack(Spelling::Hyphenated, *value),
            SIMPLE => uuid::unpack(Spelling::Simple, *value),
            _ => IdText::from(self.rest),
        }
    }

    fn front(&self) -> &[u8] {
        self.head.get(..usize::from(self.len)).or_invariant("the front of an id lies in its head", &[])
    }

    fn integer(text: &[u8]) -> Option<Self> {
        let value = decimal::canonical(text)?;
        let len = u8::try_from(u64::BITS.saturating_sub(value.leading_zeros()).div_ceil(8)).ok()?;
        Some(Self { head: head(len, u128::from(value).to_le_bytes()), len: len.checked_add(1)?, rest: &[] })
    }

    fn uuid(text: &[u8]) -> Option<Self> {
        let (spelling, uuid) = uuid::pack(text)?;
        let tag = match spelling {
            Spelling::Hyphenated => HYPHENATED,
            Spelling::Simple => SIMPLE,
        };
        Some(Self { head: head(tag, uuid), len: UUID_HEAD, rest: &[] })
    }

    fn text(text: &'a [u8]) -> Self {
        let [low, high, ..] = text.len().to_le_bytes();
        let spelled: &[u8] = if text.len() <= SHORT { &[TEXT.wrapping_add(low)] } else { &[LONG, low, high] };
        Self { head: padded(spelled), len: if text.len() <= SHORT { 1 } else { 3 }, rest: text }
    }
}

/// The size of an id at the start of `bytes`: its head, and the text after it.
#[inline]
fn sizes(bytes: &[u8]) -> Option<(u8, usize)> {
    let (tag, after) = bytes.split_first()?;
    Some(match *tag {
        integer @ 0..=INTEGER => (integer.wrapping_add(1), 0),
        HYPHENATED | SIMPLE => (UUID_HEAD, 0),
        LONG => {
            let [low, high, ..] = after else { return None };
            (3, usize::from(u16::from_le_bytes([*low, *high])))
        }
        text => (1, usize::from(text.wrapping_sub(TEXT))),
    })
}

/// The first `front` of these bytes, at least one, and zeros behind them.
#[inline]
fn cut([tag, value @ ..]: [u8; HEAD], front: u8) -> [u8; HEAD] {
    let bits = u32::from(front).wrapping_sub(1).wrapping_mul(u8::BITS);
    let behind = u128::MAX.checked_shl(bits).unwrap_or(0);
    head(tag, (u128::from_le_bytes(value) & !behind).to_le_bytes())
}

/// The head with this first byte.
#[inline]
fn head(tag: u8, value: [u8; 16]) -> [u8; HEAD] {
    let mut head = [tag; HEAD];
    let [_, room @ ..] = &mut head;
    *room = value;
    head
}

/// The first of these bytes, and zeros behind them if they are fewer.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::limits::MAX_ID;

    fn bytes(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        PackedId::new(text).unwrap().write(&mut out);
        out
    }

    #[test]
    fn sizes_of_usual_ids() {
        assert_eq!(bytes(b"0").len(), 1);
        assert_eq!(bytes(b"7").len(), 2);
        assert_eq!(bytes(b"999999").len(), 4);
        assert_eq!(bytes(b"13812345678").len(), 6, "a phone number");
        assert_eq!(bytes(b"18446744073709551615").len(), 9);
        assert_eq!(bytes(b"67e55044-10b1-426f-9247-bb680e5fe0c8").len(), 17);
        assert_eq!(bytes(b"67e5504410b1426f9247bb680e5fe0c8").len(), 17);
        assert_eq!(bytes(b"order:1").len(), 8);
    }

    #[test]
    fn near_misses_stay_text() {
        for text in [
            &b"00"[..],
            b"01",
            b"-1",
            b"+1",
            b"18446744073709551616",
            b"67E55044-10b1-426f-9247-bb680e5fe0c8",
            b"{67e5504410b1426f9247bb680e5fe0c8}",
            b"67e5504410b1426f9247bb680e5fe0cg",
            &[b'x'; SHORT],
            &[b'x'; SHORT + 1],
            &[b'1'; MAX_ID],
        ] {
            let packed = bytes(text);
            assert!(packed.len() > text.len());
            let mut reader = Reader::new(&packed);
            assert_eq!(*PackedId::read(&mut reader).unwrap().unpack(), *text);
            assert!(reader.rest().is_empty());
        }
        assert_eq!(PackedId::new(b""), None);
        assert_eq!(PackedId::new(&[b'x'; MAX_ID + 1]), None);
    }

    #[test]
    fn a_second_spelling_of_an_id_is_refused() {
        for other in [&[1, 0][..], &[2, 7, 0], &[TEXT + 1, b'7'], &[TEXT], &[LONG, 1, 0, b'x'], &[LONG, 0, 0]] {
            assert_eq!(PackedId::read(&mut Reader::new(other)), Err(Corrupt::Invalid), "{other:?}");
        }
        for cut in [&[LONG, 0xff, 0xff][..], &[LONG, 1], &[3, 1], &[]] {
            assert_eq!(PackedId::read(&mut Reader::new(cut)), Err(Corrupt::Truncated), "{cut:?}");
        }
    }

    #[test]
    fn no_id_leads_another() {
        let texts = [&b"1"[..], b"256", b"12", b"x", b"xx", &[b'x'; 300], &[b'x'; 301], &[9; 17], b"\x00"];
        for one in texts {
            for other in texts {
                assert_eq!(PackedId::new(one).unwrap().leads(&bytes(other)), one == other, "{one:?} {other:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_id_comes_back(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..=300),
            "[0-9]{1,21}".prop_map(String::into_bytes),
            "[0-9a-f]{32}".prop_map(String::into_bytes),
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".prop_map(String::into_bytes),
        ], tail: u8) {
            let keys = RandomState::new();
            let packed = PackedId::new(&text).unwrap();
            prop_assert_eq!(&*packed.unpack(), &text[..]);
            let mut out = Vec::new();
            packed.write(&mut out);
            out.push(tail);
            let (mut first, mut second) = (Reader::new(&out), Reader::new(&out));
            let read = PackedId::read(&mut first).unwrap();
            prop_assert_eq!(read, packed);
            prop_assert!(packed.leads(&out));
            prop_assert_eq!(read.hash(&keys), packed.hash(&keys));
            PackedId::skip(&mut second).unwrap();
            prop_assert_eq!((first.rest(), second.rest()), (&[tail][..], &[tail][..]));
        }

        #[test]
        fn any_bytes_are_read_or_refused(junk in proptest::collection::vec(any::<u8>(), 0..=24)) {
            let mut reader = Reader::new(&junk);
            if let Ok(packed) = PackedId::read(&mut reader) {
                let mut out = Vec::new();
                packed.write(&mut out);
                out.extend_from_slice(reader.rest());
                prop_assert_eq!(&out[..], &junk[..]);
            }
        }
    }
}
