//! The cluster slot of a key.

/// All keys of one slot are on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u16);

/// The number of slots in a cluster.
const SLOTS: u16 = 16_384;

impl Slot {
    /// The slot of `key`. It depends on the text between the first `{` and the next `}`, or on the whole key if there is no such text.
    pub fn of(key: &[u8]) -> Self {
        Self(crc16(hash_tag(key).unwrap_or(key)) % SLOTS)
    }

    /// The number that clusters use.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// A key that ends in `suffix` and is in the slot of `key`. `None` for a few unusual keys: the empty one, and keys with a `}` that are
/// hashed as a whole.
pub fn neighbour(key: &[u8], suffix: &[u8]) -> Option<Vec<u8>> {
    let tag = hash_tag(key).unwrap_or(key);
    (!tag.is_empty() && !tag.contains(&b'}')).then(|| [b"{", tag, b"}", suffix].concat())
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let mut parts = key.splitn(2, |byte| *byte == b'{');
    let behind = parts.nth(1)?;
    let len = behind.iter().position(|byte| *byte == b'}')?;
    behind.get(..len).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM: polynomial 0x1021, not reflected, initial value zero.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_is_the_one_that_clusters_use() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
        assert_eq!(["foo", "bar", "a"].map(|key| Slot::of(key.as_bytes()).0), [12_182, 5_061, 15_495]);
    }

    #[test]
    fn a_hash_tag_decides_if_there_is_one() {
        for (one, other) in [("{shop}sale", "{shop}events"), ("x{shop}", "shop"), ("{{a}}", "{a"), ("{a}{b}", "a")] {
            assert_eq!(Slot::of(one.as_bytes()), Slot::of(other.as_bytes()), "{one} {other}");
        }
        for (key, tag) in [("{}sale", None), ("{sale", None), ("sale}{", None), ("}{a}", Some("a"))] {
            assert_eq!(hash_tag(key.as_bytes()), tag.map(str::as_bytes), "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_neighbour_lies_in_the_slot_of_its_key_and_is_another_one(
            key in vec(prop_oneof![Just(b'{'), Just(b'}'), Just(b'a'), any::<u8>()], 0..8),
        ) {
            match neighbour(&key, b"suffix") {
                Some(other) => prop_assert!(Slot::of(&other) == Slot::of(&key) && other != key),
                None => prop_assert!(key.is_empty() || key.contains(&b'}'), "{:?}", key),
            }
        }
    }
}
