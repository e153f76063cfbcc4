//! A great deal of work for a server, and what it costs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, OK, Reply, Server};

pub const MILLION: usize = 1_000_000;

/// Sends `count` commands, some hundred at a time.
#[track_caller]
pub fn fill(client: &mut Client, count: usize, command: impl Fn(usize) -> String) {
    for start in (0..count).step_by(500) {
        let replies = client.pipeline((start..count.min(start + 500)).map(&command));
        assert!(replies.iter().all(|reply| !reply.is_error()), "{:?}", replies[0]);
    }
}

/// How long a client waits that talks to the server while it is at work.
struct Waits(Vec<Duration>);

impl Waits {
    /// Pings the server until `stop`.
    fn until(server: &Server, stop: &AtomicBool) -> Self {
        let mut client = server.client();
        let mut waits = vec![];
        // At least once, even if the work is done before the first one.
        while waits.is_empty() || !stop.load(Relaxed) {
            let begun = Instant::now();
            client.cmd("PING");
            waits.push(begun.elapsed());
        }
        waits.sort_unstable();
        Self(waits)
    }

    /// All but one of a hundred waits are shorter. The longest tell more of the machine than of the server.
    fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }
}

/// Does `work` while another client talks to the server, which must not wait long.
#[track_caller]
pub fn disturb<R>(server: &Server, what: &str, work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let (result, took, waits) = thread::scope(|scope| {
        let bystander = scope.spawn(|| Waits::until(server, &stop));
        let begun = Instant::now();
        let result = work();
        let took = begun.elapsed();
        stop.store(true, Relaxed);
        (result, took, bystander.join().expect("the bystander"))
    });
    let (p99, longest) = (waits.p99(), waits.0.last().copied().unwrap_or_default());
    println!("{what}: {took:.1?}; {} pings beside it: p99 {p99:.1?}, longest {longest:.1?}", waits.0.len());
    assert!(p99 < Duration::from_millis(20), "{what}: {p99:?}");
    result
}

/// How long the server's main thread has been at work, by a reply of `INFO cpu`: time in which it was interrupted does not count.
#[track_caller]
pub fn busy(info: &Reply) -> Duration {
    let text = info.text();
    let used = |name: &str| {
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
        Duration::from_secs_f64(line.trim_start_matches(':').parse().expect("seconds"))
    };
    used("used_cpu_user_main_thread") + used("used_cpu_sys_main_thread")
}

/// Microseconds that the server spends on a call of `command`, on average since the last time it was asked.
#[track_caller]
pub fn cost(server: &Server, command: &str) -> i64 {
    let (stats, latency) = (server.info("commandstats"), server.info("latencystats"));
    server.expect("CONFIG RESETSTAT", OK);
    let line = stats.get(&format!("cmdstat_{command}")).unwrap_or_else(|| panic!("no {command} in {stats:?}"));
    let number =
        |name: &str| line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<i64>().ok());
    let (calls, usec) = (number("calls").expect("calls"), number("usec").expect("usec"));
    let spread = &latency[&format!("latency_percentiles_usec_{command}")];
    println!("{calls} × {command}: {} µs each ({spread}), {} ms in all", usec / calls, usec / 1_000);
    usec / calls
}
