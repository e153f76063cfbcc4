//! A mixed load for as long as one likes: memory and latency stay where they are, and the log stays empty. `make soak`.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::{ANY, Client, Reply, Server};

/// Into how many parts the time is divided. The first is for warming up.
const PARTS: u32 = 10;

/// How long each part takes.
fn part() -> Duration {
    let seconds: u32 = env::var("LOCKSTOCK_SOAK_SECONDS").map_or(60, |seconds| seconds.parse().expect("seconds"));
    Duration::from_secs(seconds.into()) / PARTS
}

/// Takes locks in every way and gives them back, lets them lapse, or hangs up with them.
fn contend(server: &Server, name: usize, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(u64::try_from(name).expect("small"));
    let mut client = server.client();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let lock = random.u32(..8);
        let mode = ["", "SHARED", "LIMIT 3", "SESSION", "SHARED SESSION"][random.usize(..5)];
        let token = format!("t{name}-{round}");
        let granted = match random.u32(..10) {
            0 => {
                client.cmd(format!("LOCK.MACQUIRE 2 many:{lock} many:{} TOKEN {token} PX 200 WAIT 20", (lock + 1) % 8))
            }
            _ => client.cmd(format!("LOCK.ACQUIRE lock:{lock}:{} TOKEN {token} PX 200 WAIT 20 {mode}", mode.len())),
        };
        if matches!(granted, Reply::Nil(_)) {
            continue;
        }
        match random.u32(..20) {
            // Nobody gives it back.
            0 => {}
            1 => {
                client.close();
                client = server.client();
            }
            _ => {
                client.expect(format!("LOCK.RELEASE lock:{lock}:{} {token}", mode.len()), ANY);
                client.expect(format!("LOCK.MRELEASE {token} 2 many:{lock} many:{}", (lock + 1) % 8), ANY);
            }
        }
    }
}

/// Runs one sale after another from its opening to its end.
fn sell(server: &Server, name: usize, stop: &AtomicBool) {
    const UNITS: u32 = 1_000;
    let mut random = fastrand::Rng::with_seed(u64::try_from(name).expect("small"));
    let mut client = server.client();
    while !stop.load(Ordering::Relaxed) {
        client.expect(format!("STOCK.CREATE sale:{name} {UNITS} LIMIT 4 REBUY STREAM events:{name}"), ANY);
        for order in 0..2 * UNITS {
            let hold = if random.bool() { "HOLD 30" } else { "" };
            client
                .expect(format!("STOCK.DECR_ONCE sale:{name} o{order} BUYER b{} {hold} REF r{order}", order / 3), ANY);
            let earlier = random.u32(..=order);
            let then = ["CONFIRM", "CANCEL", "ORDER", "ORDER"][random.usize(..4)];
            client.expect(format!("STOCK.{then} sale:{name} o{earlier}"), ANY);
        }
        client.expect(format!("STOCK.ORDERS sale:{name} 0 COUNT 100"), ANY);
        client.expect(format!("UNLINK sale:{name} events:{name}"), ANY);
    }
}

/// The time of a command that has nothing to do with the load, at the 99th percentile, over one part.
fn p99(client: &mut Client) -> Duration {
    let (begun, mut times) = (Instant::now(), vec![]);
    while begun.elapsed() < part() {
        let sent = Instant::now();
        client.expect("LOCK.EXTEND nobody token", 0);
        times.push(sent.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
#[ignore = "takes as long as one likes: make soak"]
fn memory_and_latency_stay_where_they_are() {
    let server = Server::builder().aof("everysec").config("save ''").start();
    let stop = AtomicBool::new(false);
    let (mut memory, mut latency) = (vec![], vec![]);
    thread::scope(|scope| {
        for name in 0..8 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || if name < 6 { contend(server, name, stop) } else { sell(server, name, stop) });
        }
        let mut client = server.client();
        for _ in 0..PARTS {
            latency.push(p99(&mut client));
            // The lowest of several values, because sales come and go.
            let looks = (0..20).map(|_| {
                thread::sleep(Duration::from_millis(50));
                server.info_int("memory", "used_memory_dataset")
            });
            memory.push(looks.min().expect("twenty looks"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let commands = server.info_int("stats", "total_commands_processed");
    println!("{commands} commands; used_memory_dataset {memory:?}; p99 {latency:.1?}");
    let (first, last) = (memory[1..5].iter().min().expect("four"), memory[6..].iter().min().expect("four"));
    assert!(last - first < 200_000, "{memory:?}");
    let (before, after) = (latency[1..5].iter().max().expect("four"), latency[6..].iter().min().expect("four"));
    assert!(*after < 3 * *before + Duration::from_millis(5), "{latency:?}");
    assert_eq!(server.info_int("lockstock", "lockstock_lock_waiters"), 0);
    let complaints: Vec<String> =
        server.log().lines().filter(|line| line.contains("lockstock:")).map(String::from).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
