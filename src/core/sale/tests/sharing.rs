//! Buyers with several orders, and ids with several, loaded all at once.

use std::collections::HashMap;
use std::hash::RandomState;

use super::hostile::consistent;
use super::world::{digest, load_whole};
use crate::core::id::PackedId;
use crate::core::sale::orders::record::{BuyerRef, Record, State, Ticket};
use crate::core::sale::snapshot::VERSION;
use crate::core::sale::{CorruptSale, Loading, Sale};
use crate::core::time::{Millis, UnixMs};

/// Names whose hashes agree in the bits that an index keeps, under these keys.
fn colliding(keys: &RandomState) -> [String; 2] {
    let mut seen = HashMap::new();
    let collision = (0..).find_map(|n: u32| {
        let name = format!("buyer {n}");
        let tag = PackedId::new(name.as_bytes()).unwrap().hash(keys) >> 32;
        seen.insert(tag, n).map(|other| [format!("buyer {other}"), name])
    });
    collision.unwrap()
}

/// A block of orders: id, buyer, state, units, deadline.
fn block(orders: &[(&str, &str, State, u64, i64)]) -> Vec<u8> {
    let mut out = Vec::new();
    out.push(VERSION);
    for (n, (id, buyer, state, units, deadline)) in (1..).zip(orders) {
        let [id, name] = [id, buyer].map(|name| PackedId::new(name.as_bytes()).unwrap());
        let record = Record {
            state: *state,
            units: *units,
            id,
            deadline: UnixMs(*deadline),
            ticket: Ticket { number: n, hold: Some(Millis(5)) },
            buyer: if id == name { BuyerRef::Own } else { BuyerRef::Named(name) },
            reference: None,
            refused: false,
        };
        record.write(UnixMs(0), &mut out);
    }
    out
}

/// However the hashes of names collide, a buyer has its own orders here, and no other buyer has them.
#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn buyers_whose_hashes_collide_are_told_apart() {
    let keys = RandomState::new();
    let [one, other] = colliding(&keys);
    let [one, other] = [&*one, &*other];
    // A thousand units, nine events; five orders, if some of them wait.
    for (header, waits) in [(&[VERSION, 0, 0xe8, 7, 0, 9][..], false), (&[VERSION, 64, 0xe8, 7, 0, 9, 5], true)] {
        for order in 0..120_usize {
            let last = if waits { State::Waiting } else { State::Sold };
            let mut orders = vec![
                (one, one, State::Held, 2, 50),
                ("1", one, State::Held, 3, 70),
                ("2", other, State::Held, 5, 60),
                ("3", other, State::Cancelled, 7, 0),
                ("4", other, last, 11, 0),
            ];
            // Every order of the five.
            let mut rest = order;
            for n in (1..5_usize).rev() {
                orders.swap(n, rest % (n + 1));
                rest /= n + 1;
            }
            let block = block(&orders);
            let mut told = Sale::from_header(header).unwrap();
            told.load_block(&block).unwrap();
            let mut loading = Loading::new(header).unwrap();
            loading.sale.table.keys = keys.clone();
            loading.block(&block).unwrap();
            let sale = loading.finish().unwrap();
            assert_eq!(digest(&sale), digest(&told));
            consistent(&sale);
            for now in [0, 50, 60, 70].map(UnixMs) {
                assert_eq!(sale.info(now), told.info(now), "{orders:?}");
                for buyer in [one, other, "1", "2", "nobody"] {
                    assert_eq!(
                        sale.buyer(now, buyer.as_bytes()),
                        told.buyer(now, buyer.as_bytes()),
                        "{buyer}: {orders:?}"
                    );
                }
            }
        }
    }
}

/// As many orders as take several chunks of memory, of buyers with one or many of them, in no order.
#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn a_sale_that_is_loaded_all_at_once_is_the_same() {
    let spread = |n: usize| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for buyers in [1, 40, 700, 5_000] {
        let count = 2_000;
        let texts: Vec<_> = (0..count).map(|n| (n.to_string(), (spread(n) % buyers).to_string())).collect();
        let orders = texts.iter().zip(0..).map(|((id, buyer), n)| {
            let state = State::ALL[spread(n + 7) % 5];
            let deadline = if state == State::Held { spread(n + 9) % 50 } else { 0 };
            (&**id, &**buyer, state, 1 + n as u64 % 3, i64::try_from(deadline).unwrap())
        });
        let orders: Vec<_> = orders.collect();
        let blocks = || orders.chunks(300).map(block);
        // A million units, five thousand events and two thousand orders, some of which wait.
        let header = &[VERSION, 64, 0xc0, 0x84, 0x3d, 0, 0x88, 0x27, 0xd0, 0x0f];
        let mut told = Sale::from_header(header).unwrap();
        blocks().for_each(|block| told.load_block(&block).unwrap());
        let sale = load_whole(header, blocks()).unwrap();
        assert_eq!(digest(&sale), digest(&told));
        consistent(&sale);
        assert!(sale.memory() <= told.memory(), "{} bytes, {} when told", sale.memory(), told.memory());
        for now in [0, 10, 30, 49, 50].map(UnixMs) {
            assert_eq!(sale.info(now), told.info(now));
            for (_, buyer) in &texts {
                assert_eq!(sale.buyer(now, buyer.as_bytes()), told.buyer(now, buyer.as_bytes()), "{buyer}");
            }
        }
    }
}

/// An order that is repeated is refused before all its repetitions have been read.
#[test]
fn repeated_orders_take_no_memory_for_long() {
    for ids in [&["1"][..], &["1", "2", "3"]] {
        let mut loading = Loading::new(&[VERSION, 0, 0xe8, 7, 0, 9]).unwrap();
        let orders: Vec<_> = ids.iter().map(|id| (*id, *id, State::Sold, 1, 0)).collect();
        let block = block(&orders);
        let mut read = 0;
        let refused = (0..100).find_map(|_| {
            read += ids.len();
            loading.block(&block).err()
        });
        assert_eq!(refused, Some(CorruptSale::Repeated));
        assert!(read <= 18, "{read} orders of {ids:?}");
    }
}
