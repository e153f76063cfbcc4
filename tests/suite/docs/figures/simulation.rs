//! The table of docs/scaling.md is what the simulation makes of the costs that are kept.

use lockstock_simulation::{Costs, Load, simulate};

use super::number::{Figure, Number};
use super::source::{rows, text_of};

/// How the table begins.
pub const TABLE: &str = "| layout |";

#[test]
fn the_table_is_what_comes_of_the_kept_costs() {
    let costs: Costs = serde_json::from_str(&text_of("docs/bench/redis-7.0.15/costs.json")).expect("costs");
    let page = text_of("docs/scaling.md");
    let table = page.find(TABLE).map(|at| rows(&page[at..])).expect("the table");
    assert_eq!(table.len(), 7);
    for (row, buckets) in table[2..].iter().zip([1, 10, 100, 1_000, 10_000]) {
        let name = if buckets == 1 { "one key".into() } else { format!("{buckets} buckets") };
        let outcome = simulate(&costs, Load { rate: 1e6, hot: 0.5, buckets, outage: 0.0 });
        let [median, p99, _] = outcome.latency.map(|seconds| seconds * 1e6);
        assert_eq!(row[0], name);
        for (cell, found) in row[1..].iter().zip([outcome.busiest * 100.0, median, p99]) {
            let said = Figure::parse(&cell.replace(' ', ""));
            assert!(
                said.is_some_and(|said| said.is(Number::plain(found))),
                "{name}: {found}, and docs/scaling.md says {cell}"
            );
        }
    }
}
