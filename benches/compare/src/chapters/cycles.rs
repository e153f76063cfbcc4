//! Locks without a competitor, and a lock that another client holds.

use super::{DEEP, cpu, depth_name, picture, table};
use crate::contest::{Load, contest};
use crate::goals::Limit::AtMost;
use crate::lab::Lab;
use crate::ways::lock;

pub fn run(lab: &mut Lab) {
    for depth in [1, DEEP] {
        let load = Load::plain(&lab.plan, depth);
        // In pipelines as for instructions: there a command itself is seen, and not the network.
        let [taking, refused, cycle] = if depth == 1 { [1.1, 1.0, 0.5] } else { [1.4, 1.15, 0.7] };
        let how = depth_name(depth);
        let title = format!("Taking locks that nobody has, {how}");
        let outcomes = contest(lab, &title, &lock::taking(depth), load);
        table(lab, &title, &outcomes);
        lab.paper.found(&format!("LOCK.ACQUIRE against SET NX PX, {how}"), AtMost(taking), cpu(&outcomes, 1));

        let title = format!("Asking for a lock that somebody else has, {how}");
        let outcomes = contest(lab, &title, &lock::refused(depth), load);
        table(lab, &title, &outcomes);
        lab.paper.found(&format!("refused, against a refused SET NX PX, {how}"), AtMost(refused), cpu(&outcomes, 1));

        let title = format!("Taking a lock and giving it back, {how}");
        let native = lab.native();
        let outcomes = contest(lab, &title, &lock::cycles(depth, native), load);
        table(lab, &title, &outcomes);
        picture(lab, if depth == 1 { "cycle" } else { "cycle-pipelined" }, &title, &outcomes);
        if depth == 1 {
            lab.paper.costs.insert("lock cycle", outcomes[0].median(|turn| turn.cpu));
        }
        lab.paper.found(&format!("lock cycle against SET NX PX + EVALSHA, {how}"), AtMost(cycle), cpu(&outcomes, 1));
        let native_ratio = if native.is_some() { cpu(&outcomes, 2) } else { f64::NAN };
        lab.paper.found(&format!("lock cycle against SET NX PX + DELEX or DELIFEQ, {how}"), AtMost(1.1), native_ratio);
    }
}
