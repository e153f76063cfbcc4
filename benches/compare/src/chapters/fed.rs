//! Locks and orders on servers that also write an append-only file, or have a replica.

use super::{DEEP, cpu, depth_name, table};
use crate::contest::{Load, Way, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::stand::Feeds;
use crate::ways::{lock, sale};

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
            let pairs: [Pair; 3] = [
                (
                    "Taking locks that nobody has",
                    lock::taking(depth).into(),
                    &[("LOCK.ACQUIRE against SET NX PX", 1.2)],
                ),
                ("Taking a lock and giving it back", cycles, &[("lock cycle against SET NX PX + EVALSHA", 0.75)]),
                (
                    "Orders",
                    orders,
                    &[("an order against the seckill script", 0.28), ("an order against SADD + DECR", 0.9)],
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
    }
    lab.feeds = Feeds::Nobody;
}
