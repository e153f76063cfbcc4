//! A sum tree compared with a sorted list of its holds.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Key and units of each hold.
#[derive(Default)]
struct Holds(BTreeMap<u32, (i64, u64)>);

impl Source<(i64, u32)> for Holds {
    fn key(&self, number: u32) -> Option<(i64, u32)> {
        self.0.get(&number).map(|(deadline, _)| (*deadline, number))
    }

    fn sum(&self, number: u32) -> Sum {
        self.0.get(&number).map_or(Sum::default(), |(_, units)| Sum { orders: 1, units: *units })
    }
}

impl Holds {
    fn between(&self, low: (i64, u32), high: (i64, u32)) -> Vec<u32> {
        let mut keys: Vec<_> = self.0.iter().map(|(number, (deadline, _))| (*deadline, *number)).collect();
        keys.sort_unstable();
        keys.into_iter().filter(|key| (low..=high).contains(key)).map(|(_, number)| number).collect()
    }

    fn sum_of(&self, numbers: &[u32]) -> Sum {
        let mut sum = Sum::default();
        for number in numbers {
            sum.add(self.sum(*number));
        }
        sum
    }
}

const LAST: (i64, u32) = (i64::MAX, u32::MAX);

fn check(tree: &SumTree<(i64, u32)>, holds: &Holds, low: (i64, u32), high: (i64, u32)) {
    let ever = (i64::MIN, 0);
    let mut behind = holds.between(low, high);
    behind.retain(|number| holds.key(*number) != Some(low));
    assert_eq!(tree.sum(Some(low), high, holds), holds.sum_of(&behind));
    for high in [high, LAST, low, low, high] {
        let expected = holds.sum_of(&holds.between(ever, high));
        assert_eq!(tree.sum(None, high, holds), expected);
        assert_eq!(tree.sum_to(high, holds), expected);
    }
    assert_eq!(tree.from(low, holds).collect::<Vec<_>>(), holds.between(low, LAST));
    assert_eq!(tree.first().map(|(_, number)| number), holds.between(ever, LAST).first().copied());
    assert_eq!(tree.room, tree.leaves.values().map(|leaf| leaf.numbers.capacity()).sum::<usize>());
    assert!(tree.leaves.values().all(|leaf| !leaf.numbers.is_empty()));
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn deadlines_in_their_order_fill_the_leaves() {
    let (mut tree, mut holds) = (SumTree::new(), Holds::default());
    for number in 0..10_000 {
        holds.0.insert(number, (i64::from(number / 7), 1));
        tree.insert(number, &holds);
    }
    assert_eq!(tree.effort(), 10_000_usize.div_ceil(FULL));
    assert!(tree.memory() < 5 * 10_000, "{} bytes", tree.memory());
    assert_eq!(tree.sum(None, (99, u32::MAX), &holds), holds.sum_of(&(0..700).collect::<Vec<_>>()));
    for number in 0..10_000 {
        assert_eq!(tree.first(), Some((i64::from(number / 7), number)));
        tree.remove(number, &holds);
    }
    assert_eq!((tree.first(), tree.effort(), tree.memory()), (None, 0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn what_is_left_of_many_holds_takes_little() {
    let (mut tree, mut holds) = (SumTree::new(), Holds::default());
    for number in 0..10_000 {
        holds.0.insert(number, (i64::from(number), 1));
        tree.insert(number, &holds);
    }
    for number in (0..10_000).filter(|number| number % 100 != 0) {
        tree.remove(number, &holds);
        holds.0.remove(&number);
    }
    check(&tree, &holds, (500, 0), (7_000, 0));
    assert!(tree.memory() < 20 * 100, "{} bytes for 100 holds", tree.memory());
}

#[test]
fn sums_begin_behind_a_hold_and_end_with_one() {
    // Three leaves and a part of one; Miri would take minutes for so many sums.
    let count: u32 = if cfg!(miri) { 140 } else { 400 };
    let (mut tree, mut holds) = (SumTree::new(), Holds::default());
    for number in 0..count {
        holds.0.insert(number, (i64::from(number), 1));
        tree.insert(number, &holds);
    }
    for number in (0..count).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let key = (i64::from(number), number);
        assert_eq!(tree.sum(Some(key), LAST, &holds).units, u64::from(count - 1 - number));
        assert_eq!(tree.sum(None, key, &holds).units, 1 + u64::from(number));
    }
    let key = (100, 100);
    assert_eq!(tree.sum_to(key, &holds).units, 101);
    tree.remove(100, &holds);
    assert_eq!(tree.sum_to(key, &holds).units, 100);
    tree.insert(100, &holds);
    assert_eq!(tree.sum_to(key, &holds).units, 101);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 60 }, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_sorted_map(
        steps in proptest::collection::vec((0..600_u32, 0..200_i64, 1..4_u64), 1..if cfg!(miri) { 60 } else { 1_200 }),
        grow in 2..5_usize, low in (0..200_i64, 0..600_u32), high in (0..200_i64, 0..600_u32),
    ) {
        let (mut tree, mut holds) = (SumTree::new(), Holds::default());
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
