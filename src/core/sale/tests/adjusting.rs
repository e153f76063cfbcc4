//! Stories of adjustments that happen once.

use super::shop::{says, shop};
use super::world::{digest, reload};
use crate::core::codec::Corrupt;
use crate::core::id::IdText;
use crate::core::sale::snapshot::{ADJUSTMENTS, BLOCK, VERSION};
use crate::core::sale::{AdjustError, Change, Changes, CorruptSale, InvalidChange, Sale, Status, Terms};
use crate::core::time::UnixMs;

const INVALID: CorruptSale = CorruptSale::Bytes(Corrupt::Invalid);

fn adjust(delta: i64, id: &str) -> Change<'_> {
    Change::Adjust { delta, id: IdText::from(id.as_bytes()) }
}

#[test]
fn an_adjustment_with_an_id_happens_once() {
    let mut shop = shop(3);
    assert_eq!(shop.adjust_once(5, "truck-1"), Ok(8));
    shop.take("ann", 2);
    assert_eq!(shop.adjust_once(5, "truck-1"), Ok(6), "what remains now");
    assert_eq!(shop.adjust_once(i64::MIN, "truck-1"), Ok(6), "whatever it asks for");
    assert_eq!(shop.adjust_once(5, "truck-2"), Ok(11));
    assert_eq!((shop.sale.seq(), shop.sale.adjustments()), (3, 2));
    // An order of the same id is another thing.
    assert_eq!(shop.take("truck-1", 1), says(Status::Ok, 1, 10, -1));
    assert_eq!(shop.adjust_once(-1, "ann"), Ok(9));
    // Without an id it happens whenever it is asked for.
    assert_eq!((shop.adjust(1), shop.adjust(1)), (Ok(10), Ok(11)));
}

#[test]
fn a_refused_adjustment_is_not_remembered_and_one_of_nothing_is() {
    let mut shop = shop(3);
    assert_eq!(shop.adjust_once(-4, "move"), Err(AdjustError::TooFew { remaining: 3 }));
    assert_eq!(shop.adjust_once(-3, "move"), Ok(0));
    assert_eq!(shop.adjust_once(0, "look"), Ok(0));
    assert_eq!(shop.adjust_once(7, "look"), Ok(0));
    assert_eq!((shop.sale.seq(), shop.sale.adjustments()), (1, 2));
    assert_eq!(shop.sale.event(&adjust(0, "x")), None);
    assert_eq!(shop.sale.adjust(shop.now(), 0, b""), Ok((0, Changes::default())));
}

#[test]
fn a_known_adjustment_lets_nothing_expire() {
    let mut shop = shop(3);
    shop.adjust_once(-1, "move").unwrap();
    shop.hold("ann", 2, 10);
    shop.now += 10;
    assert_eq!(shop.sale.adjust(shop.now(), -1, b"move"), Ok((2, Changes::default())));
}

#[test]
fn what_is_remembered_is_saved_behind_the_orders_and_only_if_there_is_any() {
    let mut shop = shop(9);
    shop.take("ann", 1);
    let plain: Vec<_> = shop.sale.blocks().collect();
    shop.adjust_once(0, "7").unwrap();
    shop.adjust_once(0, "restock").unwrap();
    let saved: Vec<_> = shop.sale.blocks().collect();
    assert_eq!(saved[..1], plain);
    let ids = b"\x03\x01\x07\x13restock";
    assert_eq!(saved[1..], [ids.to_vec()]);
    let again = reload(&shop.sale);
    assert_eq!(digest(&again), digest(&shop.sale));
    assert_eq!(again.adjust(UnixMs(1), 4, b"restock"), Ok((8, Changes::default())));
}

#[test]
fn a_million_would_be_saved_in_small_blocks() {
    let mut sale = Sale::new(Terms { total: 9, ..Terms::default() });
    let long = "x".repeat(505);
    for n in 0..1_300 {
        let id = if n < 200 { format!("{long}{n}") } else { format!("{n}") };
        sale.commit(&adjust(0, &id)).unwrap();
    }
    let blocks: Vec<_> = sale.blocks().collect();
    assert_eq!(blocks.len(), 4, "one is full by its bytes, two by their number");
    assert!(blocks.iter().all(|block| block.len() <= BLOCK));
    assert_eq!(digest(&reload(&sale)), digest(&sale));
}

#[test]
fn ids_that_cannot_be_are_refused_and_nothing_of_their_block_is_read() {
    let one = &[ADJUSTMENTS, 1, 7][..];
    for (bytes, corrupt) in [
        (&[ADJUSTMENTS][..], CorruptSale::Bytes(Corrupt::Truncated)),
        (&[ADJUSTMENTS, 1, 8, 12], INVALID),
        (&[ADJUSTMENTS, 1, 8, 14, b'x'], CorruptSale::Bytes(Corrupt::Truncated)),
        (&[ADJUSTMENTS, 1, 8, 1, 8], INVALID),
        (&[ADJUSTMENTS, 1, 8, 1, 7], INVALID),
        (&[VERSION, 1, 1, 7], INVALID),
    ] {
        let mut sale = Sale::new(Terms { total: 9, ..Terms::default() });
        sale.load_block(one).unwrap();
        assert_eq!(sale.load_block(bytes), Err(corrupt), "{bytes:?}");
        assert_eq!(sale.blocks().collect::<Vec<_>>(), [one]);
    }
}

#[test]
fn a_change_with_a_known_id_or_a_bad_one_does_not_fit() {
    let mut sale = Sale::new(Terms { total: 9, ..Terms::default() });
    sale.commit(&adjust(1, "a")).unwrap();
    assert_eq!(sale.commit(&adjust(1, "a")), Err(InvalidChange::State));
    assert_eq!(sale.commit(&adjust(-11, "b")), Err(InvalidChange::Units));
    assert_eq!(sale.commit(&adjust(1, &"x".repeat(513))), Err(InvalidChange::Range));
    sale.table.most = 1;
    assert_eq!(sale.commit(&adjust(1, "b")), Err(InvalidChange::Full));
    assert_eq!(sale.adjust(UnixMs(1), 1, b"b"), Err(AdjustError::Full { adjustments: 1 }));
    assert_eq!(sale.load_block(&[ADJUSTMENTS, 1, 7]), Err(CorruptSale::Full));
    assert_eq!((sale.adjustments(), sale.terms().total), (1, 10));
}
