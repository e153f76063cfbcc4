//! The order of the waiters of one key.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::terms::WaiterId;

/// A position in line; smaller comes first. One ticket serves every queue of a request. So requests for many keys have the same order
/// everywhere and never deadlock with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(pub(super) i64);

impl Ticket {
    /// In front of everybody.
    pub(super) const FIRST: Self = Self(i64::MIN);
    /// Behind everybody.
    pub(super) const LAST: Self = Self(i64::MAX);
}

/// The waiters of one key, in order.
///
/// Each has a number that is larger than that of the one before it. So the place of a waiter is known without counting those in front;
/// whoever leaves between two waiters leaves a gap in the numbers.
#[derive(Debug, Default)]
pub(super) struct Tickets(BTreeMap<Ticket, (WaiterId, i64)>);

impl Tickets {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The waiters, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = WaiterId> {
        self.0.values().map(|(waiter, _)| *waiter)
    }

    /// The waiters in front of `ticket`, in order.
    pub(super) fn before(&self, ticket: Ticket) -> impl DoubleEndedIterator<Item = WaiterId> {
        self.0.range(..ticket).map(|(_, (waiter, _))| *waiter)
    }

    /// Adds a waiter: at one of the ends, or where one with this ticket was before.
    pub(super) fn insert(&mut self, ticket: Ticket, waiter: WaiterId) {
        let number = match self.0.last_key_value() {
            None => 0,
            Some((last, (_, number))) if *last < ticket => number.saturating_add(1),
            Some(_) => return self.insert_in_front(ticket, waiter),
        };
        self.0.insert(ticket, (waiter, number));
    }

    /// Adds a waiter in front of others. If others have taken the numbers there meanwhile, those behind move on, up to the next gap.
    fn insert_in_front(&mut self, ticket: Ticket, waiter: WaiterId) {
        let before = self.0.range(..ticket).next_back().map(|(_, (_, number))| number.saturating_add(1));
        let behind = || self.0.range(ticket..).next().map(|(_, (_, number))| number.saturating_sub(1));
        let number = before.or_else(behind).unwrap_or(0);
        self.0.insert(ticket, (waiter, number));
        let mut least = number.saturating_add(1);
        for (_, number) in self.0.range_mut((Bound::Excluded(ticket), Bound::Unbounded)).map(|(_, it)| it) {
            if *number >= least {
                break;
            }
            *number = least;
            least = least.saturating_add(1);
        }
    }

    /// Removes a waiter; `true` if it was the first.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let first = self.0.first_key_value().is_some_and(|(first, _)| *first == ticket);
        self.0.remove(&ticket);
        first
    }

    /// The place of the waiter with this ticket: 1 for the first. Others who have left in between may be counted, also some who came back.
    pub(super) fn place(&self, ticket: Ticket) -> u64 {
        let first = self.0.first_key_value().map_or(0, |(_, (_, number))| *number);
        let own = self.0.get(&ticket).map_or(first, |(_, number)| *number);
        u64::try_from(own.saturating_sub(first)).unwrap_or(0).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_who_is_in_front_and_at_most_those_who_left_in_between() {
        let mut queue = Tickets::default();
        let places =
            |queue: &Tickets, tickets: &[i64]| tickets.iter().map(|it| queue.place(Ticket(*it))).collect::<Vec<_>>();
        for ticket in [10, 20, 30, 40] {
            queue.insert(Ticket(ticket), WaiterId::FIRST);
        }
        assert_eq!(places(&queue, &[10, 20, 30, 40]), [1, 2, 3, 4]);
        // One who goes in front of everybody.
        queue.insert(Ticket(-1), WaiterId::FIRST);
        assert_eq!(places(&queue, &[-1, 10, 40]), [1, 2, 5]);
        assert!(queue.remove(Ticket(-1)) && queue.remove(Ticket(10)) && !queue.remove(Ticket(30)));
        assert_eq!(places(&queue, &[20, 40]), [1, 3]);
        // Asking again: the same ticket, and no gap in front any more.
        queue.insert(Ticket(50), WaiterId::FIRST);
        assert!(!queue.remove(Ticket(40)));
        queue.insert(Ticket(40), WaiterId::FIRST);
        assert_eq!(places(&queue, &[20, 40, 50]), [1, 2, 4]);
    }

    #[test]
    fn whoever_comes_back_in_whatever_order_is_counted_by_those_behind() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..if cfg!(miri) { 5 } else { 2_000 } {
            let mut queue = Tickets::default();
            let (mut present, mut absent, mut left) = (Vec::new(), Vec::new(), 0);
            for step in 1..40 {
                if random.u8(..3) == 0 {
                    queue.insert(Ticket(step), WaiterId::FIRST);
                    present.push(step);
                } else if random.bool() && !present.is_empty() {
                    let gone: i64 = present.swap_remove(random.usize(..present.len()));
                    queue.remove(Ticket(gone));
                    absent.push(gone);
                    left += 1;
                } else if !absent.is_empty() {
                    let back = absent.swap_remove(random.usize(..absent.len()));
                    queue.insert(Ticket(back), WaiterId::FIRST);
                    present.push(back);
                }
                present.sort_unstable();
                for (exact, ticket) in (1..).zip(&present) {
                    let place = queue.place(Ticket(*ticket));
                    assert!((exact..=exact + left).contains(&place), "{place} for {exact}, {left} have left");
                }
            }
        }
    }
}
