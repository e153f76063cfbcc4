//! Numbers in an order of their own: which one is at a place, and at which place one is.
//!
//! A B-tree whose branches know how many numbers lie under each child. It has no keys but the boundaries of its nodes: the others are read
//! where the numbers point. A number takes little more than four bytes. Every operation costs O(log n).

/// Numbers of a leaf, and children of a branch, before it splits.
const FULL: usize = if cfg!(test) { 8 } else { 128 };

/// A node with fewer than this joins the one before it, if both together are at most half full.
const SPARSE: usize = FULL / 4;

/// Numbers sorted by keys of type `K`.
pub struct RankTree<K> {
    root: Node<K>,
    len: usize,
}

enum Node<K> {
    Leaf(Vec<u32>),
    Branch(Vec<Child<K>>),
}

struct Child<K> {
    /// At most the key of its first number, and above those of all numbers before.
    start: K,
    /// How many numbers lie under it.
    len: usize,
    node: Node<K>,
}

impl<K> Default for RankTree<K> {
    fn default() -> Self {
        Self { root: Node::Leaf(Vec::new()), len: 0 }
    }
}

impl<K: Ord + Copy> RankTree<K> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a number that is not there yet. `key_of` tells its key, too.
    pub fn insert(&mut self, number: u32, key: K, key_of: impl Fn(u32) -> Option<K> + Copy) {
        let upper = self.root.insert(number, key, key_of);
        self.len = self.len.saturating_add(1);
        let Some((start, upper)) = upper else { return };
        let lower = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
        let first = lower.start(key_of).unwrap_or(start);
        let children = [(first, lower), (start, upper)];
        self.root = Node::Branch(children.map(|(start, node)| Child { start, len: node.len(), node }).into());
    }

    /// Removes a number; false if it is not there.
    pub fn remove(&mut self, number: u32, key: K, key_of: impl Fn(u32) -> Option<K> + Copy) -> bool {
        let removed = self.root.remove(number, key, key_of);
        self.len = self.len.saturating_sub(usize::from(removed));
        while let Node::Branch(children) = &mut self.root
            && children.len() < 2
        {
            self.root = children.pop().map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        removed
    }

    /// How many numbers have a lower key.
    pub fn rank(&self, key: K, key_of: impl Fn(u32) -> Option<K>) -> usize {
        let (mut node, mut before) = (&self.root, 0_usize);
        loop {
            match node {
                Node::Leaf(numbers) => return before.saturating_add(place(numbers, key, key_of)),
                Node::Branch(children) => {
                    let at = child_of(children, key);
                    let lower = children.iter().take(at).map(|child| child.len);
                    before = lower.fold(before, usize::saturating_add);
                    let Some(child) = children.get(at) else { return before };
                    node = &child.node;
                }
            }
        }
    }

    /// The number at a place; 0: the one with the lowest key.
    pub fn get(&self, mut place: usize) -> Option<u32> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(numbers) => return numbers.get(place).copied(),
                Node::Branch(children) => {
                    let mut children = children.iter();
                    node = loop {
                        let child = children.next()?;
                        match place.checked_sub(child.len) {
                            Some(rest) => place = rest,
                            None => break &child.node,
                        }
                    };
                }
            }
        }
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Allocations to free.
    pub fn effort(&self) -> usize {
        self.root.effort()
    }
}

impl<K: Ord + Copy> Node<K> {
    /// Adds a number. A full node splits, and gives its upper part back, with where that starts.
    fn insert(&mut self, number: u32, key: K, key_of: impl Fn(u32) -> Option<K> + Copy) -> Option<(K, Self)> {
        match self {
            Self::Leaf(numbers) => {
                let at = place(numbers, key, key_of);
                let upper = insert(numbers, at, number).map(Self::Leaf)?;
                Some((upper.start(key_of)?, upper))
            }
            Self::Branch(children) => {
                let at = child_of(children, key);
                let child = children.get_mut(at)?;
                child.start = child.start.min(key);
                child.len = child.len.saturating_add(1);
                let (start, node) = child.node.insert(number, key, key_of)?;
                let len = node.len();
                child.len = child.len.saturating_sub(len);
                let upper = insert(children, at.saturating_add(1), Child { start, len, node }).map(Self::Branch)?;
                Some((upper.start(key_of)?, upper))
            }
        }
    }

    /// Removes a number; false if it is not there.
    fn remove(&mut self, number: u32, key: K, key_of: impl Fn(u32) -> Option<K> + Copy) -> bool {
        match self {
            Self::Leaf(numbers) => {
                let at = place(numbers, key, key_of);
                let found = numbers.get(at) == Some(&number);
                if found {
                    numbers.remove(at);
                }
                found
            }
            Self::Branch(children) => {
                let at = child_of(children, key);
                let Some(child) = children.get_mut(at) else { return false };
                let removed = child.node.remove(number, key, key_of);
                child.len = child.len.saturating_sub(usize::from(removed));
                if child.node.entries() < SPARSE {
                    join(children, at);
                }
                removed
            }
        }
    }

    /// How many numbers lie under it.
    fn len(&self) -> usize {
        match self {
            Self::Leaf(numbers) => numbers.len(),
            Self::Branch(children) => children.iter().map(|child| child.len).fold(0, usize::saturating_add),
        }
    }

    /// Its numbers or children.
    fn entries(&self) -> usize {
        match self {
            Self::Leaf(numbers) => numbers.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// The key at which it starts.
    fn start(&self, key_of: impl Fn(u32) -> Option<K>) -> Option<K> {
        match self {
            Self::Leaf(numbers) => key_of(*numbers.first()?),
            Self::Branch(children) => children.first().map(|child| child.start),
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

    fn effort(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Branch(children) => children.iter().map(|child| child.node.effort()).fold(1, usize::saturating_add),
        }
    }
}

/// The child under which a key is, or would be.
fn child_of<K: Ord + Copy>(children: &[Child<K>], key: K) -> usize {
    children.partition_point(|child| child.start <= key).saturating_sub(1)
}

/// Where a number of this key is, or would be. Mostly it comes at the end and goes at the front.
fn place<K: Ord + Copy>(numbers: &[u32], key: K, key_of: impl Fn(u32) -> Option<K>) -> usize {
    let is_before = |number: &u32| key_of(*number).is_some_and(|other| other < key);
    match (numbers.first(), numbers.last()) {
        (Some(first), _) if !is_before(first) => 0,
        (_, Some(last)) if is_before(last) => numbers.len(),
        _ => numbers.partition_point(is_before),
    }
}

/// Puts an entry into its place. A full node splits, and its upper part is returned.
fn insert<T>(entries: &mut Vec<T>, at: usize, new: T) -> Option<Vec<T>> {
    if entries.len() < FULL {
        entries.insert(at.min(entries.len()), new);
        return None;
    }
    // New numbers mostly come last. Then the node stays full, and a new one begins.
    let mut upper = entries.split_off(if at == FULL { FULL } else { FULL / 2 });
    entries.shrink_to_fit();
    match at.checked_sub(entries.len()) {
        Some(at) => upper.insert(at.min(upper.len()), new),
        None => entries.insert(at, new),
    }
    Some(upper)
}

/// Moves what is left of a sparse child into the one before it, if that has room; removes it if nothing is left.
fn join<K>(children: &mut Vec<Child<K>>, at: usize) {
    let before = at.checked_sub(1).and_then(|before| children.split_at_mut_checked(before.saturating_add(1)));
    let empty = match before {
        Some((before, rest)) => match (before.last_mut(), rest.first_mut()) {
            (Some(before), Some(child)) => before.absorb(child),
            _ => false,
        },
        None => children.get(at).is_some_and(|child| child.len == 0),
    };
    if empty {
        children.remove(at);
    }
}

impl<K> Child<K> {
    /// Takes everything from the child behind it, if there is room; whether that one is empty now.
    fn absorb(&mut self, behind: &mut Self) -> bool {
        let absorbed = match (&mut self.node, &mut behind.node) {
            (Node::Leaf(mine), Node::Leaf(others)) => append(mine, others),
            (Node::Branch(mine), Node::Branch(others)) => append(mine, others),
            // All leaves are equally deep.
            _ => false,
        };
        if absorbed {
            self.len = self.len.saturating_add(behind.len);
        }
        absorbed
    }
}

/// Moves everything behind what is there, if both together are at most half full.
fn append<T>(mine: &mut Vec<T>, others: &mut Vec<T>) -> bool {
    let room = others.is_empty() || mine.len().saturating_add(others.len()) <= FULL / 2;
    if room {
        mine.append(others);
    }
    room
}

#[cfg(test)]
mod tests {
    #![expect(clippy::arithmetic_side_effects)]

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Every node as full as it has to be, every count right, every boundary in its place.
    fn check(node: &Node<u64>, keys: &[u64], from: Option<u64>, to: Option<u64>) -> usize {
        match node {
            Node::Leaf(numbers) => {
                let keys: Vec<u64> = numbers.iter().map(|number| keys[*number as usize]).collect();
                assert!(keys.is_sorted() && numbers.len() <= FULL);
                assert!(keys.iter().all(|key| from.is_none_or(|from| from <= *key) && to.is_none_or(|to| *key < to)));
                numbers.len()
            }
            Node::Branch(children) => {
                assert!((1..=FULL).contains(&children.len()));
                let ends = children.iter().skip(1).map(|child| Some(child.start)).chain([to]);
                let lens = children.iter().zip(ends).map(|(child, end)| {
                    assert!(child.len > 0);
                    assert_eq!(child.len, check(&child.node, keys, Some(child.start), end));
                    child.len
                });
                lens.sum()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whether numbers come in order or not, and go from the front or anywhere.
        #[test]
        fn it_is_a_sorted_list(steps in vec((0..8_u8, any::<u16>()), 1..if cfg!(miri) { 60 } else { 800 }), orderly: bool) {
            let (mut keys, mut list, mut tree) = (Vec::<u64>::new(), Vec::<u32>::new(), RankTree::default());
            for (what, pick) in steps {
                let key_of = |keys: &[u64], number: u32| keys.get(number as usize).copied();
                if what < 5 || list.is_empty() {
                    let number = u32::try_from(keys.len()).unwrap();
                    let key = (if orderly { u64::from(number) } else { u64::from(pick) } << 32) | u64::from(number);
                    keys.push(key);
                    tree.insert(number, key, |other| key_of(&keys, other));
                    list.insert(list.partition_point(|other| keys[*other as usize] < key), number);
                } else {
                    let at = if what < 7 { 0 } else { usize::from(pick) % list.len() };
                    let number = list.remove(at);
                    let key = keys[number as usize];
                    prop_assert_eq!(tree.rank(key, |other| key_of(&keys, other)), at);
                    prop_assert!(tree.remove(number, key, |other| key_of(&keys, other)));
                    prop_assert!(!tree.remove(number, key, |other| key_of(&keys, other)));
                }
                prop_assert_eq!(check(&tree.root, &keys, None, None), list.len());
                prop_assert_eq!(tree.len(), list.len());
                for (place, number) in list.iter().enumerate() {
                    prop_assert_eq!(tree.get(place), Some(*number));
                }
                prop_assert_eq!(tree.get(list.len()), None);
            }
        }
    }
}
