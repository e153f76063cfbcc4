//! A sale that is sold out, with a line for units that come back: ours, and scripts over a hash and sorted sets.
//!
//! The first orders have everything, each after them waits. Cancelling them in the order in which they came serves one for each.

use super::lock::loading;
use super::sale::everybody;
use crate::contest::Way;
use crate::crowd::Desk;
use crate::pump::{At, Script, way};
use crate::stand::{Side, Stand};
use crate::wire::Reply;

/// So many that an order was served long before it is cancelled, although some connections are faster than others: each connection cancels
/// the orders of its own number in turn.
pub const STOCK: u64 = 100_000;

/// Takes one, or joins the line.
const JOIN: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 2 end \
                    if tonumber(redis.call('GET', KEYS[2])) > 0 and redis.call('ZCARD', KEYS[3]) == 0 then \
                      redis.call('DECRBY', KEYS[2], 1) \
                      redis.call('HSET', KEYS[1], ARGV[1], 'held') \
                      redis.call('ZADD', KEYS[4], ARGV[2], ARGV[1]) \
                      return 0 \
                    end \
                    redis.call('HSET', KEYS[1], ARGV[1], 'waiting') \
                    redis.call('ZADD', KEYS[3], redis.call('INCR', KEYS[5]), ARGV[1]) \
                    return 1";

/// Gives one back, which the next in line gets.
const CANCEL: &str = "if redis.call('HGET', KEYS[1], ARGV[1]) ~= 'held' then return 2 end \
                      redis.call('HSET', KEYS[1], ARGV[1], 'cancelled') \
                      redis.call('ZREM', KEYS[4], ARGV[1]) \
                      local next = redis.call('ZPOPMIN', KEYS[3]) \
                      if not next[1] then \
                        redis.call('INCRBY', KEYS[2], 1) \
                        return 1 \
                      end \
                      redis.call('HSET', KEYS[1], next[1], 'held') \
                      redis.call('ZADD', KEYS[4], ARGV[2], next[1]) \
                      return 0";

/// All keys that are used.
pub const KEYS_OF_BOTH: [&str; 6] = ["sale", "orders", "stock", "line", "deadlines", "seq"];

const KEYS: [&[u8]; 6] = [b"5", b"orders", b"stock", b"line", b"deadlines", b"seq"];

/// Asks, and waits if there is nothing: `STOCK.DECR_ONCE HOLD WAITLIST`.
pub fn join(depth: usize, stock: u64) -> Way {
    let say = |at: At, desk: &mut Desk<'_>| {
        let id = everybody(at);
        desk.send(0, &[b"STOCK.DECR_ONCE", b"sale", id.as_bytes(), b"HOLD", b"36000000", b"WAITLIST"]);
    };
    let script = Script::new(1, say, |_, reply| match reply.item(0)?.text()? {
        b"OK" => Some("sold"),
        b"QUEUED" => Some("queued"),
        _ => None,
    });
    way("STOCK.DECR_ONCE HOLD WAITLIST", Side::Ours, depth, &script).prepared(move |stand| {
        stand.cmd(format!("STOCK.CREATE sale {stock}"));
    })
}

/// The same by a script.
pub fn join_by_hand(depth: usize, stock: u64) -> Way {
    let (sha, load) = loading(JOIN);
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (sha, id) = (sha.borrow(), everybody(at));
        let call: [&[u8]; 2] = [b"EVALSHA", sha.as_bytes()];
        desk.send(0, &[&call[..], &KEYS, &[id.as_bytes(), b"4102444800000"]].concat());
    };
    let script = Script::new(1, say, |_, reply| match reply.int()? {
        0 => Some("sold"),
        1 => Some("queued"),
        _ => None,
    });
    way("script: HEXISTS, GET, HSET, INCR, ZADD", Side::Plain, depth, &script).prepared(move |stand: &mut Stand| {
        load(stand);
        stand.cmd(format!("SET stock {stock}"));
    })
}

/// Cancels, so that the next is served. To be prepared by the clients that join.
pub fn serve(depth: usize) -> Way {
    let say = |at: At, desk: &mut Desk<'_>| desk.send(0, &[b"STOCK.CANCEL", b"sale", everybody(at).as_bytes()]);
    // Nothing remains: the line has got it.
    let served = |_: At, reply: Reply<'_>| {
        let is = |at, wanted: &[u8]| reply.item(at).and_then(Reply::text) == Some(wanted);
        (is(0, b"OK") && reply.item(2)?.int() == Some(0)).then_some("served")
    };
    way("STOCK.CANCEL", Side::Ours, depth, &Script::new(1, say, served))
}

/// The same by a script.
pub fn serve_by_hand(depth: usize) -> Way {
    let (sha, load) = loading(CANCEL);
    let say = move |at: At, desk: &mut Desk<'_>| {
        let (sha, id) = (sha.borrow(), everybody(at));
        let call: [&[u8]; 2] = [b"EVALSHA", sha.as_bytes()];
        desk.send(0, &[&call[..], &KEYS, &[id.as_bytes(), b"4102444800000"]].concat());
    };
    let judge = |_: At, reply: Reply<'_>| (reply.int() == Some(0)).then_some("served");
    way("script: HGET, HSET, ZREM, ZPOPMIN, HSET, ZADD", Side::Plain, depth, &Script::new(1, say, judge))
        .prepared(move |stand: &mut Stand| load(stand))
}
