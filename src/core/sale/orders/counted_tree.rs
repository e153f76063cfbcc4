//! Orders in an order of their own, with sums over any part of it.
//!
//! At every command the sale asks for the units of all due holds, of which there may be a hundred thousand. It also asks which order of the
//! line is at a place, or at which place an order is. The answer may take microseconds. So the orders are in a B-tree whose branches know
//! how many orders and units lie under each child: every operation costs O(log n). The tree has no keys but the boundaries of its nodes.
//! The others are read from the records. An order takes little more than four bytes.

use std::{iter, mem};

use crate::core::invariant::{Known, invariant};

/// The sums of some orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub orders: usize,
    /// Their units, modulo 2^64.
    pub units: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.orders = self.orders.wrapping_add(other.orders);
        self.units = self.units.wrapping_add(other.units);
    }

    fn take(&mut self, other: Self) {
        self.orders = self.orders.wrapping_sub(other.orders);
        self.units = self.units.wrapping_sub(other.units);
    }
}

/// Where the keys and units of orders are read: their records.
pub trait Source<K> {
    /// The key of an order, and its units. No two orders of a tree have the same key.
    fn read(&self, number: u32) -> Option<(K, u64)>;

    /// The key alone.
    #[inline]
    fn key(&self, number: u32) -> Option<K> {
        Some(self.read(number)?.0)
    }
}

/// The numbers of orders, sorted by keys of type `K`. A node has at most `FULL` numbers or children.
pub struct CountedTree<K, const FULL: usize = 128> {
    root: Node<K>,
    sum: Sum,
    /// The key of the first order.
    first: Option<K>,
}

enum Node<K> {
    Leaf(Vec<u32>),
    Branch(Vec<Child<K>>),
}

struct Child<K> {
    /// At most the key of its first order, and above those of all orders before.
    start: K,
    sum: Sum,
    node: Node<K>,
}

/// An order that comes or goes.
#[derive(Clone, Copy)]
struct Entry<K> {
    number: u32,
    key: K,
    sum: Sum,
}

/// A place in a tree.
struct Cut<'t> {
    /// The sums of the leaves before.
    before: Sum,
    /// The sums of its leaf.
    leaf: Sum,
    /// The orders of its leaf before it, and behind it.
    parts: (&'t [u32], &'t [u32]),
}

impl<K, const FULL: usize> Default for CountedTree<K, FULL> {
    fn default() -> Self {
        Self { root: Node::Leaf(Vec::new()), sum: Sum::default(), first: None }
    }
}

impl<K: Ord + Copy, const FULL: usize> CountedTree<K, FULL> {
    /// The tree of these orders, which are sorted. `order` tells the key, the number and the units of each.
    pub fn from_sorted<T>(orders: &[T], order: impl Fn(&T) -> Option<(K, u32, u64)>) -> Self {
        let leaf = |part: &[T]| {
            let (mut numbers, mut sum) = (Vec::with_capacity(part.len()), Sum::default());
            for (_, number, units) in part.iter().filter_map(&order) {
                numbers.push(number);
                sum.add(Sum { orders: 1, units });
            }
            Some(Child { start: order(part.first()?)?.0, sum, node: Node::Leaf(numbers) })
        };
        let mut level: Vec<_> = orders.chunks(FULL).filter_map(leaf).collect();
        while level.len() > 1 {
            let mut rest = level.into_iter();
            let branch = || Some(Node::Branch(rest.by_ref().take(FULL).collect())).filter(|node| node.entries() > 0);
            level = iter::from_fn(branch).filter_map(|node| node.into_child(|_| None)).collect();
        }
        level.pop().map_or_else(Self::default, |Child { start, sum, node }| Self {
            root: node,
            sum,
            first: Some(start),
        })
    }

    /// How many orders there are.
    pub fn len(&self) -> usize {
        self.sum.orders
    }

    /// The first order's key.
    pub fn first(&self) -> Option<K> {
        self.first
    }

    /// Adds an order whose record is already in `source`.
    pub fn insert(&mut self, number: u32, source: &impl Source<K>) {
        let Some(entry) = Entry::read(number, source) else { return };
        let first = self.first.map_or(entry.key, |first| first.min(entry.key));
        self.first = Some(first);
        self.sum.add(entry.sum);
        let Some(upper) = self.root.insert::<FULL>(&entry, source) else { return };
        let mut lower =
            Child { start: first, sum: self.sum, node: mem::replace(&mut self.root, Node::Leaf(Vec::new())) };
        lower.sum.take(upper.sum);
        self.root = Node::Branch(vec![lower, upper]);
    }

    /// Removes an order whose record is still in `source`.
    pub fn remove(&mut self, number: u32, source: &impl Source<K>) {
        let Some(entry) = Entry::read(number, source) else { return };
        let removed = self.root.remove::<FULL>(&entry, source);
        if !invariant!(removed, "an order that is removed is in the leaf of its key") {
            return;
        }
        self.sum.take(entry.sum);
        if self.len() == 0 {
            *self = Self::default();
            return;
        }
        while let Node::Branch(children) = &mut self.root
            && children.len() < 2
        {
            self.root = children.pop().map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        if self.first == Some(entry.key) {
            self.first = self.get(0).and_then(|number| source.key(number));
        }
    }

    /// The order at a place; 0: the one with the lowest key.
    pub fn get(&self, place: usize) -> Option<u32> {
        self.run(place).first().copied()
    }

    /// How many orders have this key or a lower one.
    pub fn count_to(&self, high: K, source: &impl Source<K>) -> usize {
        self.cut(high, source).count()
    }

    /// The sums of the orders with this key or a lower one. Reads the records of half a leaf at most.
    pub fn sum_to(&self, high: K, source: &impl Source<K>) -> Sum {
        if self.first.is_none_or(|first| first > high) {
            return Sum::default();
        }
        let cut = self.cut(high, source);
        let units = |part: &[u32]| {
            let units = part.iter().filter_map(|number| source.read(*number)).map(|(_, units)| units);
            units.fold(0, u64::wrapping_add)
        };
        let of_leaf = match cut.parts {
            (lower, upper) if upper.len() < lower.len() => cut.leaf.units.wrapping_sub(units(upper)),
            (lower, _) => units(lower),
        };
        Sum { orders: cut.count(), units: cut.before.units.wrapping_add(of_leaf) }
    }

    /// The units of the first orders that are together at most `most`. No order has more than `largest` units.
    pub fn units_within(&self, most: u64, largest: u64, source: &impl Source<K>) -> u64 {
        let mut left = most;
        self.root.take_from(&mut left, largest, source);
        most.wrapping_sub(left)
    }

    /// The orders above `low`, in order; all orders without one.
    pub fn above(&self, low: Option<K>, source: &impl Source<K>) -> impl Iterator<Item = u32> {
        let mut place = low.map_or(0, |low| self.count_to(low, source));
        let runs = iter::from_fn(move || {
            let run = self.run(place);
            place = place.saturating_add(run.len());
            (!run.is_empty()).then_some(run)
        });
        runs.flatten().copied()
    }

    /// Heap bytes. Costs a step for each leaf.
    pub fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Allocations to free, about.
    pub fn effort(&self) -> usize {
        self.len().div_ceil(FULL)
    }

    /// The place behind this key.
    fn cut(&self, high: K, source: &impl Source<K>) -> Cut<'_> {
        let (mut node, mut before, mut sum) = (&self.root, Sum::default(), self.sum);
        loop {
            match node {
                Node::Leaf(numbers) => {
                    let is_lower = |number: &u32| source.key(*number).is_some_and(|other| other <= high);
                    let parts = numbers.split_at_checked(place(numbers, is_lower));
                    return Cut { before, leaf: sum, parts: parts.unwrap_or((numbers, &[])) };
                }
                Node::Branch(children) => {
                    let (lower, rest) = children.split_at_checked(child_of(children, high)).unwrap_or_default();
                    before.add(sum_of(lower));
                    let child = rest.first().known("a branch has children");
                    let Some(child) = child else { return Cut { before, leaf: Sum::default(), parts: (&[], &[]) } };
                    (node, sum) = (&child.node, child.sum);
                }
            }
        }
    }

    /// The orders from this place to the end of its leaf; none behind the last.
    fn run(&self, mut place: usize) -> &[u32] {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(numbers) => return numbers.get(place..).unwrap_or(&[]),
                Node::Branch(children) => {
                    let mut children = children.iter();
                    node = loop {
                        let Some(child) = children.next() else { return &[] };
                        match place.checked_sub(child.sum.orders) {
                            Some(rest) => place = rest,
                            None => break &child.node,
                        }
                    };
                }
            }
        }
    }
}

impl Cut<'_> {
    /// How many orders are before it.
    fn count(&self) -> usize {
        self.before.orders.wrapping_add(self.parts.0.len())
    }
}

impl<K> Entry<K> {
    fn read(number: u32, source: &impl Source<K>) -> Option<Self> {
        let (key, units) = source.read(number).known("an order of a tree has a key")?;
        Some(Self { number, key, sum: Sum { orders: 1, units } })
    }
}

impl<K: Ord + Copy> Node<K> {
    /// Adds an order. A full node splits, and gives its upper part back.
    fn insert<const FULL: usize>(&mut self, new: &Entry<K>, source: &impl Source<K>) -> Option<Child<K>> {
        let upper = match self {
            Self::Leaf(numbers) => {
                let is_lower = |number: &u32| source.key(*number).is_some_and(|other| other < new.key);
                Self::Leaf(insert::<_, FULL>(numbers, place(numbers, is_lower), new.number)?)
            }
            Self::Branch(children) => {
                let at = child_of(children, new.key);
                let child = children.get_mut(at)?;
                child.start = child.start.min(new.key);
                child.sum.add(new.sum);
                let upper = child.node.insert::<FULL>(new, source)?;
                child.sum.take(upper.sum);
                Self::Branch(insert::<_, FULL>(children, at.saturating_add(1), upper)?)
            }
        };
        upper.into_child(|number| source.read(number))
    }

    /// Removes an order; false if it is not there.
    fn remove<const FULL: usize>(&mut self, old: &Entry<K>, source: &impl Source<K>) -> bool {
        match self {
            Self::Leaf(numbers) => {
                let is_lower = |number: &u32| source.key(*number).is_some_and(|other| other < old.key);
                let at = place(numbers, is_lower);
                let found = numbers.get(at) == Some(&old.number);
                if found {
                    remove::<_, FULL>(numbers, at);
                }
                found
            }
            Self::Branch(children) => {
                let at = child_of(children, old.key);
                let Some(child) = children.get_mut(at) else { return false };
                let removed = child.node.remove::<FULL>(old, source);
                if removed {
                    child.sum.take(old.sum);
                }
                if child.node.entries() < FULL / 4 {
                    join::<_, FULL>(children, at);
                }
                removed
            }
        }
    }

    /// Takes from `left` the units of one order after the other; false at the first order that has more than are left.
    fn take_from(&self, left: &mut u64, largest: u64, source: &impl Source<K>) -> bool {
        let take = |left: &mut u64, units| left.checked_sub(units).map(|rest| *left = rest).is_some();
        match self {
            Self::Leaf(numbers) => {
                numbers.iter().filter_map(|number| source.read(*number)).all(|(_, units)| take(left, units))
            }
            Self::Branch(children) => children.iter().all(|child| {
                // So many large orders may pass 2^64 together, and then their sum says nothing.
                let is_exact = largest.checked_mul(child.sum.orders as u64).is_some();
                is_exact && take(left, child.sum.units) || child.node.take_from(left, largest, source)
            }),
        }
    }

    /// The node, with the key at which it starts and the sums under it; `None` if it is empty.
    fn into_child(self, read: impl Fn(u32) -> Option<(K, u64)>) -> Option<Child<K>> {
        let mut sum = Sum::default();
        let start = match &self {
            Self::Leaf(numbers) => {
                let units = numbers.iter().filter_map(|number| read(*number)).map(|(_, units)| units);
                units.for_each(|units| sum.add(Sum { orders: 1, units }));
                read(*numbers.first()?)?.0
            }
            Self::Branch(children) => {
                sum = sum_of(children);
                children.first()?.start
            }
        };
        Some(Child { start, sum, node: self })
    }

    /// How many numbers or children it has.
    fn entries(&self) -> usize {
        match self {
            Self::Leaf(numbers) => numbers.len(),
            Self::Branch(children) => children.len(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Leaf(numbers) => numbers.capacity().saturating_mul(size_of::<u32>()),
            Self::Branch(children) => {
                let own = children.capacity().saturating_mul(size_of::<Child<K>>());
                children.iter().map(|child| child.node.memory()).fold(own, usize::saturating_add)
            }
        }
    }
}

fn sum_of<K>(children: &[Child<K>]) -> Sum {
    let mut sum = Sum::default();
    for child in children {
        sum.add(child.sum);
    }
    sum
}

/// The child under which a key is, or would be.
fn child_of<K: Ord + Copy>(children: &[Child<K>], key: K) -> usize {
    children.partition_point(|child| child.start <= key).saturating_sub(1)
}

/// How many numbers of a leaf are lower. Mostly it is all of them or none: orders come at the end and go at the front.
fn place(numbers: &[u32], is_lower: impl Fn(&u32) -> bool) -> usize {
    match (numbers.first(), numbers.last()) {
        (Some(first), _) if !is_lower(first) => 0,
        (_, Some(last)) if is_lower(last) => numbers.len(),
        _ => numbers.partition_point(is_lower),
    }
}

/// Puts an entry into its place. A full node splits, and its upper part is returned.
fn insert<T, const FULL: usize>(entries: &mut Vec<T>, at: usize, new: T) -> Option<Vec<T>> {
    if entries.len() < FULL {
        entries.insert(at.min(entries.len()), new);
        return None;
    }
    // If the new entry comes last, as it mostly does, the node stays full and a new one begins.
    let mut upper = entries.split_off(if at == FULL { FULL } else { FULL / 2 });
    entries.shrink_to_fit();
    match at.checked_sub(entries.len()) {
        Some(at) => upper.insert(at.min(upper.len()), new),
        None => entries.insert(at, new),
    }
    Some(upper)
}

/// Removes an entry, and gives memory back that is far from needed.
fn remove<T, const FULL: usize>(entries: &mut Vec<T>, at: usize) {
    entries.remove(at);
    if entries.len() < entries.capacity() / 2 {
        entries.shrink_to(entries.len().saturating_add(FULL / 8));
    }
}

/// Moves the rest of a sparse child into the child before it, if both together are at most half full; removes the child if it is empty.
fn join<K, const FULL: usize>(children: &mut Vec<Child<K>>, at: usize) {
    let before = at.checked_sub(1).and_then(|before| children.get_disjoint_mut([before, at]).ok());
    if let Some([before, child]) = before {
        let moved = match (&mut before.node, &mut child.node) {
            (Node::Leaf(mine), Node::Leaf(others)) => append::<_, FULL>(mine, others),
            (Node::Branch(mine), Node::Branch(others)) => append::<_, FULL>(mine, others),
            // All leaves are equally deep.
            _ => false,
        };
        if moved {
            before.sum.add(mem::take(&mut child.sum));
        }
    }
    if children.get(at).is_some_and(|child| child.sum.orders == 0) {
        remove::<_, FULL>(children, at);
    }
}

/// Moves everything behind what is there, if both together are at most half full.
fn append<T, const FULL: usize>(mine: &mut Vec<T>, others: &mut Vec<T>) -> bool {
    let fits = mine.len().saturating_add(others.len()) <= FULL / 2;
    if fits {
        mine.append(others);
    }
    fits
}

#[cfg(test)]
mod tests;
