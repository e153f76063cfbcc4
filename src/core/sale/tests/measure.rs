//! What orders weigh and what calls take. The numbers of the claims; a small version runs with all tests, the large one
//! by `cargo test --release --lib sale::tests::measure -- --ignored --nocapture --test-threads=1`.

use std::fs;
use std::time::{Duration, Instant};

use super::waiting::crowded;
use crate::core::id::IdText;
use crate::core::sale::{Budget, Change, Loading, Sale, Take, Terms};
use crate::core::time::{Millis, UnixMs};

/// What the callers of a sale write.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Integer,
    Phone,
    Uuid,
    /// Numbered order and buyer, held, with a number of 16 digits as reference.
    HoldNumbers,
    /// UUID as id, phone number as buyer, held, with a word and a number as reference.
    HoldMixed,
    /// A UUID each for id, buyer and reference, held.
    HoldUuids,
    /// As `HoldMixed`, five orders for each buyer.
    HoldFive,
    /// As `HoldMixed`, three orders for each buyer, which come in no order.
    HoldThree,
}

const SHAPES: [(Shape, usize); 8] = [
    (Shape::Integer, 19),
    (Shape::Phone, 22),
    (Shape::Uuid, 35),
    (Shape::HoldNumbers, 70),
    (Shape::HoldMixed, 70),
    (Shape::HoldUuids, 88),
    (Shape::HoldFive, 70),
    (Shape::HoldThree, 75),
];

/// Spreads numbers over all 64 bits (`SplitMix64`).
fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn uuid(number: u64) -> String {
    uuid::Uuid::from_u64_pair(spread(number), spread(!number)).to_string()
}

fn phone(number: u64) -> String {
    (13_000_000_000 + spread(number) % 900_000_000).to_string()
}

struct Texts {
    id: String,
    buyer: Option<String>,
    hold: bool,
    reference: String,
}

fn texts(shape: Shape, n: u64) -> Texts {
    let (id, buyer, reference) = match shape {
        Shape::Integer => (n.to_string(), None, String::new()),
        Shape::Phone => ((13_000_000_000 + n * 7).to_string(), None, String::new()),
        Shape::Uuid => (uuid(n), None, String::new()),
        Shape::HoldNumbers => {
            (n.to_string(), Some((5_000_000 + n).to_string()), (1_700_000_000_000_000 + n).to_string())
        }
        Shape::HoldMixed => (uuid(n), Some((13_000_000_000 + n * 7).to_string()), format!("order-{n}")),
        Shape::HoldUuids => (uuid(n), Some(uuid(n + (1 << 40))), uuid(n + (1 << 41))),
        Shape::HoldFive => (uuid(n), Some(phone(n / 5)), format!("order-{n}")),
        Shape::HoldThree => (uuid(n), Some(phone(spread(n) % 333_333)), format!("order-{n}")),
    };
    Texts { id, hold: buyer.is_some(), buyer, reference }
}

/// Takes for numbers `from..to` and returns the slowest call and the time of all.
fn fill(sale: &mut Sale, shape: Shape, from: u64, to: u64) -> (Duration, Duration) {
    let (mut slowest, mut all) = (Duration::ZERO, Duration::ZERO);
    for n in from..to {
        let texts = texts(shape, n);
        // Ten thousand orders a second.
        let now = UnixMs(1_700_000_000_000).plus(Millis((n / 10).cast_signed())).unwrap();
        let take = Take {
            id: texts.id.as_bytes(),
            units: 1,
            buyer: texts.buyer.as_ref().map(String::as_bytes),
            deadline: texts.hold.then(|| now.plus(Millis(900_000_000)).unwrap()),
            reference: texts.reference.as_bytes(),
        };
        let start = Instant::now();
        let decision = sale.take(now, Budget::COMMAND, &take);
        for change in decision.unwrap().changes.iter() {
            sale.commit(change).unwrap();
        }
        let took = start.elapsed();
        slowest = slowest.max(took);
        all += took;
    }
    (slowest, all)
}

fn sale() -> Sale {
    Sale::new(Terms { total: 1 << 40, limit: 10, ..Terms::default() })
}

#[test]
#[cfg_attr(miri, ignore = "too many steps for Miri")]
fn orders_weigh_less_than_half_of_a_set() {
    let count = 5_000;
    for (shape, most) in SHAPES {
        let mut sale = sale();
        fill(&mut sale, shape, 0, count);
        let bytes = sale.memory() / usize::try_from(count).unwrap();
        assert!(bytes <= most, "{shape:?}: {bytes} bytes an order");
    }
}

/// Resident memory, in bytes.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[ignore = "a minute and a gigabyte"]
fn weights_and_times() {
    for (shape, _) in SHAPES {
        let mut sale = sale();
        let before = resident();
        for (from, to) in [(0, 1_000), (1_000, 100_000), (100_000, 1_000_000)] {
            let (slowest, all) = fill(&mut sale, shape, from, to);
            println!(
                "{shape:?} {to}: {} bytes an order ({} resident), {} ns a take, slowest {slowest:?}",
                sale.memory() as u64 / to,
                resident().saturating_sub(before) as u64 / to,
                all.as_nanos() / u128::from(to - from),
            );
        }
    }
}

/// Serves the first in line `times` times, each time with a unit that another order returns, and asks each time for the place of the last.
/// Returns the time of one cancellation that serves, and of one place.
fn serve(sale: &mut Sale, now: UnixMs, times: u64) -> [Duration; 2] {
    let (mut served, mut asked) = (Duration::ZERO, Duration::ZERO);
    let id = |n: u64| (13_000_000_000 + n * 7).to_string();
    let (waiting, last) = (sale.waiting(), id(sale.orders() - 1));
    let first = sale.orders() - waiting - 1;
    for n in first..first + times {
        let id = id(n);
        let start = Instant::now();
        for change in sale.cancel(now, Budget::COMMAND, id.as_bytes(), None).changes.iter() {
            sale.commit(change).unwrap();
        }
        served += start.elapsed();
        let start = Instant::now();
        assert_eq!(sale.place(last.as_bytes()), Some(sale.waiting()));
        asked += start.elapsed();
    }
    assert_eq!(sale.waiting(), waiting - times);
    [served, asked].map(|all| all / u32::try_from(times).unwrap())
}

#[test]
#[ignore = "some seconds and half a gigabyte"]
fn a_million_wait() {
    let now = UnixMs(1_700_000_000_000);
    for count in [10_000, 100_000, 1_000_000] {
        let before = resident();
        let start = Instant::now();
        let mut sale = crowded(count);
        let joined = start.elapsed() / u32::try_from(count).unwrap();
        let bytes = sale.memory() as u64 / count;
        let held = resident().saturating_sub(before) as u64 / count;
        let [served, asked] = serve(&mut sale, now, 5_000);
        println!(
            "{count} wait: {bytes} bytes each ({held} resident), {joined:?} to join, {served:?} to give a unit to the next, {asked:?} for the place of the last"
        );
        // Out of the middle, too.
        let start = Instant::now();
        for n in 0..1_000 {
            let id = (13_000_000_000 + (count / 2 + n) * 7).to_string();
            sale.commit(&Change::Cancel { id: IdText::from(id.as_bytes()) }).unwrap();
        }
        println!("    {:?} to leave the middle of the line", start.elapsed() / 1_000);
    }
}

#[test]
#[ignore = "a minute and half a gigabyte"]
fn loading_a_million() {
    let count = 1_000_000;
    for shape in [Shape::Uuid, Shape::HoldMixed, Shape::HoldFive, Shape::HoldThree] {
        let mut sale = sale();
        fill(&mut sale, shape, 0, count);
        let (header, blocks) = (sale.header(), sale.blocks().collect::<Vec<_>>());
        for _ in 0..3 {
            let start = Instant::now();
            let mut loading = Loading::new(&header).unwrap();
            for block in &blocks {
                loading.block(block).unwrap();
            }
            let loaded = loading.finish().unwrap();
            println!("{shape:?}: {:?}, {} bytes an order", start.elapsed(), loaded.memory() as u64 / count);
        }
        let (start, mut told) = (Instant::now(), Sale::from_header(&header).unwrap());
        for block in &blocks {
            told.load_block(block).unwrap();
        }
        println!("    by commands {:?}", start.elapsed());
    }
}
