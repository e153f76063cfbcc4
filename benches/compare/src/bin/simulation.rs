//! A hundred nodes and a million requests a second, from the costs that a run of the benchmark measured: `make simulation`.
//!
//!     cargo run --release -p lockstock-bench --bin simulation -- docs/bench/redis-7.0.15/costs.json simulation.svg

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use lockstock_bench::plot;
use lockstock_bench::table::{Sheet, number};
use lockstock_simulation::{Costs, Load, NODES, Outcome, SEED, simulate};

const MILLION: f64 = 1e6;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [costs, picture] = &args[..] else { return Err("usage: simulation COSTS.json PICTURE.svg".into()) };
    let costs: Costs = serde_json::from_str(&fs::read_to_string(costs)?)?;
    let load = Load { rate: MILLION, hot: 0.5, buckets: 1, outage: 0.0 };
    println!("{NODES} nodes, {} requests a second, half of them to one sale; seed {SEED}\n", number(MILLION));
    let mut sheet = Sheet::new(["layout", "nodes busy, %", "busiest, %", "p50 µs", "p99 µs", "p99.9 µs", "backlog, s"]);
    for buckets in [1, 10, 100, 1_000, 10_000] {
        sheet.row(row(&name(buckets), &simulate(&costs, Load { buckets, ..load })));
    }
    let outage = Load { buckets: 1_000, outage: 0.5, ..load };
    sheet.row(row("1000 buckets, one node away for 0.5 s", &simulate(&costs, outage)));
    println!("{}", sheet.show());
    curves(&costs, Path::new(picture))
}

fn name(buckets: usize) -> String {
    if buckets == 1 { "one key".into() } else { format!("{buckets} buckets") }
}

fn row(name: &str, result: &Outcome) -> [String; 7] {
    let [median, most, nearly_all] = result.latency.map(|seconds| number(seconds * MILLION));
    let percent = |part: f64| number(part * 100.0);
    [
        name.into(),
        percent(result.utilisation),
        percent(result.busiest),
        median,
        most,
        nearly_all,
        number(result.backlog),
    ]
}

/// How long requests take when more and more of them come.
fn curves(costs: &Costs, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut lines = vec![];
    for buckets in [10_000, 1_000, 100, 10, 1] {
        let mut points = vec![];
        for rate in [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0] {
            let result = simulate(costs, Load { rate: rate * MILLION, hot: 0.5, buckets, outage: 0.0 });
            // Where the busiest node cannot keep up, there is no such thing as a latency.
            if result.busiest < 0.97 {
                points.push((rate * 1e3, result.latency[1] * MILLION));
            }
        }
        lines.push((name(buckets), points));
    }
    lines.retain(|line| !line.1.is_empty());
    let frame = plot::Frame {
        path,
        title: "99 of 100 requests are served within",
        stamp: &format!("{NODES} nodes, simulated; half of the requests go to one sale"),
        x: "thousand requests a second",
        y: "µs",
    };
    plot::lines(&frame, &lines)
}
