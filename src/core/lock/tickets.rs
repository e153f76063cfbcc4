//! The order of the waiters of one key.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::terms::WaiterId;

/// A position in line; smaller comes first. One ticket serves every queue of a request. So requests for many keys have the same order
/// everywhere and never deadlock with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(pub(super) i64);

impl Ticket {
    /// In front of all others.
    pub(super) const FIRST: Self = Self(i64::MIN);
    /// Behind all others.
    pub(super) const LAST: Self = Self(i64::MAX);
}

/// Waiters of a chunk before it splits.
const FULL: usize = if cfg!(test) { 8 } else { 128 };

/// The waiters of one key, in order.
///
/// They lie in chunks; no chunk is empty. So one that comes back to its place in the middle moves few others, and its place is the sum
/// of the chunks in front.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    chunks: SmallVec<[Chunk; 1]>,
    len: usize,
}

type Chunk = VecDeque<(Ticket, WaiterId)>;

impl Tickets {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The waiters, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = WaiterId> {
        self.chunks.iter().flatten().map(|(_, waiter)| *waiter)
    }

    /// The waiters in front of `ticket`, in order.
    pub(super) fn before(&self, ticket: Ticket) -> impl DoubleEndedIterator<Item = WaiterId> {
        let (number, index) = self.find(ticket);
        let whole = self.chunks.iter().take(number).flatten();
        let part = self.chunks.get(number).into_iter().flat_map(move |chunk| chunk.iter().take(index));
        whole.chain(part).map(|(_, waiter)| *waiter)
    }

    /// Adds a waiter. O(log n) at one of the ends; anywhere else a chunk is moved, too.
    pub(super) fn insert(&mut self, ticket: Ticket, waiter: WaiterId) {
        self.len = self.len.saturating_add(1);
        let (number, index) = self.find(ticket);
        match self.chunks.get_mut(number) {
            Some(chunk) => {
                chunk.insert(index, (ticket, waiter));
                if chunk.len() > FULL {
                    let behind = chunk.split_off(FULL / 2);
                    self.chunks.insert(number.saturating_add(1), behind);
                }
            }
            None => match self.chunks.last_mut().filter(|last| last.len() < FULL) {
                Some(last) => last.push_back((ticket, waiter)),
                None => self.chunks.push(Chunk::from([(ticket, waiter)])),
            },
        }
    }

    /// Removes a waiter; `true` if it was the first.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let (number, index) = self.find(ticket);
        let Some(chunk) = self.chunks.get_mut(number).filter(|chunk| chunk.get(index).is_some_and(|it| it.0 == ticket))
        else {
            return false;
        };
        chunk.remove(index);
        let rest = chunk.len();
        self.len = self.len.saturating_sub(1);
        if rest == 0 {
            self.chunks.remove(number);
        } else if rest < FULL / 4 {
            self.join(number);
            self.join(number.saturating_sub(1));
        }
        (number, index) == (0, 0)
    }

    /// Joins this chunk and the next one if both are sparse.
    fn join(&mut self, number: usize) {
        let next = number.saturating_add(1);
        if let (Some(chunk), Some(behind)) = (self.chunks.get(number), self.chunks.get(next))
            && chunk.len().saturating_add(behind.len()) <= FULL / 2
        {
            let mut behind = self.chunks.remove(next);
            if let Some(chunk) = self.chunks.get_mut(number) {
                chunk.append(&mut behind);
            }
        }
    }

    /// The place of the waiter with this ticket: 1 for the first. O(n / 128) if it is not the last.
    pub(super) fn place(&self, ticket: Ticket) -> usize {
        let in_front = if self.last().is_some_and(|last| last == ticket) {
            self.len.saturating_sub(1)
        } else {
            let (number, index) = self.find(ticket);
            self.chunks.iter().take(number).map(VecDeque::len).sum::<usize>().saturating_add(index)
        };
        in_front.saturating_add(1)
    }

    fn last(&self) -> Option<Ticket> {
        self.chunks.last()?.back().map(|(last, _)| *last)
    }

    /// Where the first waiter is that is not in front of `ticket`: the number of its chunk, and its index there. The number of chunks if there
    /// is none.
    fn find(&self, ticket: Ticket) -> (usize, usize) {
        let is_in_front = |(other, _): &(Ticket, WaiterId)| *other < ticket;
        if self.last().is_none_or(|last| last < ticket) {
            return (self.chunks.len(), 0);
        }
        let number = self.chunks.partition_point(|chunk| chunk.back().is_some_and(is_in_front));
        (number, self.chunks.get(number).map_or(0, |chunk| chunk.partition_point(is_in_front)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::slab::Slab;

    #[test]
    fn a_place_counts_who_is_in_front() {
        let mut queue = Tickets::default();
        let places =
            |queue: &Tickets, tickets: &[i64]| tickets.iter().map(|it| queue.place(Ticket(*it))).collect::<Vec<_>>();
        for ticket in [10, 20, 30, 40] {
            queue.insert(Ticket(ticket), WaiterId::FIRST);
        }
        assert_eq!(places(&queue, &[10, 20, 30, 40]), [1, 2, 3, 4]);
        // A waiter that goes in front of all others.
        queue.insert(Ticket(-1), WaiterId::FIRST);
        assert_eq!(places(&queue, &[-1, 10, 40]), [1, 2, 5]);
        assert!(queue.remove(Ticket(-1)) && queue.remove(Ticket(10)) && !queue.remove(Ticket(30)));
        assert!(!queue.remove(Ticket(30)), "it has left");
        assert_eq!(places(&queue, &[20, 40]), [1, 2]);
        // Asking again: the same ticket.
        queue.insert(Ticket(50), WaiterId::FIRST);
        assert!(!queue.remove(Ticket(40)));
        queue.insert(Ticket(40), WaiterId::FIRST);
        assert_eq!(places(&queue, &[20, 40, 50]), [1, 2, 3]);
    }

    #[test]
    fn whoever_comes_goes_and_comes_back_in_whatever_order_it_is_a_sorted_list() {
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..if cfg!(miri) { 5 } else { 1_000 } {
            let mut ids = Slab::default();
            let (mut queue, mut present, mut absent) = (Tickets::default(), Vec::new(), Vec::new());
            for step in 1..if cfg!(miri) { 40 } else { 200 } {
                // Now the line grows, now it shrinks.
                let grows = random.u8(..8) < if step / 50 % 2 == round % 2 { 6 } else { 2 };
                if grows {
                    let back = if random.bool() { absent.pop() } else { None };
                    let ticket = back.unwrap_or(if random.u8(..8) == 0 { -step } else { step });
                    let id = WaiterId(ids.insert(()));
                    queue.insert(Ticket(ticket), id);
                    present.push((ticket, id));
                    present.sort_unstable();
                } else if !present.is_empty() {
                    let which = if random.bool() { 0 } else { random.usize(..present.len()) };
                    let (gone, _) = present.remove(which);
                    assert_eq!(queue.remove(Ticket(gone)), which == 0);
                    absent.push(gone);
                    random.shuffle(&mut absent);
                }
                assert!(queue.iter().eq(present.iter().map(|(_, id)| *id)));
                assert_eq!(queue.len(), present.len());
                let some = random.usize(..=present.len());
                let cut = present.get(some).map_or(Ticket::LAST, |(ticket, _)| Ticket(*ticket));
                assert!(queue.before(cut).eq(present.iter().take(some).map(|(_, id)| *id)));
                assert!(queue.before(cut).rev().eq(present.iter().take(some).rev().map(|(_, id)| *id)));
                assert!((1..).zip(&present).all(|(place, (ticket, _))| queue.place(Ticket(*ticket)) == place));
                assert!(queue.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= FULL));
                assert!(queue.chunks.len() <= 2 + present.len() * 4 / FULL, "{} chunks", queue.chunks.len());
            }
        }
    }
}
