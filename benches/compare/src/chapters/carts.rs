//! One order over five sales, beside five orders in a transaction and a script that does the same.

use lockstock_bench::table::{Sheet, number};

use super::instructions::{self, count};
use super::{DEEP, cpu, depth_name, table};
use crate::contest::{Load, Way, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::stand::Feeds;
use crate::ways::cart;

/// What is compared with ours, and what ours may take of it at most.
const OTHERS: [&str; 2] = ["five orders in MULTI", "a script"];

pub fn run(lab: &mut Lab) {
    for depth in [1, DEEP] {
        let how = depth_name(depth).replace("command", "cart");
        let title = format!("Carts of {}, {how}", cart::LEGS);
        let outcomes = contest(lab, &title, &ways(depth), Load::plain(&lab.plan, depth));
        table(lab, &title, &outcomes);
        for (other, nth) in OTHERS.iter().zip(1..) {
            lab.paper.found(&format!("a cart of five against {other}, {how}"), AtMost(1.0), cpu(&outcomes, nth));
        }
    }
    if instructions::works() {
        instructions_of_carts(lab);
    }
}

fn ways(depth: usize) -> [Way; 3] {
    [cart::cart(depth), cart::transaction(depth), cart::script(depth)]
}

fn instructions_of_carts(lab: &mut Lab) {
    let mut sheet = Sheet::new(["way", "ours ÷ this", "instructions"]);
    let counts = ways(DEEP).map(|way| {
        lab.progress(&format!("instructions of a cart: {}", way.name));
        (way.name.clone(), count(&way, Feeds::Nobody, lab.plan.either(4_000, 2_000)))
    });
    for (name, count) in &counts {
        sheet.row([name.clone(), number(counts[0].1 / count), number(*count)]);
    }
    for (other, nth) in OTHERS.iter().zip(1..) {
        let what = format!("instructions of a cart of five, against {other}");
        lab.paper.found(&what, AtMost(1.0), counts[0].1 / counts[nth].1);
    }
    let title = format!("Instructions for a cart of {}, pipelines of {DEEP}", cart::LEGS);
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}
