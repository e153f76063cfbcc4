//! A counted tree compared with a sorted list of its orders.
#![expect(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Small nodes, so that few orders make a deep tree.
type Tree<const FULL: usize> = CountedTree<Key, FULL>;
type Key = (i64, u32);

/// Deadline and units of each order.
#[derive(Default)]
struct Holds(BTreeMap<u32, (i64, u64)>);

impl Source<Key> for Holds {
    fn read(&self, number: u32) -> Option<(Key, u64)> {
        self.0.get(&number).map(|(deadline, units)| ((*deadline, number), *units))
    }
}

impl Holds {
    /// Those up to `high`, in order.
    fn to(&self, high: Key) -> Vec<u32> {
        let mut keys: Vec<_> = self.0.iter().map(|(number, (deadline, _))| (*deadline, *number)).collect();
        keys.sort_unstable();
        keys.into_iter().filter(|key| *key <= high).map(|(_, number)| number).collect()
    }

    fn sum_of(&self, numbers: &[u32]) -> Sum {
        let units = numbers.iter().map(|number| self.read(*number).unwrap().1);
        Sum { orders: numbers.len(), units: units.sum() }
    }
}

const LAST: Key = (i64::MAX, u32::MAX);
/// No order of these tests has more units.
const LARGEST: u64 = 8;

/// Checks a node under which keys from `from` to before `to` are: no node too full, every sum right, every boundary in its place.
fn check_node<const FULL: usize>(node: &Node<Key>, holds: &Holds, from: Option<Key>, to: Option<Key>) -> Sum {
    match node {
        Node::Leaf(numbers) => {
            let keys: Vec<_> = numbers.iter().map(|number| holds.key(*number).unwrap()).collect();
            assert!(keys.is_sorted() && numbers.len() <= FULL);
            assert!(keys.iter().all(|key| from.is_none_or(|from| from <= *key) && to.is_none_or(|to| *key < to)));
            holds.sum_of(numbers)
        }
        Node::Branch(children) => {
            assert!((1..=FULL).contains(&children.len()));
            let ends = children.iter().skip(1).map(|child| Some(child.start)).chain([to]);
            let mut sum = Sum::default();
            for (child, end) in children.iter().zip(ends) {
                assert!(child.sum.orders > 0);
                assert_eq!(child.sum, check_node::<FULL>(&child.node, holds, Some(child.start), end));
                sum.add(child.sum);
            }
            sum
        }
    }
}

fn check<const FULL: usize>(tree: &Tree<FULL>, holds: &Holds, low: Key, high: Key) {
    let all = holds.to(LAST);
    assert_eq!(check_node::<FULL>(&tree.root, holds, None, None), holds.sum_of(&all));
    assert_eq!(tree.sum, holds.sum_of(&all));
    assert_eq!(tree.len(), all.len());
    assert_eq!(tree.first().map(|(_, number)| number), all.first().copied());
    for high in [high, LAST, low] {
        assert_eq!(tree.sum_to(high, holds), holds.sum_of(&holds.to(high)));
        assert_eq!(tree.count_to(high, holds), holds.to(high).len());
    }
    assert_eq!(tree.above(Some(low), holds).collect::<Vec<_>>(), all[holds.to(low).len()..]);
    assert_eq!(tree.above(None, holds).collect::<Vec<_>>(), all);
    for (place, number) in all.iter().enumerate() {
        assert_eq!(tree.get(place), Some(*number));
    }
    assert_eq!(tree.get(all.len()), None);
    let sums: Vec<_> = (0..=all.len()).map(|count| holds.sum_of(&all[..count]).units).collect();
    for most in [0, 1, all.len() as u64, u64::MAX] {
        let within = sums.iter().copied().filter(|sum| *sum <= most).max().unwrap();
        // Whether sums can be relied on, or not.
        for largest in [LARGEST, u64::MAX] {
            assert_eq!(tree.units_within(most, largest, holds), within);
        }
    }
    let built = Tree::<FULL>::from_sorted(&all, |number| holds.read(*number).map(|(key, units)| (key, *number, units)));
    assert_eq!(check_node::<FULL>(&built.root, holds, None, None), built.sum);
    assert_eq!((built.sum, built.first()), (tree.sum, tree.first()));
    assert_eq!(built.above(None, holds).collect::<Vec<_>>(), all);
}

/// A tree with so many orders, each with the deadline that `deadline` gives it and one unit.
fn filled(count: u32, deadline: impl Fn(u32) -> i64) -> (Tree<128>, Holds) {
    let (mut tree, mut holds) = (Tree::default(), Holds::default());
    for number in 0..count {
        holds.0.insert(number, (deadline(number), 1));
        tree.insert(number, &holds);
    }
    (tree, holds)
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn deadlines_in_their_order_fill_the_leaves() {
    let (mut tree, holds) = filled(10_000, |number| i64::from(number / 7));
    assert_eq!(tree.effort(), 10_000_usize.div_ceil(128));
    assert!(tree.memory() < 5 * 10_000, "{} bytes", tree.memory());
    assert_eq!(tree.sum_to((99, u32::MAX), &holds), holds.sum_of(&(0..700).collect::<Vec<_>>()));
    for number in 0..10_000 {
        assert_eq!(tree.first(), Some((i64::from(number / 7), number)));
        tree.remove(number, &holds);
    }
    assert_eq!((tree.first(), tree.effort(), tree.memory()), (None, 0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn what_is_left_of_many_holds_takes_little() {
    let (mut tree, mut holds) = filled(10_000, i64::from);
    for number in (0..10_000).filter(|number| number % 100 != 0) {
        tree.remove(number, &holds);
        holds.0.remove(&number);
    }
    check(&tree, &holds, (500, 0), (7_000, 0));
    assert!(tree.memory() < 20 * 100, "{} bytes for 100 holds", tree.memory());
}

/// The sum of all is next to nothing, modulo 2^64.
#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn sums_beyond_64_bits_are_not_relied_on() {
    let (mut tree, mut holds) = (Tree::<8>::default(), Holds::default());
    for number in 0..3_000 {
        holds.0.insert(number, (i64::from(number), if number < 10 { 1 } else { 1 << 53 }));
        tree.insert(number, &holds);
    }
    for (most, within) in [(9, 9), (10, 10), (1 << 53, 10), ((1 << 53) + 10, (1 << 53) + 10)] {
        assert_eq!(tree.units_within(most, 1 << 53, &holds), within);
    }
}

#[test]
fn sums_end_with_an_order() {
    // Three leaves and a part of one; Miri would take minutes for so many sums.
    let count: u32 = if cfg!(miri) { 140 } else { 400 };
    let (mut tree, holds) = filled(count, i64::from);
    let units_to = |tree: &Tree<128>, key| tree.sum_to(key, &holds).units;
    for number in (0..count).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let key = (i64::from(number), number);
        assert_eq!(units_to(&tree, LAST) - units_to(&tree, key), u64::from(count - 1 - number));
        assert_eq!(units_to(&tree, key), 1 + u64::from(number));
    }
    let key = (100, 100);
    assert_eq!(units_to(&tree, key), 101);
    tree.remove(100, &holds);
    assert_eq!(units_to(&tree, key), 100);
    tree.insert(100, &holds);
    assert_eq!(units_to(&tree, key), 101);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 60 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_sorted_map(
        steps in vec((0..600_u32, 0..200_i64, 1..4_u64), 1..if cfg!(miri) { 60 } else { 1_200 }),
        grow in 2..5_usize, low in (0..200_i64, 0..600_u32), high in (0..200_i64, 0..600_u32),
    ) {
        let (mut tree, mut holds) = (Tree::<128>::default(), Holds::default());
        for (at, (number, deadline, units)) in steps.into_iter().enumerate() {
            let known = holds.0.contains_key(&number);
            if known {
                tree.remove(number, &holds);
            }
            if known && at.is_multiple_of(grow) {
                holds.0.remove(&number);
            } else {
                holds.0.insert(number, (deadline, units));
                tree.insert(number, &holds);
            }
            if at.is_multiple_of(64) {
                check(&tree, &holds, low, high);
            }
        }
        check(&tree, &holds, low, high);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Orders come sorted or not, and leave from the front or from anywhere.
    #[test]
    fn it_is_a_sorted_list(steps in vec((0..8_u8, any::<u16>()), 1..if cfg!(miri) { 60 } else { 800 }), orderly: bool) {
        let (mut holds, mut list, mut tree) = (Holds::default(), Vec::<u32>::new(), Tree::<8>::default());
        for (number, (what, pick)) in (0..).zip(steps) {
            let pick = usize::from(pick);
            if what < 5 || list.is_empty() {
                let deadline = if orderly { i64::from(number) } else { i64::try_from(pick).unwrap() };
                list.insert(holds.to((deadline, number)).len(), number);
                holds.0.insert(number, (deadline, u64::from(what) + 1));
                tree.insert(number, &holds);
            } else {
                let at = if what < 7 { 0 } else { pick % list.len() };
                let entry = Entry::read(list.remove(at), &holds).unwrap();
                prop_assert_eq!(tree.count_to(entry.key, &holds), at + 1);
                tree.remove(entry.number, &holds);
                prop_assert!(!tree.root.remove::<8>(&entry, &holds));
                holds.0.remove(&entry.number);
            }
            check_node::<8>(&tree.root, &holds, None, None);
            prop_assert_eq!(tree.sum, holds.sum_of(&list));
            for (place, number) in list.iter().enumerate() {
                prop_assert_eq!(tree.get(place), Some(*number));
            }
            prop_assert_eq!(tree.get(list.len()), None);
        }
        check(&tree, &holds, (1 << 14, 0), (1 << 15, 0));
    }
}
