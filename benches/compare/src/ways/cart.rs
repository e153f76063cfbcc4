//! One order over several sales: ours, our single orders in a transaction, and a script.

use super::lock::loading;
use super::sale::{PLENTY, everybody};
use crate::contest::Way;
use crate::crowd::Desk;
use crate::pump::{At, Script, way};
use crate::stand::{Side, Stand};
use crate::wire::Reply;

/// How many sales are in a cart.
pub const LEGS: usize = 5;

/// The commands of a cart in a transaction.
pub const TRANSACTION: usize = LEGS + 2;

/// Takes one unit of each for a buyer, or nothing of any.
const BUY: &str = "for leg = 1, #KEYS, 2 do \
                     if redis.call('SISMEMBER', KEYS[leg + 1], ARGV[1]) == 1 then return 2 end \
                     if tonumber(redis.call('GET', KEYS[leg])) <= 0 then return 1 end \
                   end \
                   for leg = 1, #KEYS, 2 do \
                     redis.call('DECRBY', KEYS[leg], 1) \
                     redis.call('SADD', KEYS[leg + 1], ARGV[1]) \
                   end \
                   return 0";

fn sale(leg: usize) -> String {
    format!("sale:{leg}")
}

fn create(stand: &mut Stand) {
    (0..LEGS).for_each(|leg| drop(stand.cmd(format!("STOCK.CREATE {} {PLENTY}", sale(leg)))));
}

fn is_sold(reply: Reply<'_>) -> bool {
    reply.item(0).and_then(Reply::text) == Some(b"OK")
}

/// `STOCK.MDECR_ONCE`.
pub fn cart(depth: usize) -> Way {
    let legs: Vec<String> = (0..LEGS).flat_map(|leg| [sale(leg), "1".into()]).collect();
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (id, count) = (everybody(at), LEGS.to_string());
        let mut words: Vec<&[u8]> = vec![b"STOCK.MDECR_ONCE", id.as_bytes(), count.as_bytes()];
        words.extend(legs.iter().map(String::as_bytes));
        desk.send(0, &words);
    };
    way("STOCK.MDECR_ONCE", Side::Ours, depth, &Script::new(1, say, |_, reply| is_sold(reply).then_some("sold")))
        .prepared(create)
}

/// An order for each, between MULTI and EXEC. One that is refused does not keep the others from being taken.
pub fn transaction(depth: usize) -> Way {
    let script = Script::new(
        TRANSACTION as u64,
        |at, desk| match usize::try_from(at.step) {
            Ok(0) => desk.send(0, &[b"MULTI"]),
            Ok(leg @ 1..=LEGS) => {
                desk.send(0, &[b"STOCK.DECR_ONCE", sale(leg - 1).as_bytes(), everybody(at).as_bytes()]);
            }
            _ => desk.send(0, &[b"EXEC"]),
        },
        |at, reply| match usize::try_from(at.step) {
            Ok(0..=LEGS) => reply.text().map(|_| "queued"),
            _ => (0..LEGS).all(|leg| reply.item(leg).is_some_and(is_sold)).then_some("sold"),
        },
    );
    way("MULTI, 5 × STOCK.DECR_ONCE, EXEC", Side::Ours, depth * TRANSACTION, &script).prepared(create)
}

/// A script over five counters and five sets of buyers.
pub fn script(depth: usize) -> Way {
    let (sha, load) = loading(BUY);
    let keys: Vec<String> = (0..LEGS).flat_map(|leg| [format!("stock:{leg}"), format!("buyers:{leg}")]).collect();
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (sha, buyer, count) = (sha.borrow(), everybody(at), keys.len().to_string());
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", sha.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(String::as_bytes));
        words.push(buyer.as_bytes());
        desk.send(0, &words);
    };
    let judge = |_: At, reply: Reply<'_>| (reply.int() == Some(0)).then_some("sold");
    way("script: 5 × GET, SISMEMBER, DECRBY, SADD", Side::Plain, depth, &Script::new(1, say, judge)).prepared(
        move |stand| {
            load(stand);
            (0..LEGS).for_each(|leg| drop(stand.cmd(format!("SET stock:{leg} {PLENTY}"))));
        },
    )
}
