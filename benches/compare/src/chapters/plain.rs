//! The cost of the module to clients that do not use it: the same commands on a server with it and on one without.

use lockstock_bench::table::{Sheet, number};

use super::{DEEP, depth_name};
use crate::contest::{Load, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::stand::Side;
use crate::ways::plain;

pub fn run(lab: &mut Lab) {
    let mut noise: f64 = 0.0;
    let mut worst: f64 = 0.0;
    for depth in [1, DEEP] {
        let title = format!("Commands that have nothing to do with the module, {}", depth_name(depth));
        let mut sheet =
            Sheet::new(["command", "server CPU, with ÷ without", "without ÷ without (noise)", "CPU µs without"]);
        for command in plain::COMMANDS {
            let ways = [Side::Plain, Side::Ours, Side::Control].map(|side| plain::way_of(&command, side, depth));
            let load = Load::plain(&lab.plan, depth);
            let outcomes = contest(lab, &title, &ways, load);
            let ratio = |of: usize| outcomes[of].ratio(&outcomes[0], |turn| turn.cpu);
            sheet.row([
                command.name.into(),
                number(ratio(1)),
                number(ratio(2)),
                number(outcomes[0].median(|turn| turn.cpu)),
            ]);
            worst = worst.max(ratio(1));
            noise = noise.max((ratio(2) - 1.0).abs());
        }
        lab.show(&format!("\n## {title}\n\n{}", sheet.show()));
    }
    // Two equal servers are that far apart, too: a difference that is no larger is none.
    let goal = "what the module adds to other commands, the worst ÷ this run's noise";
    lab.paper.found(goal, AtMost(1.0), (worst - 1.0) / noise);
}
