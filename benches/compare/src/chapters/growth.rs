//! The cost of an operation when there are many of its kind already.

use lockstock_bench::plot::Line;
use lockstock_bench::table::{Sheet, number};

use super::handover::relate;
use super::{DEEP, curves};
use crate::contest::{Way, median};
use crate::crowd::Crowd;
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::stand::Side;
use crate::ways::{lock, sale};

/// Operations in a window, and windows at each size.
const WINDOW: u64 = 40_000;
const WINDOWS: u64 = 5;

pub fn run(lab: &mut Lab) {
    let sizes = |last: u64| -> Vec<u64> {
        let decades = [10_000, 100_000, 1_000_000, 3_000_000, 10_000_000];
        decades.into_iter().filter(|size| *size <= last).collect()
    };
    let (million, most) = lab.plan.either((1_000_000, 10_000_000), (1_000_000, 1_000_000));
    let mut sheet =
        Sheet::new(["what is there", "how many", "server CPU, ours ÷ theirs", "ours µs", "theirs µs", "theirs is"]);
    let [ours, theirs] = lock::taking(DEEP);
    grow(lab, &mut sheet, "locks", &sizes(million), &[ours, theirs]);
    let orders = [sale::decr_once(DEEP, sale::everybody, sale::PLENTY, false), sale::sadd(DEEP, sale::everybody)];
    grow(lab, &mut sheet, "orders", &sizes(most), &orders);
    grow(lab, &mut sheet, "holds", &sizes(million), &[sale::hold(DEEP), sale::reserve(DEEP)]);
    let title = "What one more costs when there are many already";
    lab.show(&format!("\n## {title}, pipelines of {DEEP}\n\n{}", sheet.show()));
}

/// Lets both sides grow, and measures window by window, alternating, what the next ones cost.
fn grow(lab: &mut Lab, sheet: &mut Sheet, what: &str, sizes: &[u64], ways: &[Way; 2]) {
    let mut crowds: Vec<Crowd> = ways.iter().map(|way| begin(lab, way)).collect();
    let mut lines: Vec<Line> = ways.iter().map(|way| (way.name.clone(), vec![])).collect();
    for size in sizes {
        for (way, crowd) in ways.iter().zip(&mut crowds) {
            lab.progress(&format!("growth to {size} {what}: {}", way.name));
            advance(crowd, *size);
        }
        let mut costs = [vec![], vec![]];
        for window in 1..=WINDOWS {
            for ((way, crowd), costs) in ways.iter().zip(&mut crowds).zip(&mut costs) {
                let stand = lab.stand(way.side);
                let (done, before) = (crowd.tally.done, stand.reading());
                advance(crowd, size + window * WINDOW);
                costs.push((stand.reading().cpu - before.cpu) / (crowd.tally.done - done) as f64);
            }
        }
        let [ours, theirs] = &costs;
        let ratio = median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect());
        let [ours, theirs] = costs.map(median);
        let count = number(*size as f64);
        sheet.row([what.into(), count, number(ratio), number(ours), number(theirs), ways[1].name.clone()]);
        lines[0].1.push((*size as f64, ours));
        lines[1].1.push((*size as f64, theirs));
    }
    let [first, last] = [lines[0].1[0].1, lines[0].1[sizes.len() - 1].1];
    // A million of anything fits worse into the processor's caches than a thousand. So the growth is compared with that of the script.
    let theirs = lines[1].1[sizes.len() - 1].1 / lines[1].1[0].1;
    let goal = format!("growth of the cost of one more: at most ÷ at 10 000 {what}, ours ÷ theirs");
    lab.paper.found(&goal, AtMost(1.1), last / first / theirs);
    relate(&mut lines);
    let title = format!("Growth: one more of many {what}");
    let axes = [what, "server CPU for one more; ours at the left is 1"];
    curves(lab, &format!("growth-{what}"), &title, axes, &lines);
    drop(crowds);
    for side in [Side::Ours, Side::Plain] {
        lab.stand(side).cmd("FLUSHALL");
        lab.stand(side).settle();
    }
}

/// The members of a way, on an empty server that is prepared for them.
pub fn begin(lab: &mut Lab, way: &Way) -> Crowd {
    let stand = lab.stand(way.side);
    stand.cmd("FLUSHALL");
    (way.prepare)(stand);
    Crowd::connect(stand.server.port(), (0..CONNECTIONS).map(&way.member).collect())
}

/// Goes on until so many are done, and nothing is on its way.
pub fn advance(crowd: &mut Crowd, until: u64) {
    crowd.tally.waits.clear();
    crowd.open();
    crowd.run(|tally| tally.done >= until);
    crowd.close();
}
