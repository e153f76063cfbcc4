//! Where a value lives: a database and a key.

use std::hash::{Hash, Hasher};

/// A key of a database, borrowed for the length of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// The database's number.
    pub db: i32,
    /// The key's bytes.
    pub key: &'a [u8],
}

/// A key of a database, kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBuf {
    /// The database's number.
    pub db: i32,
    /// The key's bytes.
    pub key: Box<[u8]>,
}

impl Hash for KeyRef<'_> {
    /// In as few writes as there can be, which is most of what a keyed hash costs.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.key);
        state.write_i32(self.db);
    }
}

impl KeyRef<'_> {
    /// A copy that can be kept.
    #[must_use]
    pub fn to_buf(self) -> KeyBuf {
        KeyBuf { db: self.db, key: self.key.into() }
    }
}

impl KeyBuf {
    /// This place, borrowed.
    #[must_use]
    pub fn as_key(&self) -> KeyRef<'_> {
        KeyRef { db: self.db, key: &self.key }
    }

    /// Follows the data when two databases trade places.
    pub fn swap(&mut self, one: i32, other: i32) {
        if self.db == one {
            self.db = other;
        } else if self.db == other {
            self.db = one;
        }
    }
}
