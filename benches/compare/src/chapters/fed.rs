//! Locks and orders on servers that also write an append-only file, or have a replica.

use std::time::Duration;

use super::{DEEP, cpu, depth_name, sales, table, waiting};
use crate::contest::{Load, Way, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::stand::Feeds;
use crate::ways::{Hold, lock, queue, sale};

/// A title, the ways that are compared, ours first, and the goals against the others: a name, and the most that ours may take of theirs.
type Pair = (&'static str, Vec<Way>, &'static [(&'static str, f64)]);

pub fn run(lab: &mut Lab) {
    let native = lab.native();
    for feeds in [Feeds::File, Feeds::Replica] {
        lab.feeds = feeds;
        for depth in [1, DEEP] {
            let how = format!("{}{}", depth_name(depth), feeds.name());
            let mut cycles = lock::cycles(depth, native);
            cycles.truncate(2);
            let orders = vec![
                sale::decr_once(depth, sale::everybody, sale::PLENTY, false),
                sale::seckill(depth, sale::everybody, sale::PLENTY, false),
                sale::sadd_decr(depth, sale::everybody),
            ];
            let pairs: [Pair; 5] = [
                (
                    "Taking locks that nobody has",
                    lock::taking(depth).into(),
                    &[("LOCK.ACQUIRE against SET NX PX", 1.2)],
                ),
                (
                    "Asking for a lock that somebody else has",
                    lock::refused(depth),
                    &[("refused, against a refused SET NX PX", 1.15)],
                ),
                ("Taking a lock and giving it back", cycles, &[("lock cycle against SET NX PX + EVALSHA", 0.75)]),
                (
                    "Orders",
                    orders,
                    &[("an order against the seckill script", 0.28), ("an order against SADD + DECR", 0.9)],
                ),
                (
                    "Who has bought asks again",
                    vec![sales::duplicate(depth), sale::lookup("SISMEMBER", depth)],
                    &[("a duplicate against SISMEMBER", 1.5)],
                ),
            ];
            for (title, ways, goals) in pairs {
                let title = format!("{title}, {how}");
                let outcomes = contest(lab, &title, &ways, Load::plain(&lab.plan, depth));
                table(lab, &title, &outcomes);
                for ((goal, limit), other) in goals.iter().zip(1..) {
                    lab.paper.found(&format!("{goal}, {how}"), AtMost(*limit), cpu(&outcomes, other));
                }
            }
        }
        hand_overs(lab);
    }
    lab.feeds = Feeds::Nobody;
}

fn hand_overs(lab: &mut Lab) {
    const CONTENDERS: usize = 25;

    let among = format!("{CONTENDERS} contenders{}", lab.feeds.name());
    let hold = Hold::Works { time: Duration::ZERO };
    let load = waiting::load(lab, CONTENDERS);
    let title = format!("Handing over among {among}");
    let outcomes = contest(lab, &title, &[queue::lock(hold), queue::list(hold)], load);
    table(lab, &title, &outcomes);
    let what = format!("server CPU for a hand-over, against BLPOP, LPUSH, {among}");
    lab.paper.found(&what, AtMost(1.5), cpu(&outcomes, 1));
}
