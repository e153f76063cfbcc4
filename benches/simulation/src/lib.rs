//! A hundred nodes and a million requests a second, simulated from measured costs.
//!
//! A node is one thread that serves its requests one after the other. Requests come at random (a Poisson process), each for a
//! key; the key's slot says which node serves it. How long that takes is drawn at random (exponentially, which scatters more than
//! servers do) around the cost that `make bench` measured for it. Every request is played, one by one: what comes out are
//! the nodes' utilisation and how long requests waited and were served. The network's time is not in it, nor replicas.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a simulation on small numbers of its own"
)]

use fastrand::Rng;
use serde::Deserialize;

/// So many there are.
pub const NODES: usize = 100;
const MILLION: f64 = 1e6;
/// So long, in seconds, after the queues had a tenth of it to form.
const LENGTH: f64 = 2.0;
/// The same requests in every run.
pub const SEED: u64 = 7;

/// Microseconds of a server for an operation, as measured.
#[derive(Clone, Copy, Deserialize)]
pub struct Costs {
    #[serde(rename = "lock cycle")]
    lock_cycle: f64,
    order: f64,
    duplicate: f64,
    #[serde(rename = "sold out")]
    sold_out: f64,
}

/// The requests to the cluster.
#[derive(Clone, Copy)]
pub struct Load {
    /// Requests per second.
    pub rate: f64,
    /// The part of them that goes to one hot sale; the others take and give back one of many locks.
    pub hot: f64,
    /// The keys that the sale is split into.
    pub buckets: usize,
    /// One node does not answer for so many seconds, in the middle.
    pub outage: f64,
}

/// Its outcome.
pub struct Outcome {
    /// The part of their time that nodes work, over all of them.
    pub utilisation: f64,
    /// The same of the node that has most to do; above 1: more than it can.
    pub busiest: f64,
    /// Seconds that requests took: half of them, 99 of 100, 999 of 1 000 no longer than that.
    pub latency: [f64; 3],
    /// Seconds of work that still waits at the busiest node when the requests end.
    pub backlog: f64,
}

/// Plays the requests, one by one.
#[must_use]
pub fn simulate(costs: &Costs, load: Load) -> Outcome {
    let mut random = Rng::with_seed(SEED);
    // A key's slot is as good as random, and slots are spread evenly over nodes.
    let homes: Vec<usize> = (0..load.buckets).map(|_| random.usize(..NODES)).collect();
    let lost = homes[0];
    let (mut free, mut worked) = ([0.0_f64; NODES], [0.0_f64; NODES]);
    let mut latencies = vec![];
    let (mut now, start, end) = (0.0, LENGTH * 0.1, LENGTH * 1.1);
    let middle = f64::midpoint(start, end);
    while now < end {
        now += exponential(&mut random, 1.0 / load.rate);
        let hot = random.f64() < load.hot;
        let node = if hot { homes[random.usize(..homes.len())] } else { random.usize(..NODES) };
        let cost = if hot { attempt(costs, random.f64()) } else { costs.lock_cycle };
        let service = exponential(&mut random, cost / MILLION);
        if node == lost && (middle..middle + load.outage).contains(&now) {
            free[node] = free[node].max(middle + load.outage);
        }
        free[node] = free[node].max(now) + service;
        if now > start {
            worked[node] += service;
            latencies.push(free[node] - now);
        }
    }
    latencies.sort_unstable_by(f64::total_cmp);
    let quantile = |part: f64| latencies[(latencies.len() as f64 * part) as usize];
    let busy = worked.map(|work| work / LENGTH);
    Outcome {
        utilisation: busy.iter().sum::<f64>() / NODES as f64,
        busiest: busy.iter().copied().fold(0.0, f64::max),
        latency: [0.5, 0.99, 0.999].map(quantile),
        backlog: free.iter().map(|free| free - now).fold(0.0, f64::max),
    }
}

/// The cost of an attempt at a sale that many want: few get something, some have it already, most come too late.
fn attempt(costs: &Costs, dice: f64) -> f64 {
    match dice {
        dice if dice < 0.02 => costs.order,
        dice if dice < 0.20 => costs.duplicate,
        _ => costs.sold_out,
    }
}

fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything costs the same.
    const EVEN: Costs = Costs { lock_cycle: 100.0, order: 100.0, duplicate: 100.0, sold_out: 100.0 };

    fn near(measured: f64, wanted: f64) -> bool {
        (measured / wanted - 1.0).abs() < 0.05
    }

    #[test]
    fn waiting_is_as_queueing_theory_has_it() {
        // Each node is an M/M/1 queue: its times are exponential with the mean s / (1 - u).
        for utilisation in [0.3, 0.6, 0.8] {
            let rate = utilisation * NODES as f64 * 1e4;
            let result = simulate(&EVEN, Load { rate, hot: 0.0, buckets: 1, outage: 0.0 });
            let mean = 1e-4 / (1.0 - utilisation);
            assert!(near(result.utilisation, utilisation), "{utilisation}: {}", result.utilisation);
            assert!(near(result.latency[0], mean * 2.0_f64.ln()), "{utilisation}: {}", result.latency[0]);
            assert!(near(result.latency[1], mean * 100.0_f64.ln()), "{utilisation}: {}", result.latency[1]);
        }
    }

    #[test]
    fn a_node_that_gets_too_much_falls_behind() {
        // All requests to one node that can serve half of them: it is always busy, and each second leaves a second's work.
        let result = simulate(&EVEN, Load { rate: 2e4, hot: 1.0, buckets: 1, outage: 0.0 });
        assert!(
            near(result.busiest, 2.0) && near(result.backlog, LENGTH * 1.1),
            "{} {}",
            result.busiest,
            result.backlog
        );
    }

    #[test]
    fn who_asks_a_node_that_is_away_waits_for_it() {
        let even = Load { rate: 1e5, hot: 1.0, buckets: 1_000, outage: 0.0 };
        let (calm, outage) = (simulate(&EVEN, even), simulate(&EVEN, Load { outage: 0.5, ..even }));
        assert!(outage.latency[2] > 0.3 && calm.latency[2] < 0.01, "{} {}", outage.latency[2], calm.latency[2]);
        assert!(near(outage.latency[0], calm.latency[0]));
    }
}
