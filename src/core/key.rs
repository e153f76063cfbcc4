//! The location of a value: a database and a key.

use std::hash::{Hash, Hasher};

/// A key in a database, borrowed for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// The database's number.
    pub db: i32,
    /// The key's bytes.
    pub key: &'a [u8],
}

/// A key in a database, owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBuf {
    /// The database's number.
    pub db: i32,
    /// The key's bytes.
    pub key: Box<[u8]>,
}

impl Hash for KeyRef<'_> {
    /// Uses as few writes as possible, because writes are most of the cost of a keyed hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.key);
        state.write_i32(self.db);
    }
}

impl KeyRef<'_> {
    /// An owned copy.
    #[must_use]
    pub fn to_buf(self) -> KeyBuf {
        KeyBuf { db: self.db, key: self.key.into() }
    }
}

impl KeyBuf {
    /// The same key, borrowed.
    #[must_use]
    pub fn as_key(&self) -> KeyRef<'_> {
        KeyRef { db: self.db, key: &self.key }
    }

    /// Follows the keys when two databases are swapped.
    pub fn swap(&mut self, one: i32, other: i32) {
        if self.db == one {
            self.db = other;
        } else if self.db == other {
            self.db = one;
        }
    }
}
