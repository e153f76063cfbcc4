//! Bytes that nobody vouches for.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::schedule::schedules;
use super::world::{digest, load_whole, reload};
use crate::core::codec::Corrupt;
use crate::core::id::IdText;
use crate::core::id::PackedId;
use crate::core::limits::MAX_UNITS;
use crate::core::sale::snapshot::{ADJUSTMENTS, BLOCK, BLOCK_ORDERS, VERSION, WITH_REFUSALS};
use crate::core::sale::{Budget, Change, CorruptSale, NewOrder, Sale, State, Status, Stream, Terms};
use crate::core::time::{Millis, UnixMs};

fn order(id: &str, units: u64) -> NewOrder<'_> {
    NewOrder { id: IdText::from(id.as_bytes()), units, buyer: None, reference: IdText::NONE }
}

/// A sale with something of everything.
fn full() -> Sale {
    let terms = Terms {
        total: 1_000,
        limit: 7,
        start: Some(UnixMs(5)),
        end: Some(UnixMs(i64::MAX)),
        rebuy: true,
        stream: Some(Stream { key: b"events".as_slice().into(), deadlines: true }),
    };
    let mut sale = Sale::new(terms);
    let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    for (id, units, buyer, deadline, reference) in [
        ("1", 1, None, None, ""),
        ("2", 3, Some("1"), Some(UnixMs(900)), uuid),
        (uuid, 1, Some("bob"), Some(UnixMs(i64::MAX)), "r"),
        ("bob", 2, None, Some(UnixMs(i64::MIN)), ""),
        ("gone", 5, Some(uuid), None, ""),
        ("lapsed", 300, None, Some(UnixMs(1)), "r"),
        ("refused", 4, Some("bob"), Some(UnixMs(2)), ""),
    ] {
        let buyer = buyer.map(|buyer: &str| IdText::from(buyer.as_bytes()));
        let reference = IdText::from(reference.as_bytes());
        sale.commit(&Change::Take { order: NewOrder { buyer, reference, ..order(id, units) }, deadline }).unwrap();
    }
    sale.commit(&Change::Cancel { id: IdText::from(&b"gone"[..]) }).unwrap();
    sale.commit(&Change::Expire { id: IdText::from(&b"lapsed"[..]) }).unwrap();
    sale.commit(&Change::Expire { id: IdText::from(&b"refused"[..]) }).unwrap();
    sale.commit(&Change::Refuse { id: IdText::from(&b"refused"[..]) }).unwrap();
    for (id, units, buyer, hold) in [("waits", 300, None, None), ("waits, too", 2, Some("bob"), Some(Millis(60_000)))] {
        let buyer = buyer.map(|buyer: &str| IdText::from(buyer.as_bytes()));
        sale.commit(&Change::Wait { order: NewOrder { buyer, ..order(id, units) }, hold }).unwrap();
    }
    // The hold of "bob" is over, the others are not.
    sale.commit(&Change::Cutoff { at: UnixMs(800) }).unwrap();
    sale.commit(&Change::Adjust { delta: 0, id: IdText::from(&b"restock"[..]) }).unwrap();
    sale
}

/// That the sums are those of the orders, at the beginning and at the end of time.
pub fn consistent(sale: &Sale) {
    for now in [UnixMs(i64::MIN), UnixMs(i64::MAX)] {
        let info = sale.info(now);
        assert_eq!(info.total, info.remaining + info.held + info.sold);
        let (mut held, mut sold, mut orders, mut cursor) = (0, 0, 0, 0);
        loop {
            let page = sale.page(now, cursor, 1_000, None);
            for row in &page.rows {
                orders += 1;
                *if row.state == State::Held { &mut held } else { &mut sold } += row.units;
                assert_eq!(row.state == State::Waiting, sale.place(&row.id).is_some());
            }
            cursor = page.next;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!((info.held, info.sold, sale.orders()), (held, sold, orders));
    }
    assert_eq!(digest(&reload(sale)), digest(sale));
}

/// Bytes that say what cannot be, and bytes that end too early.
const INVALID: CorruptSale = CorruptSale::Bytes(Corrupt::Invalid);
const TRUNCATED: CorruptSale = CorruptSale::Bytes(Corrupt::Truncated);

fn loaded(block: &[u8]) -> Result<Sale, CorruptSale> {
    let mut sale = Sale::new(Terms { total: 1_000, ..Terms::default() });
    sale.load_block(block)?;
    Ok(sale)
}

/// A block of these records.
fn block(records: &[&[u8]]) -> Vec<u8> {
    [&[VERSION][..], &records.concat()].concat()
}

#[test]
fn a_snapshot_is_the_sale() {
    let sale = full();
    let again = reload(&sale);
    assert_eq!(digest(&again), digest(&sale));
    assert_eq!((again.terms(), again.seq()), (sale.terms(), 12));
    assert_eq!((again.place(b"waits"), again.place(b"waits, too")), (Some(1), Some(2)));
    assert_eq!(again.info(UnixMs(6)).buyers, sale.info(UnixMs(6)).buyers);
    assert_eq!(again.header(), sale.header());
    assert!(again.blocks().eq(sale.blocks()));
    assert_eq!(Sale::new(Terms::default()).blocks().count(), 0);
}

/// A sale as lockstock 0.1 gave it out with `DUMP`: sold, held, cancelled and expired orders.
#[test]
fn what_0_1_wrote_is_read_and_written_again_byte_for_byte() {
    let header = b"\x01\x2f\xe8\x07\x07\x0a\x0a\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01events";
    let block = b"\x01\x01\x01\x01\x2f\x01\x02\x03\x01\x01\x09\x67\xe5\x50\x44\x10\xb1\x42\x6f\x92\x47\xbb\x68\x0e\x5f\xe0\xc8\
        \x28\x09\x67\xe5\x50\x44\x10\xb1\x42\x6f\x92\x47\xbb\x68\x0e\x5f\xe0\xc8\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\
        \x0fbob\x0dr\x07\x0fbob\x02\x0e\x10gone\x05\x09\x67\xe5\x50\x44\x10\xb1\x42\x6f\x92\x47\xbb\x68\x0e\x5f\xe0\xc8\
        \x27\x12lapsed\xac\x02\x0dr";
    let mut sale = Sale::from_header(header).unwrap();
    sale.load_block(block).unwrap();
    assert_eq!(sale.header(), header);
    assert_eq!(sale.blocks().collect::<Vec<_>>(), [block]);
    let info = sale.info(UnixMs(1_000));
    assert_eq!((info.total, info.held, info.sold, sale.orders(), sale.seq()), (1_000, 1, 1, 6, 10));
    // No late payment has been refused yet.
    assert_eq!(sale.confirm(UnixMs(1_000), Budget::COMMAND, b"bob", None).unwrap().answer.status, Status::Ok);
}

#[test]
fn blocks_are_small_and_half_of_them_is_a_sale() {
    let mut sale = Sale::new(Terms { total: MAX_UNITS, ..Terms::default() });
    let reference = vec![b'r'; 512];
    let count: u32 = if cfg!(miri) { 200 } else { 3_000 };
    for n in 0..count {
        let id = n.to_string();
        // Long references come first, so the bytes bound the early blocks and the number of orders the late ones.
        let reference = if n < count / 10 { &reference[..] } else { b"" };
        let order = NewOrder { reference: IdText::from(reference), ..order(&id, u64::from(n) + 1) };
        sale.commit(&Change::Take { order, deadline: None }).unwrap();
    }
    let blocks: Vec<_> = sale.blocks().collect();
    assert!(blocks.iter().all(|block| block.len() <= BLOCK));
    assert!(blocks.len() > (count / BLOCK_ORDERS) as usize);
    let mut again = Sale::from_header(&sale.header()).unwrap();
    for block in &blocks {
        consistent(&again);
        again.load_block(block).unwrap();
    }
    assert_eq!(digest(&again), digest(&sale));
    assert_eq!(again.load_block(&blocks[0]), Err(CorruptSale::Repeated));
    assert_eq!(digest(&again), digest(&sale));
}

#[test]
fn later_versions_are_told_apart_from_junk() {
    let newer = |version| CorruptSale::Bytes(Corrupt::Newer { version, newest: version - 1 });
    assert_eq!(Sale::from_header(&[VERSION + 1, 9, 9]).err(), Some(newer(VERSION + 1)));
    assert_eq!(loaded(&[ADJUSTMENTS + 1]).err(), Some(newer(ADJUSTMENTS + 1)));
    assert!(newer(3).to_string().starts_with("its format 3 is newer than 2, the newest"));
    for (junk, corrupt) in [
        (&[][..], TRUNCATED),
        (&[0], INVALID),
        (&[VERSION], TRUNCATED),
        (&[VERSION, 0, 1, 0], TRUNCATED),
        (&[VERSION, 16, 1, 0, 0], TRUNCATED),
        (&[VERSION, 32, 1, 0, 0], INVALID),
        (&[VERSION, 64, 1, 0, 0], TRUNCATED),
        (&[VERSION, 64, 1, 0, 0, 0], INVALID),
        (&[VERSION, 64, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f], INVALID),
        (&[VERSION, 8 | 128, 1, 0, 0, b's'], INVALID),
        (&[VERSION, 0, 1, 0, 0, 0], INVALID),
        // A start of 0, and an end of -1.
        (&[VERSION, 2, 1, 0, 0, 0], INVALID),
        (&[VERSION, 4, 1, 0, 0, 1], INVALID),
    ] {
        assert_eq!(Sale::from_header(junk).err(), Some(corrupt), "{junk:?}");
    }
    assert_eq!([TRUNCATED, INVALID].map(|why| why.to_string()), ["it ends early", "it says what cannot be"]);
    assert!(Sale::from_header(&[VERSION, 0, 1, 0, 0]).is_ok());
    let promised = [VERSION, 64, 1, 0, 0, 7];
    assert_eq!(Sale::from_header(&promised).unwrap().header(), promised);
    for (flags, deadlines) in [(8, false), (8 | 32, true)] {
        let header = [VERSION, flags, 1, 0, 0, b's'];
        let sale = Sale::from_header(&header).unwrap();
        assert_eq!(sale.terms().stream, Some(Stream { key: b"s".as_slice().into(), deadlines }));
        assert_eq!(sale.header(), header);
    }
    let last = Sale::from_header(&[VERSION, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap();
    assert_eq!(last.seq(), MAX_UNITS);
    let mut forged = last;
    forged.commit(&Change::Adjust { delta: 1, id: IdText::NONE }).unwrap();
    assert!(Sale::from_header(&forged.header()).is_ok(), "a forged number does not make a sale that cannot be loaded");
}

#[test]
fn orders_that_cannot_be_are_refused() {
    let sold: &[u8] = &[0b0000_0001, 1, 7];
    let consistent_ones = loaded(&block(&[sold, &[0b0000_0101, 1, 8, 2]])).unwrap();
    assert_eq!(consistent_ones.info(UnixMs(0)).sold, 3);
    for (records, corrupt) in [
        (&[sold, sold][..], CorruptSale::Repeated),
        (&[sold, &[0b0000_0101, 1, 8, 0xff, 0x07]], CorruptSale::Oversold),
        (&[&[0b0000_0101, 1, 8, 0]], INVALID),
        (&[&[0b0000_0101, 1, 8, 1]], INVALID),
        (&[&[0b0000_0101, 1, 8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]], INVALID),
        (&[&[0b0000_1001, 1, 8, 1, 8]], INVALID),
        (&[&[0b0001_0001, 1, 8, 0]], INVALID),
        (&[&[0b0100_0001, 1, 8]], INVALID),
        (&[&[0b0000_0000, 1, 8]], TRUNCATED),
        (&[&[0b0000_0001, 13, b'8']], INVALID),
        (&[&[0b0010_0001, 1, 8]], TRUNCATED),
        (&[sold, &[0b0000_0001]], TRUNCATED),
    ] {
        assert_eq!(loaded(&block(records)).err(), Some(corrupt), "{records:?}");
    }
}

/// Only a header that promises a line makes room for its orders, and no order is served before all orders are there.
#[test]
fn who_waits_is_read_where_the_header_says_so() {
    let (sold, waits): (&[u8], &[u8]) = (&[0b0000_0001, 1, 7], &[0b1000_0100, 1, 8, 2, 5, 60]);
    assert_eq!(loaded(&block(&[waits])).err(), Some(INVALID));
    let mut sale = Sale::from_header(&[VERSION, 64, 4, 0, 5, 2]).unwrap();
    for waits in [
        &[0b1000_0001, 1, 8, 5, 60][..],
        &[0b1000_0000, 1, 8, 0, 60],
        &[0b1000_0000, 1, 8, 6, 60],
        &[0b1100_0000, 1, 8, 5, 60],
        &[0b1000_0100, 1, 8, 5, 5, 60],
        &[0b1000_0000, 1, 8, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ] {
        assert_eq!(sale.load_block(&block(&[waits])), Err(INVALID), "{waits:?}");
    }
    sale.load_block(&block(&[waits])).unwrap();
    assert_eq!((sale.waiting(), sale.place(b"8")), (1, Some(1)));
    assert!(!sale.may_serve() && sale.overdue(UnixMs(0), 9).is_empty());
    sale.load_block(&block(&[sold])).unwrap();
    assert!(sale.may_serve());
    let serve = Change::Serve { id: IdText::from(&b"8"[..]), deadline: Some(UnixMs(160)) };
    assert_eq!(sale.overdue(UnixMs(100), 9), std::slice::from_ref(&serve));
    assert_eq!(sale.header(), [VERSION, 64, 4, 0, 5, 2]);
    assert_eq!(sale.blocks().collect::<Vec<_>>(), [block(&[waits, sold])]);
    sale.commit(&serve).unwrap();
    assert_eq!(sale.header(), [VERSION, 0, 4, 0, 6]);
}

/// Lockstock 0.1 reads every sale but those with a refusal, and of these it says that they are too new for it.
#[test]
fn a_block_says_that_it_has_refusals_if_it_has_some_and_only_then() {
    let (sold, refused): (&[u8], &[u8]) = (&[0b0000_0001, 1, 7], &[0b0100_0011, 1, 8]);
    let block = |version, records: &[&[u8]]| [&[version][..], &records.concat()].concat();
    for records in [&[sold, refused][..], &[refused, sold]] {
        let bytes = block(WITH_REFUSALS, records);
        assert_eq!(loaded(&bytes).unwrap().blocks().collect::<Vec<_>>(), [&bytes[..]]);
        assert_eq!(loaded(&block(VERSION, records)).err(), Some(INVALID));
    }
    // One that is sold, cancelled, or held and not over.
    let [not_sold, not_gone, not_held] = [&[0b0100_0001, 1, 8][..], &[0b0100_0010, 1, 8], &[0b0100_0000, 1, 8, 20]];
    for records in [&[sold][..], &[], &[not_sold], &[refused, not_gone], &[not_held]] {
        assert_eq!(loaded(&block(WITH_REFUSALS, records)).err(), Some(INVALID));
    }
    let mut sale = Sale::from_header(&[VERSION, 16, 9, 0, 0, 20]).unwrap();
    sale.load_block(&block(WITH_REFUSALS, &[not_held])).unwrap();
    assert_eq!(sale.blocks().collect::<Vec<_>>(), [block(WITH_REFUSALS, &[not_held])], "over by the cutoff");
    // Each block for itself, and the one that an order did not fit into any more is not the one that has it.
    let mut sale = Sale::new(Terms { total: MAX_UNITS, ..Terms::default() });
    for n in 0..=BLOCK_ORDERS {
        let id = n.to_string();
        let deadline = Some(UnixMs(i64::from(n)));
        sale.commit(&Change::Take { order: order(&id, 1), deadline }).unwrap();
    }
    let versions = |sale: &Sale| sale.blocks().map(|block| block[0]).collect::<Vec<_>>();
    assert_eq!(versions(&sale), [VERSION, VERSION]);
    let last = BLOCK_ORDERS.to_string();
    let id = || IdText::from(last.as_bytes());
    sale.commit(&Change::Expire { id: id() }).unwrap();
    assert_eq!(versions(&sale), [VERSION, VERSION]);
    sale.commit(&Change::Refuse { id: id() }).unwrap();
    assert_eq!(versions(&sale), [VERSION, WITH_REFUSALS]);
    assert_eq!(digest(&reload(&sale)), digest(&sale));
}

#[test]
fn a_block_that_must_be_whole_is_taken_whole_or_not_at_all() {
    let sold: &[u8] = &[0b0000_0001, 1, 7];
    let other: &[u8] = &[0b0000_0101, 1, 8, 2];
    let mut sale = Sale::from_header(&[VERSION, 0, 9, 0, 0]).unwrap();
    let before = digest(&sale);
    for (records, corrupt) in [
        (&[sold, sold][..], CorruptSale::Repeated),
        (&[sold, &[0b0000_0101, 1, 8, 9]], CorruptSale::Oversold),
        (&[sold, other, &[0b0000_0001]], TRUNCATED),
    ] {
        assert_eq!(sale.load_block(&block(records)), Err(corrupt), "{records:?}");
        assert_eq!(digest(&sale), before, "{records:?}");
    }
    assert_eq!(sale.load_block(&[VERSION]), Err(INVALID));
    assert_eq!(sale.load_block(&block(&[sold, other])), Ok(()));
    assert_eq!(sale.info(UnixMs(0)).sold, 3);
    assert_eq!(sale.load_block(&block(&[other])), Err(CorruptSale::Repeated));
}

#[test]
fn every_cut_of_a_snapshot_is_refused_or_whole_orders() {
    let sale = full();
    let header = sale.header();
    let named = header.len() - b"events".len();
    for len in 0..named {
        assert!(Sale::from_header(&header[..len]).is_err(), "{len}");
    }
    let block = sale.blocks().next().unwrap();
    let whole = (0..block.len()).filter(|len| {
        let mut again = Sale::from_header(&header).unwrap();
        let done = again.load_block(&block[..*len]).is_ok();
        consistent(&again);
        done
    });
    // One that says that it has a refusal is refused without it; two that wait are behind that.
    assert_eq!(whole.count(), 2);
    let mut sale = sale;
    sale.commit(&Change::Take { order: order("refused", 1), deadline: None }).unwrap();
    let block = sale.blocks().next().unwrap();
    let whole = (0..block.len()).filter(|len| {
        let mut again = Sale::from_header(&header).unwrap();
        let done = again.load_block(&block[..*len]).is_ok();
        consistent(&again);
        done
    });
    assert_eq!(whole.count(), 8, "one to eight orders");
}

/// Which names fall into the same of 256 buckets is another question in every sale.
#[test]
fn ids_that_collide_in_one_sale_do_not_in_the_next() {
    let bucket = |sale: &Sale, id: &str| PackedId::new(id.as_bytes()).unwrap().hash(&sale.table.keys) & 0xff;
    let attacked = Sale::new(Terms::default());
    let all = (0..).map(|number: u32| format!("id-{number}"));
    let chosen: Vec<String> =
        all.filter(|id| bucket(&attacked, id) == 7).take(if cfg!(miri) { 8 } else { 64 }).collect();
    let next = Sale::new(Terms::default());
    let buckets: BTreeSet<u64> = chosen.iter().map(|id| bucket(&next, id)).collect();
    // As random as can be: by chance some of them meet, never half of them.
    assert!(buckets.len() > chosen.len() / 2, "{buckets:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_read(junk in proptest::collection::vec(any::<u8>(), 0..200), version in 0..5_u8) {
        let junk = [&[version][..], &junk].concat();
        if let Ok(sale) = Sale::from_header(&junk) {
            prop_assert_eq!(sale.header(), &junk[..]);
        }
        let mut sale = Sale::new(Terms { total: MAX_UNITS, ..Terms::default() });
        if sale.load_block(&junk) == Ok(()) && junk.len() > 1 {
            prop_assert_eq!(sale.blocks().collect::<Vec<_>>().concat(), &junk[..]);
        }
        consistent(&sale);
    }

    #[test]
    fn any_damage_is_refused_or_makes_another_sale(at in any::<proptest::sample::Index>(), to: u8, cut: bool) {
        let sale = full();
        let damage = |mut bytes: Vec<u8>| {
            let at = at.index(bytes.len());
            if cut {
                bytes.remove(at);
            } else {
                bytes[at] = to;
            }
            bytes
        };
        if let Ok(sale) = Sale::from_header(&damage(sale.header())) {
            consistent(&sale);
        }
        let mut again = Sale::from_header(&sale.header()).unwrap();
        let block = damage(sale.blocks().next().unwrap());
        let read = again.load_block(&block);
        // A block in which several things are wrong may be refused for another one of them.
        let whole = load_whole(&sale.header(), [block.clone()].into_iter());
        prop_assert_eq!(whole.as_ref().map(digest).ok(), read.map(|()| digest(&again)).ok());
        if read == Ok(()) {
            prop_assert_eq!(again.blocks().next().unwrap(), block);
        }
        consistent(&again);
    }
}
