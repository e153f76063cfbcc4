//! The location of a value: a database and a key.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::inline::Inline;

/// A key in a database, borrowed for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// The database's number.
    pub db: i32,
    /// The key's bytes.
    pub key: &'a [u8],
}

/// A key in a database, owned, in 24 bytes. A name of up to [`SHORT`] bytes needs no allocation.
///
/// Every key has one form only, so two are equal exactly if their forms are. The order of the forms is not that of [`KeyRef`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBuf(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Short { db: i32, key: Inline<SHORT> },
    Long { db: i32, key: Box<[u8]> },
}

/// The longest name that fits beside the database and the length.
const SHORT: usize = 18;

impl Hash for KeyRef<'_> {
    /// Uses as few writes as possible, because writes are most of the cost of a keyed hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.key);
        state.write_i32(self.db);
    }
}

impl KeyRef<'_> {
    /// An owned copy.
    pub fn to_buf(self) -> KeyBuf {
        let Self { db, key } = self;
        KeyBuf(match Inline::new(key) {
            Some(key) => Form::Short { db, key },
            None => Form::Long { db, key: key.into() },
        })
    }
}

impl KeyBuf {
    /// The same key, borrowed.
    pub fn as_key(&self) -> KeyRef<'_> {
        match &self.0 {
            Form::Short { db, key } => KeyRef { db: *db, key: key.text() },
            Form::Long { db, key } => KeyRef { db: *db, key },
        }
    }

    /// Follows the keys when two databases are swapped.
    pub fn swap(&mut self, one: i32, other: i32) {
        let (Form::Short { db, .. } | Form::Long { db, .. }) = &mut self.0;
        if *db == one {
            *db = other;
        } else if *db == other {
            *db = one;
        }
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_comes_back() {
        assert_eq!(size_of::<KeyBuf>(), 24);
        for len in [0, 1, SHORT, SHORT + 1, 600] {
            let key = vec![7; len];
            let mut owned = KeyRef { db: 3, key: &key }.to_buf();
            assert_eq!(owned.as_key(), KeyRef { db: 3, key: &key });
            for (one, other, now) in [(3, 4, 4), (1, 2, 4), (3, 4, 3)] {
                owned.swap(one, other);
                assert_eq!(owned.as_key(), KeyRef { db: now, key: &key });
            }
        }
    }
}
