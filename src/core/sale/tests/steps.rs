//! What can happen to a sale, at random.

use proptest::prelude::*;

use crate::core::sale::Alteration;
use crate::core::time::UnixMs;

/// Few names, so that everything meets; ids and buyers overlap, for an id is its own buyer.
pub const NAMES: [&str; 9] = ["1", "2", "bob", "67e55044-10b1-426f-9247-bb680e5fe0c8", "x", "carol", "dan", "7", "eve"];

#[derive(Clone, Debug)]
pub enum Step {
    Take {
        id: usize,
        units: u64,
        buyer: Option<usize>,
        hold: Option<i64>,
        reference: bool,
        waitlist: bool,
    },
    /// With KEEP, or without.
    Confirm(usize, Option<u64>),
    Cancel(usize, Option<u64>),
    Extend(usize, i64),
    Adjust(i64, Option<usize>),
    Alter(Alteration),
    Timer(usize),
    Pass(i64),
    Reload,
    /// The replica becomes the sale, on a server whose clock is this much behind.
    Failover(i64),
    /// The stream takes this many steps of the next command, and no more.
    Refuse(usize),
    /// A file is written.
    Save,
    /// All is lost but the last file.
    PowerCut,
}

pub fn name() -> impl Strategy<Value = usize> {
    0..NAMES.len()
}

/// An order, and how many units it is to keep.
fn settling() -> impl Strategy<Value = (usize, Option<u64>)> {
    (name(), proptest::option::weighted(0.4, prop_oneof![5 => 1..4_u64, 1 => 4..7_u64]))
}

fn alteration() -> impl Strategy<Value = Alteration> {
    let time = || proptest::option::of(proptest::option::of((1..400_i64).prop_map(UnixMs)));
    let (limit, rebuy) = (proptest::option::of(0..7_u64), proptest::option::of(any::<bool>()));
    (limit, time(), time(), rebuy).prop_map(|(limit, start, end, rebuy)| Alteration { limit, start, end, rebuy })
}

pub fn step() -> impl Strategy<Value = Step> {
    let hold = proptest::option::weighted(0.7, 1..40_i64);
    // Mostly the same few, so that they have many orders.
    let buyer = proptest::option::weighted(0.7, prop_oneof![3 => 1..3_usize, 1 => name()]);
    prop_oneof![
        8 => (name(), 1..4_u64, buyer, hold, any::<bool>(), any::<bool>()).prop_map(
            |(id, units, buyer, hold, reference, waitlist)| Step::Take { id, units, buyer, hold, reference, waitlist }
        ),
        3 => settling().prop_map(|(id, keep)| Step::Confirm(id, keep)),
        3 => settling().prop_map(|(id, keep)| Step::Cancel(id, keep)),
        2 => (name(), 1..40_i64).prop_map(|(id, span)| Step::Extend(id, span)),
        2 => (-6..6_i64, proptest::option::of(name())).prop_map(|(delta, id)| Step::Adjust(delta, id)),
        1 => proptest::option::of(name()).prop_map(|id| Step::Adjust(i64::MAX, id)),
        1 => alteration().prop_map(Step::Alter),
        2 => (0..3_usize).prop_map(Step::Timer),
        6 => (0..30_i64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
        1 => prop_oneof![Just(0), 0..40_i64].prop_map(Step::Failover),
        1 => (0..3_usize).prop_map(Step::Refuse),
        1 => prop_oneof![Just(Step::Save), Just(Step::PowerCut)],
    ]
}

/// Mostly orders that wait, units that come back for them, and a window that closes over them.
pub fn line_step() -> impl Strategy<Value = Step> {
    let buyer = proptest::option::weighted(0.3, name());
    let hold = proptest::option::weighted(0.6, 1..40_i64);
    let take = (name(), 1..4_u64, buyer, hold, any::<bool>(), proptest::bool::weighted(0.9)).prop_map(
        |(id, units, buyer, hold, reference, waitlist)| Step::Take { id, units, buyer, hold, reference, waitlist },
    );
    let start = proptest::option::weighted(0.4, (1..200_i64).prop_map(UnixMs));
    let window = start.prop_map(|start| Alteration { start: Some(start), end: Some(None), ..Alteration::default() });
    prop_oneof![
        12 => take,
        2 => settling().prop_map(|(id, keep)| Step::Confirm(id, keep)),
        5 => settling().prop_map(|(id, keep)| Step::Cancel(id, keep)),
        1 => (name(), 1..40_i64).prop_map(|(id, span)| Step::Extend(id, span)),
        3 => (-3..5_i64, proptest::option::of(name())).prop_map(|(delta, id)| Step::Adjust(delta, id)),
        1 => window.prop_map(Step::Alter),
        2 => (0..3_usize).prop_map(Step::Timer),
        5 => (0..20_i64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
        1 => prop_oneof![Just(0), 0..40_i64].prop_map(Step::Failover),
        1 => (0..3_usize).prop_map(Step::Refuse),
        1 => prop_oneof![Just(Step::Save), Just(Step::PowerCut)],
    ]
}

/// Short holds of few units, a timer that falls behind, and orders that need the units of many.
pub fn crowded_step(waits: f64) -> impl Strategy<Value = Step> {
    let take = |units, holds, span, waits: f64| {
        let buyer = proptest::option::weighted(0.6, 1..3_usize);
        let hold = proptest::option::weighted(holds, span);
        (name(), units, buyer, hold, any::<bool>(), proptest::bool::weighted(waits)).prop_map(
            |(id, units, buyer, hold, reference, waitlist)| Step::Take { id, units, buyer, hold, reference, waitlist },
        )
    };
    prop_oneof![
        16 => take(1..2_u64, 0.9, 1..8_i64, waits),
        8 => take(3..8_u64, 0.7, 1..20_i64, waits),
        1 => settling().prop_map(|(id, keep)| Step::Confirm(id, keep)),
        2 => settling().prop_map(|(id, keep)| Step::Cancel(id, keep)),
        1 => (name(), 1..8_i64).prop_map(|(id, span)| Step::Extend(id, span)),
        1 => (-8..4_i64, proptest::option::of(name())).prop_map(|(delta, id)| Step::Adjust(delta, id)),
        1 => (0..3_usize).prop_map(Step::Timer),
        4 => (4..16_i64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
        1 => (0..24_i64).prop_map(Step::Failover),
        1 => (0..3_usize).prop_map(Step::Refuse),
    ]
}
