//! Limited stock: ours, and what people write by hand.

use super::lock::{Sha, loading};
use crate::contest::Way;
use crate::crowd::Desk;
use crate::pump::{At, Script, way};
use crate::stand::{Side, Stand};
use crate::tally::Tally;
use crate::wire::Reply;

/// The script that most flash sales are built on: is there stock, has this buyer bought, take one, remember the buyer.
const SECKILL: &str = "if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 1 end \
                       if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 2 end \
                       redis.call('INCRBY', KEYS[1], -1) \
                       redis.call('SADD', KEYS[2], ARGV[1]) \
                       return 0";

/// The same with an order for the consumers that write the database.
const SECKILL_STREAM: &str = "if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 1 end \
                              if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 2 end \
                              redis.call('INCRBY', KEYS[1], -1) \
                              redis.call('SADD', KEYS[2], ARGV[1]) \
                              redis.call('XADD', KEYS[3], '*', 'id', ARGV[1], 'units', '1', 'buyer', ARGV[1]) \
                              return 0";

/// Reserves one until a deadline, for a job that later gives back what was not paid.
const RESERVE: &str = "if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 2 end \
                       if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 1 end \
                       redis.call('DECRBY', KEYS[1], 1) \
                       redis.call('HSET', KEYS[2], ARGV[1], 'held') \
                       redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1]) \
                       return 0";

/// The reservation is paid.
const PAY: &str = "if redis.call('HGET', KEYS[1], ARGV[1]) ~= 'held' then return 1 end \
                   redis.call('ZREM', KEYS[2], ARGV[1]) \
                   redis.call('HSET', KEYS[1], ARGV[1], 'sold') \
                   return 0";

/// More than any buyer takes.
pub const PLENTY: u64 = 1_000_000_000;

/// The buyers of the attempts.
pub type Buyer = fn(At) -> String;

/// Each attempt is another buyer's.
pub fn everybody(at: At) -> String {
    (1_000_000_000 + at.serial()).to_string()
}

/// One of two hundred thousand, in no order: most come back for more.
pub fn anybody(at: At) -> String {
    let scattered = at.serial().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (1_000_000_000 + scattered % 200_000).to_string()
}

/// A buyer that has bought already.
pub fn ann(_: At) -> String {
    "1000000000".into()
}

fn status(reply: Reply<'_>) -> Option<&'static str> {
    match reply.item(0)?.text()? {
        b"OK" => Some("sold"),
        b"DUPLICATE" => Some("duplicate"),
        b"SOLDOUT" => Some("sold out"),
        _ => None,
    }
}

fn verdict(reply: Reply<'_>) -> Option<&'static str> {
    match reply.int()? {
        0 => Some("sold"),
        1 => Some("sold out"),
        2 => Some("duplicate"),
        _ => None,
    }
}

/// `STOCK.DECR_ONCE`, with a stream or without.
pub fn decr_once(depth: usize, buyer: Buyer, stock: u64, stream: bool) -> Way {
    let say = move |at: At, desk: &mut Desk<'_>| {
        desk.send(0, &[b"STOCK.DECR_ONCE", b"sale", buyer(at).as_bytes()]);
    };
    let name = if stream { "STOCK.DECR_ONCE with STREAM" } else { "STOCK.DECR_ONCE" };
    way(name, Side::Ours, depth, &Script::new(1, say, |_, reply| status(reply))).prepared(move |stand| {
        stand.cmd(format!("STOCK.CREATE sale {stock} {}", if stream { "STREAM events" } else { "" }));
    })
}

/// The script, with a stream or without.
pub fn seckill(depth: usize, buyer: Buyer, stock: u64, stream: bool) -> Way {
    let (sha, load) = loading(if stream { SECKILL_STREAM } else { SECKILL });
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (sha, buyer) = (sha.borrow(), buyer(at));
        let words: [&[u8]; 7] = [b"EVALSHA", sha.as_bytes(), b"3", b"stock", b"buyers", b"orders", buyer.as_bytes()];
        desk.send(0, &words);
    };
    let name =
        if stream { "script: GET, SISMEMBER, INCRBY, SADD, XADD" } else { "script: GET, SISMEMBER, INCRBY, SADD" };
    way(name, Side::Plain, depth, &Script::new(1, say, |_, reply| verdict(reply))).prepared(move |stand| {
        load(stand);
        stand.cmd(format!("SET stock {stock}"));
    })
}

/// Remember the buyer and, if that was news, take one. Nothing looks whether there is one: a buyer that gets a number below zero
/// has to give it back.
pub fn sadd_decr(depth: usize, buyer: Buyer) -> Way {
    let script = Script::new(
        2,
        move |at, desk| match at.step {
            0 => desk.send(0, &[b"SADD", b"buyers", buyer(at).as_bytes()]),
            _ => desk.send(0, &[b"DECR", b"stock"]),
        },
        |at, reply| match at.step {
            0 => (reply.int() == Some(1)).then_some("new"),
            _ => (reply.int()? >= 0).then_some("sold"),
        },
    );
    way("SADD, DECR", Side::Plain, depth, &script).prepared(|stand| {
        stand.cmd(format!("SET stock {PLENTY}"));
    })
}

/// One command on a plain key, for what an answer costs that needs nothing else.
pub fn lookup(name: &'static str, depth: usize) -> Way {
    let script = Script::new(
        1,
        move |_, desk| match name {
            "GET" => desk.send(0, &[b"GET", b"stock"]),
            _ => desk.send(0, &[b"SISMEMBER", b"buyers", ann(At::default()).as_bytes()]),
        },
        |_, reply| (reply.int() == Some(1) || reply.text() == Some(b"0")).then_some("refused"),
    );
    way(name, Side::Plain, depth, &script).prepared(|stand| {
        stand.cmd("SET stock 0");
        stand.cmd(format!("SADD buyers {}", ann(At::default())));
    })
}

/// Reserves and pays: `STOCK.DECR_ONCE HOLD`, `STOCK.CONFIRM`.
pub fn holds(depth: usize) -> Way {
    let script = Script::new(
        2,
        |at, desk| match at.step {
            0 => desk.send(0, &[b"STOCK.DECR_ONCE", b"sale", everybody(at).as_bytes(), b"HOLD", b"600000"]),
            _ => desk.send(0, &[b"STOCK.CONFIRM", b"sale", everybody(at).as_bytes()]),
        },
        |_, reply| (status(reply) == Some("sold")).then_some("ok"),
    );
    way("STOCK.DECR_ONCE HOLD, STOCK.CONFIRM", Side::Ours, depth, &script).prepared(|stand| {
        stand.cmd(format!("STOCK.CREATE sale {PLENTY}"));
    })
}

/// Reserves and pays by hand. The job that gives back what was not paid comes on top, and takes its time.
pub fn reservations(depth: usize) -> Way {
    let (reserve, load_reserve) = loading(RESERVE);
    let (pay, load_pay) = loading(PAY);
    let script = Script::new(
        2,
        move |at, desk| {
            let id = everybody(at);
            if at.step == 0 {
                reserving(&reserve, &id, desk);
            } else {
                let sha = pay.borrow();
                desk.send(0, &[b"EVALSHA", sha.as_bytes(), b"2", b"orders", b"deadlines", id.as_bytes()]);
            }
        },
        |_, reply| (reply.int() == Some(0)).then_some("ok"),
    );
    way("scripts over GET, HSET, ZADD", Side::Plain, depth, &script).prepared(move |stand| {
        load_reserve(stand);
        load_pay(stand);
        stand.cmd(format!("SET stock {PLENTY}"));
    })
}

/// Stops the run unless a sale of `stock` units sold exactly those.
pub fn exactly(stock: u64) -> impl Fn(&mut Stand, &Tally) {
    move |stand, tally| {
        let sold = tally.answers.get("sold").copied().unwrap_or_default();
        let buyers = match stand.cmd("EXISTS sale").int() {
            1 => stand.cmd("STOCK.INFO sale").field("sold").int(),
            _ => stand.cmd("SCARD buyers").int(),
        };
        assert!(u64::try_from(buyers) == Ok(stock) && sold == stock, "{sold} sold, {buyers} in the books, not {stock}");
    }
}

/// Each attempt is another buyer's, known by a UUID.
pub fn uuid(at: At) -> String {
    let mut random = fastrand::Rng::with_seed(at.serial());
    let (high, low) = (random.u64(..), random.u64(..));
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    format!("{first:08x}-{second:04x}-4{third:03x}-8{:03x}-{:012x}", low >> 48 & 0xfff, low & 0xffff_ffff_ffff)
}

/// Nothing but the set of buyers.
pub fn sadd(depth: usize, buyer: Buyer) -> Way {
    let say = move |at: At, desk: &mut Desk<'_>| desk.send(0, &[b"SADD", b"buyers", buyer(at).as_bytes()]);
    way("SADD", Side::Plain, depth, &Script::new(1, say, |_, reply| (reply.int() == Some(1)).then_some("sold")))
}

/// A buyer has so many orders, one after the other.
fn buyer_and_ref(at: At, orders: u64) -> (String, String) {
    (format!("buyer:{:08}", at.serial() / orders), format!("cart:{:08}", at.serial()))
}

/// An order with everything that it can have, of buyers with so many of them.
pub fn full(depth: usize, orders: u64) -> Way {
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (id, (buyer, cart)) = (everybody(at), buyer_and_ref(at, orders));
        let order: [&[u8]; 5] = [b"STOCK.DECR_ONCE", b"sale", id.as_bytes(), b"BUYER", buyer.as_bytes()];
        let options: [&[u8]; 4] = [b"REF", cart.as_bytes(), b"HOLD", b"36000000"];
        desk.send(0, &[&order[..], &options].concat());
    };
    way("STOCK.DECR_ONCE BUYER REF HOLD", Side::Ours, depth, &Script::new(1, say, |_, reply| status(reply))).prepared(
        |stand| {
            stand.cmd(format!("STOCK.CREATE sale {PLENTY}"));
        },
    )
}

/// The same by hand: a hash of orders, a sorted set of deadlines, a hash of what each buyer has.
pub fn full_by_hand(depth: usize, orders: u64) -> Way {
    let script = Script::new(
        3,
        move |at, desk| {
            let (id, (buyer, cart)) = (everybody(at), buyer_and_ref(at, orders));
            match at.step {
                0 => desk.send(0, &[b"HSET", b"orders", id.as_bytes(), format!("held {buyer} {cart}").as_bytes()]),
                1 => desk.send(0, &[b"ZADD", b"deadlines", b"4102444800000", id.as_bytes()]),
                _ => desk.send(0, &[b"HINCRBY", b"bought", buyer.as_bytes(), b"1"]),
            }
        },
        |_, reply| reply.int().map(|_| "ok"),
    );
    way("HSET, ZADD, HINCRBY", Side::Plain, depth, &script)
}

/// One hold after another.
pub fn hold(depth: usize) -> Way {
    let say = |at: At, desk: &mut Desk<'_>| {
        desk.send(0, &[b"STOCK.DECR_ONCE", b"sale", everybody(at).as_bytes(), b"HOLD", b"36000000"]);
    };
    way("STOCK.DECR_ONCE HOLD", Side::Ours, depth, &Script::new(1, say, |_, reply| status(reply))).prepared(|stand| {
        stand.cmd(format!("STOCK.CREATE sale {PLENTY}"));
    })
}

/// One reservation by hand after another.
pub fn reserve(depth: usize) -> Way {
    let (sha, load) = loading(RESERVE);
    let say = move |at: At, desk: &mut Desk<'_>| reserving(&sha, &everybody(at), desk);
    way("script: HEXISTS, GET, DECRBY, HSET, ZADD", Side::Plain, depth, &Script::new(1, say, |_, reply| verdict(reply)))
        .prepared(move |stand| {
            load(stand);
            stand.cmd(format!("SET stock {PLENTY}"));
        })
}

fn reserving(sha: &Sha, id: &str, desk: &mut Desk<'_>) {
    let sha = sha.borrow();
    let call: [&[u8]; 6] = [b"EVALSHA", sha.as_bytes(), b"3", b"stock", b"orders", b"deadlines"];
    desk.send(0, &[&call[..], &[id.as_bytes(), b"4102444800000"]].concat());
}
