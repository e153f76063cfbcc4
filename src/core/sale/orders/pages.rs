//! Records of different sizes, numbered in the order of their creation.
//!
//! The number of a record never changes. So four bytes name an order in every index, and can be the cursor of a listing. Records lie back
//! to back in chunks of [`ROOM`]; to find one, a few before it are passed over. When the pages grow, at most one chunk or one page of
//! chunk headers moves.

use std::hint;
use std::marker::PhantomData;

use crate::core::invariant::Known;

/// Records per chunk: so many that the memory for the chunk itself hardly counts.
pub const ROOM: u32 = 32;

/// A chunk has a mark where every seventh of its records begins. To find a record, three others are passed over on average.
const STRIDE: u32 = 7;
const MARKS: usize = ((ROOM - 1) / STRIDE) as usize;

/// Chunks per page: the largest piece that growing has to move.
const PAGE: u32 = 1024;

const IS_THERE: &str = "only a record of these pages is changed";
const IS_RECORD: &str = "a record is what was written";

/// The shape of the records.
pub trait Layout {
    /// The length of the record that `bytes` start with; `None` if they start with none. All the records of a chunk together stay below
    /// 64 KiB.
    fn length(bytes: &[u8]) -> Option<usize>;
}

/// Where records of one shape are kept.
pub struct RecordPages<L> {
    pages: Vec<Vec<Chunk>>,
    len: u32,
    /// Heap bytes of all chunks.
    bytes: usize,
    layout: PhantomData<fn() -> L>,
}

#[derive(Default)]
struct Chunk {
    records: Vec<u8>,
    marks: [u16; MARKS],
}

impl<L: Layout> RecordPages<L> {
    pub const fn new() -> Self {
        Self { pages: Vec::new(), len: 0, bytes: 0, layout: PhantomData }
    }

    /// How many records there are; the next one's number.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The record of this number, and whatever follows it in its chunk.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        let mut rest = self.marked(number)?;
        for _ in 0..number % ROOM % STRIDE {
            rest = rest.get(L::length(rest).known(IS_RECORD)?..)?;
        }
        Some(rest)
    }

    /// Reads a byte near a record. When several records far from each other are needed, doing this for all of them first lets the processor
    /// fetch their memory at the same time.
    pub fn fetch(&self, number: u32) {
        hint::black_box(self.marked(number).and_then(<[u8]>::first).copied());
    }

    /// The bytes after the last mark that is not behind the record.
    #[inline]
    fn marked(&self, number: u32) -> Option<&[u8]> {
        if number >= self.len {
            return None;
        }
        let chunk = self.pages.get(page(number))?.get(slot(number))?;
        let mark = (number % ROOM / STRIDE).checked_sub(1).and_then(|mark| chunk.marks.get(mark as usize));
        chunk.records.get(usize::from(mark.copied().unwrap_or(0))..)
    }

    /// The records from this number to the end of its chunk, and the number after them.
    pub fn run(&self, number: u32) -> Option<(&[u8], u32)> {
        let next = (number / ROOM).saturating_add(1).saturating_mul(ROOM);
        Some((self.get(number)?, next.min(self.len)))
    }

    /// Appends a record and returns its number; `None` when there are 2^31 already.
    pub fn push(&mut self, record: &[u8]) -> Option<u32> {
        let number = self.len;
        if number > u32::MAX >> 1 {
            return None;
        }
        if number.is_multiple_of(ROOM) {
            if slot(number) == 0 {
                self.pages.push(Vec::new());
            }
            let page = self.pages.last_mut().known("a page was just begun, or has room")?;
            // As many bytes as the chunk before: orders of one sale are alike.
            let likely = page.last().map_or(0, |before| before.records.len());
            page.push(Chunk { records: Vec::with_capacity(likely), marks: Default::default() });
            self.bytes = self.bytes.wrapping_add(likely);
        }
        self.len = number.wrapping_add(1);
        let (place, full) = (number % ROOM, self.len.is_multiple_of(ROOM));
        self.edit(number, |chunk| {
            if let Some(mark) = mark_of(place).and_then(|mark| chunk.marks.get_mut(mark)) {
                *mark = mark_at(chunk.records.len());
            }
            chunk.records.extend_from_slice(record);
            if full {
                chunk.records.shrink_to_fit();
            }
        });
        Some(number)
    }

    /// Puts another record in the place of this one.
    pub fn replace(&mut self, number: u32, record: &[u8]) {
        let Some(rest) = self.get(number).known(IS_THERE) else { return };
        let (Some(old), after) = (L::length(rest).known(IS_RECORD), rest.len()) else { return };
        let (place, full) = (number % ROOM, number / ROOM != self.len / ROOM);
        self.edit(number, |Chunk { records, marks }| {
            let from = records.len().saturating_sub(after);
            let to = from.saturating_add(old);
            if let Some(room) = records.get_mut(from..to).filter(|room| room.len() == record.len()) {
                room.copy_from_slice(record);
                return;
            }
            let more = record.len().saturating_sub(old);
            // A full chunk grows by the needed bytes and a few more, not by half of its size.
            if records.capacity().saturating_sub(records.len()) < more {
                records.reserve_exact(more.saturating_add(records.len() / 16));
            }
            records.splice(from..to, record.iter().copied());
            // A mark is zero until its record is there.
            for mark in marks.iter_mut().skip((place / STRIDE) as usize).filter(|mark| **mark > 0) {
                *mark = mark_at(usize::from(*mark).wrapping_sub(old).wrapping_add(record.len()));
            }
            if full && records.capacity().saturating_sub(records.len()) > records.len() / 4 {
                records.shrink_to_fit();
            }
        });
    }

    /// Puts other records in the place of all those of which `write` makes another. It gets each record, and whatever follows it in its
    /// chunk. If it has written something, it returns the bytes that follow.
    pub fn rewrite(&mut self, mut write: impl for<'r> FnMut(u32, &'r [u8], &mut Vec<u8>) -> Option<&'r [u8]>) {
        let (mut number, mut draft) = (0_u32, Vec::new());
        for chunk in self.pages.iter_mut().flatten() {
            let (mut rest, mut marks, mut changed) = (&*chunk.records, chunk.marks, false);
            draft.truncate(0);
            for place in 0..ROOM.min(self.len.saturating_sub(number)) {
                if let Some(mark) = mark_of(place).and_then(|mark| marks.get_mut(mark)) {
                    *mark = mark_at(draft.len());
                }
                if let Some(after) = write(number.wrapping_add(place), rest, &mut draft) {
                    (changed, rest) = (true, after);
                    continue;
                }
                let record = L::length(rest).and_then(|len| rest.split_at_checked(len));
                let Some((record, after)) = record.known(IS_RECORD) else { return };
                draft.extend_from_slice(record);
                rest = after;
            }
            number = number.wrapping_add(ROOM);
            if changed {
                let before = chunk.records.capacity();
                *chunk = Chunk { records: draft.clone(), marks };
                self.bytes = self.bytes.wrapping_sub(before).wrapping_add(chunk.records.capacity());
            }
        }
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        let heads = self.pages.iter().map(|page| page.capacity().saturating_mul(size_of::<Chunk>()));
        let pages = self.pages.capacity().saturating_mul(size_of::<Vec<Chunk>>());
        heads.fold(pages, usize::saturating_add).saturating_add(self.bytes)
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        (self.len / ROOM) as usize
    }

    fn edit(&mut self, number: u32, change: impl FnOnce(&mut Chunk)) {
        let chunk = self.pages.get_mut(page(number)).and_then(|page| page.get_mut(slot(number)));
        let Some(chunk) = chunk.known("every record has a chunk") else { return };
        let before = chunk.records.capacity();
        change(chunk);
        self.bytes = self.bytes.wrapping_sub(before).wrapping_add(chunk.records.capacity());
    }
}

/// The mark where the record at this place of a chunk begins, if it is one that has a mark.
fn mark_of(place: u32) -> Option<usize> {
    let mark = place.is_multiple_of(STRIDE).then_some(place / STRIDE)?.checked_sub(1)?;
    Some(mark as usize)
}

/// A mark at this place of a chunk.
fn mark_at(place: usize) -> u16 {
    u16::try_from(place).ok().or_invariant("the records of a chunk stay below 64 KiB", u16::MAX)
}

fn page(number: u32) -> usize {
    (number / ROOM / PAGE) as usize
}

fn slot(number: u32) -> usize {
    (number / ROOM % PAGE) as usize
}

#[cfg(test)]
mod tests {
    #![expect(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]

    use proptest::prelude::*;

    use super::*;

    /// A byte that says how many bytes follow.
    struct Counted;

    impl Layout for Counted {
        fn length(bytes: &[u8]) -> Option<usize> {
            bytes.first().map(|len| usize::from(*len) + 1)
        }
    }

    fn record(len: u8, fill: u8) -> Vec<u8> {
        let mut record = vec![fill; usize::from(len) + 1];
        record[0] = len;
        record
    }

    fn read(pages: &RecordPages<Counted>, number: u32) -> &[u8] {
        let rest = pages.get(number).unwrap();
        &rest[..Counted::length(rest).unwrap()]
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many steps for Miri")]
    fn numbers_outlive_pages() {
        let mut pages = RecordPages::<Counted>::new();
        for n in 0..ROOM * PAGE + 5 {
            assert_eq!(pages.push(&record((n % 3) as u8, n as u8)), Some(n));
        }
        assert_eq!(pages.pages.len(), 2);
        assert_eq!(read(&pages, ROOM * PAGE + 4), record(((ROOM * PAGE + 4) % 3) as u8, 4));
        assert_eq!(pages.get(ROOM * PAGE + 5), None);
    }

    #[test]
    fn a_full_chunk_has_little_to_spare() {
        let mut pages = RecordPages::<Counted>::new();
        for n in 0..ROOM {
            pages.push(&record(4, n as u8));
        }
        for n in 0..ROOM {
            pages.replace(n, &record(20, n as u8));
        }
        let needed = 21 * ROOM as usize;
        assert!(pages.bytes <= needed + needed / 4, "{} bytes for {needed}", pages.bytes);
        for n in 0..ROOM {
            pages.replace(n, &record(0, 0));
        }
        assert!(pages.bytes <= 2 * ROOM as usize, "{} bytes", pages.bytes);
    }

    proptest! {
        #[test]
        fn it_is_a_list(steps in proptest::collection::vec((any::<u16>(), 0..40_u8, any::<u8>()), 1..300)) {
            let (mut pages, mut list) = (RecordPages::<Counted>::new(), Vec::new());
            for (at, len, fill) in steps {
                let record = record(len, fill);
                match usize::from(at) % (list.len() + 4) {
                    at if at < list.len() => {
                        pages.replace(at as u32, &record);
                        list[at] = record;
                    }
                    _ => {
                        pages.push(&record);
                        list.push(record);
                    }
                }
                let held: usize = pages.pages.iter().flatten().map(|chunk| chunk.records.capacity()).sum();
                prop_assert_eq!(pages.bytes, held);
            }
            for (number, record) in list.iter().enumerate() {
                prop_assert_eq!(read(&pages, number as u32), &record[..]);
            }
        }
    }
}
