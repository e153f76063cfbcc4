//! A list in chunks. Growing adds a chunk and moves nothing, so no command pays for a million items at once.

/// Items per chunk.
pub const CHUNK: usize = 256;

/// A list that grows and shrinks at its end.
#[derive(Debug, Default)]
pub struct Chunks<T>(Vec<Vec<T>>);

impl<T> Chunks<T> {
    /// The number of items. They are numbered in 32 bits: more would not fit in any server.
    pub fn len(&self) -> u32 {
        let full = self.0.len().saturating_sub(1).saturating_mul(CHUNK);
        let last = self.0.last().map_or(0, Vec::len);
        u32::try_from(full.saturating_add(last)).unwrap_or(u32::MAX)
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        let (chunk, within) = split(number);
        self.0.get(chunk)?.get(within)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (chunk, within) = split(number);
        self.0.get_mut(chunk)?.get_mut(within)
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(item),
            last => {
                let mut chunk = Vec::with_capacity(if last.is_some() { CHUNK } else { 1 });
                chunk.push(item);
                self.0.push(chunk);
            }
        }
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.0.last_mut()?.pop();
        // The first chunk stays, so that a list of one or none allocates nothing each time.
        if self.0.len() > 1 && self.0.last().is_some_and(Vec::is_empty) {
            self.0.pop();
        }
        item
    }

    /// Removes all items, and all chunks but the first.
    pub fn clear(&mut self) {
        self.0.truncate(1);
        self.0.iter_mut().for_each(Vec::clear);
    }
}

/// The number of the chunk of an item, and its place there.
pub fn split(number: u32) -> (usize, usize) {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    (number / CHUNK, number % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_numbers() {
        let mut list = Chunks::default();
        for number in 0..700 {
            assert_eq!(list.len(), number);
            list.push(number);
        }
        assert!((0..700).all(|number| list.get(number) == Some(&number)) && list.get(700).is_none());
        assert_eq!(list.0.len(), 3);
        for number in (0..700).rev() {
            assert_eq!((list.pop(), list.len()), (Some(number), number));
        }
        assert_eq!((list.pop(), list.0.len()), (None, 1));
    }
}
