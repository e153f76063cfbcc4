//! The waitlist of a sale: what it costs to join and to be served, and the memory of a waiting order, with ten thousand in line and with a million.

use harness::Reply;
use lockstock_bench::table::{Sheet, number};

use super::instructions::{self, count};
use super::{DEEP, growth};
use crate::contest::{Way, median};
use crate::crowd::Crowd;
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::pump::CONNECTIONS;
use crate::stand::{Feeds, Stand};
use crate::ways::line;

/// How many orders join the line in a window of measuring, and how many are served in the next.
const WINDOW: u64 = 10_000;
const WINDOWS: u64 = 7;
/// The stock where instructions are counted. They are counted over fewer operations, so less is enough than [`line::STOCK`].
const COUNTED_STOCK: u64 = 20_000;

pub fn run(lab: &mut Lab) {
    let sides = [
        [line::join(DEEP, line::STOCK), line::serve(DEEP)],
        [line::join_by_hand(DEEP, line::STOCK), line::serve_by_hand(DEEP)],
    ];
    let mut lines = sides.map(|ways| Line::open(lab, ways));
    let mut sheet = Sheet::new([
        "in line",
        "bytes of an order",
        "bytes, theirs",
        "joining, µs",
        "joining, theirs",
        "joining, ours ÷ theirs",
        "serving, µs",
        "serving, theirs",
        "serving, ours ÷ theirs",
    ]);
    let mut firsts = None;
    for size in [10_000, 100_000, 1_000_000] {
        let bytes = lines.each_mut().map(|line| line.grow(lab, size));
        let mut costs: [[Vec<f64>; 2]; 2] = Default::default();
        for _ in 0..WINDOWS {
            for (line, costs) in lines.iter_mut().zip(&mut costs) {
                let cost = line.window(lab);
                costs.iter_mut().zip(cost).for_each(|(costs, cost)| costs.push(cost));
            }
        }
        let ratio =
            |of: usize| median(costs[0][of].iter().zip(&costs[1][of]).map(|(ours, theirs)| ours / theirs).collect());
        let [joining, serving] = [ratio(0), ratio(1)];
        let [ours, theirs] = costs.map(|costs| costs.map(median));
        sheet.row([
            number(size as f64),
            number(bytes[0]),
            number(bytes[1]),
            number(ours[0]),
            number(theirs[0]),
            number(joining),
            number(ours[1]),
            number(theirs[1]),
            number(serving),
        ]);
        let firsts = firsts.get_or_insert([bytes, [ours[0], theirs[0]], [ours[1], theirs[1]]]);
        if size == 1_000_000 {
            lab.paper.found("memory of one who waits, a million in line, bytes", AtMost(100.0), bytes[0]);
            lab.paper.found("an order that joins the line against a script", AtMost(1.0), joining);
            lab.paper.found("an order served from the line against a script", AtMost(1.0), serving);
            // A million of anything fits worse into the processor's caches than ten thousand. So the growth is compared with that of the scripts.
            let growth = |[ours, theirs]: [f64; 2], first: [f64; 2]| (ours / first[0]) / (theirs / first[1]);
            let million = "with a million in line ÷ with 10 000";
            lab.paper.found(&format!("memory of one who waits, {million}"), AtMost(1.1), bytes[0] / firsts[0][0]);
            let (joining, serving) = ([ours[0], theirs[0]], [ours[1], theirs[1]]);
            let what = format!("cost of joining the line, {million}, ours ÷ theirs");
            lab.paper.found(&what, AtMost(1.1), growth(joining, firsts[1]));
            let what = format!("cost of being served, {million}, ours ÷ theirs");
            lab.paper.found(&what, AtMost(1.1), growth(serving, firsts[2]));
        }
    }
    let title = format!("Waitlists, pipelines of {DEEP}");
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
    for line in lines {
        line.close(lab);
    }
    if instructions::works() {
        instructions_of_lines(lab);
    }
}

/// A sale with a line, the clients that join it, and the clients that cancel.
struct Line {
    joining: (Way, Crowd),
    serving: (Way, Crowd),
}

impl Line {
    fn open(lab: &mut Lab, [joining, serving]: [Way; 2]) -> Self {
        let mut joining_crowd = growth::begin(lab, &joining);
        growth::advance(&mut joining_crowd, line::STOCK);
        let stand = lab.stand(serving.side);
        (serving.prepare)(stand);
        let serving_crowd = crowd(stand, &serving);
        Self { joining: (joining, joining_crowd), serving: (serving, serving_crowd) }
    }

    fn waiting(&self) -> u64 {
        self.joining.1.tally.done - line::STOCK - self.serving.1.tally.done
    }

    /// Lets the line grow to this length. Returns the bytes for each order, whether it waits or not.
    fn grow(&mut self, lab: &mut Lab, size: u64) -> f64 {
        lab.progress(&format!("waitlist of {size}: {}", self.joining.0.name));
        let more = size - self.waiting();
        let (way, crowd) = &mut self.joining;
        growth::advance(crowd, crowd.tally.done + more);
        let stand = lab.stand(way.side);
        // What the keys take; that of all the server changes with the buffers of the connections.
        let bytes = line::KEYS_OF_BOTH.map(|key| match stand.cmd(["MEMORY", "USAGE", key, "SAMPLES", "0"]) {
            Reply::Int(bytes) => bytes,
            _ => 0,
        });
        bytes.iter().sum::<i64>() as f64 / crowd.tally.done as f64
    }

    /// What it costs to join, and then to be served, in microseconds.
    fn window(&mut self, lab: &mut Lab) -> [f64; 2] {
        [&mut self.joining, &mut self.serving].map(|(way, crowd)| {
            let stand = lab.stand(way.side);
            let (done, before) = (crowd.tally.done, stand.reading());
            growth::advance(crowd, done + WINDOW);
            (stand.reading().cpu - before.cpu) / (crowd.tally.done - done) as f64
        })
    }

    fn close(self, lab: &mut Lab) {
        let side = self.joining.0.side;
        drop(self);
        lab.stand(side).cmd("FLUSHALL");
        lab.stand(side).settle();
    }
}

fn crowd(stand: &Stand, way: &Way) -> Crowd {
    Crowd::connect(stand.server.port(), (0..CONNECTIONS).map(&way.member).collect())
}

fn instructions_of_lines(lab: &mut Lab) {
    let operations = lab.plan.either(6_000, 2_000);
    // The line is long enough for all the operations that serve an order.
    let filled = |way, joining| filled(way, joining, 3 * operations);
    // One unit, so that all the others wait.
    let joining = [line::join(DEEP, 1), line::join_by_hand(DEEP, 1)];
    let serving = [
        filled(line::serve(DEEP), line::join(DEEP, COUNTED_STOCK)),
        filled(line::serve_by_hand(DEEP), line::join_by_hand(DEEP, COUNTED_STOCK)),
    ];
    let mut sheet = Sheet::new(["what", "way", "ours ÷ this", "instructions"]);
    for (what, ways) in [("an order that joins the line", joining), ("an order served from the line", serving)] {
        let counts = ways.map(|way| {
            lab.progress(&format!("instructions of {what}: {}", way.name));
            (count(&way, Feeds::Nobody, operations), way.name)
        });
        for (count, name) in &counts {
            sheet.row([what.into(), name.clone(), number(counts[0].0 / count), number(*count)]);
        }
        lab.paper.found(&format!("instructions of {what}, against a script"), AtMost(1.0), counts[0].0 / counts[1].0);
    }
    let title = format!("Instructions for an order in line, pipelines of {DEEP}");
    lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
}

/// `way`, on a sale that others have sold out before and wait for.
fn filled(way: Way, joining: Way, waiting: u64) -> Way {
    let Way { prepare, .. } = way;
    let fill = move |stand: &mut Stand| {
        (joining.prepare)(stand);
        growth::advance(&mut crowd(stand, &joining), COUNTED_STOCK + waiting);
        prepare(stand);
    };
    Way { prepare: Box::new(fill), ..way }
}
