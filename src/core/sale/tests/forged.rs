//! Changes that nobody vouches for.

use proptest::prelude::*;

use super::hostile::consistent;
use super::schedule::schedules;
use super::world::digest;
use crate::core::id::IdText;
use crate::core::sale::{Change, NewOrder, Sale, Stream, Terms};
use crate::core::time::{Millis, UnixMs};

fn name() -> impl Strategy<Value = IdText<'static>> {
    prop_oneof![
        8 => (0..20_u32).prop_map(|n| IdText::from(n.to_string().as_bytes()).detach()),
        1 => proptest::collection::vec(any::<u8>(), 0..3).prop_map(|bytes| IdText::from(&bytes[..]).detach()),
        1 => Just(IdText::from(&[b'x'; 513][..]).detach()),
    ]
}

fn time() -> impl Strategy<Value = UnixMs> {
    prop_oneof![(0..100_i64).prop_map(UnixMs), any::<i64>().prop_map(UnixMs)]
}

fn change() -> impl Strategy<Value = Change<'static>> {
    let units = prop_oneof![4 => 0..20_u64, 1 => any::<u64>()];
    let delta = prop_oneof![4 => -20..20_i64, 1 => any::<i64>()];
    let order = || {
        (name(), units.clone(), proptest::option::of(name()), name())
            .prop_map(|(id, units, buyer, reference)| NewOrder { id, units, buyer, reference })
    };
    let taking = (order(), proptest::option::of(time()));
    let waiting = (order(), (0..100_i64).prop_map(|hold| (hold > 0).then_some(Millis(hold))));
    prop_oneof![
        4 => taking.prop_map(|(order, deadline)| Change::Take { order, deadline }),
        3 => waiting.prop_map(|(order, hold)| Change::Wait { order, hold }),
        2 => (name(), proptest::option::of(time())).prop_map(|(id, deadline)| Change::Serve { id, deadline }),
        1 => (name(), proptest::option::of(0..4_u64)).prop_map(|(id, units)| Change::Confirm { id, units }),
        1 => (name(), 0..4_u64).prop_map(|(id, units)| Change::Keep { id, units }),
        1 => name().prop_map(|id| Change::Refuse { id }),
        1 => name().prop_map(|id| Change::Cancel { id }),
        1 => (name(), time()).prop_map(|(id, deadline)| Change::Extend { id, deadline }),
        1 => name().prop_map(|id| Change::Expire { id }),
        1 => time().prop_map(|at| Change::Cutoff { at }),
        1 => (delta, name()).prop_map(|(delta, id)| Change::Adjust { delta, id }),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(limit, rebuy)| Change::Alter {
            limit: limit >> (limit % 64),
            start: None,
            end: None,
            rebuy,
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_fit_or_change_nothing(
        total in 0..200_u64, deadlines: bool, changes in proptest::collection::vec(change(), 1..60),
    ) {
        let stream = Some(Stream { key: b"events".as_slice().into(), deadlines });
        let mut sale = Sale::new(Terms { total, stream, ..Terms::default() });
        for change in &changes {
            let before = digest(&sale);
            let event = sale.event(change).is_some();
            let seq = sale.seq();
            if sale.commit(change).is_ok() {
                prop_assert_eq!(sale.seq() - seq, u64::from(event));
            } else {
                prop_assert_eq!(digest(&sale), before);
            }
        }
        consistent(&sale);
    }
}
