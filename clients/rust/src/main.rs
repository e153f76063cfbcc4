//! How to take locks and orders of lockstock with redis-rs 1.8, on one server: `cargo run -p lockstock-client -- redis://127.0.0.1:6379`.
//!
//! The parts to take over are `lock.rs` and `order` below. In a cluster, ask the node of the key: `ClusterConnection` sends these
//! commands to it by their first key, but has one read time-out for all that it sends.
#![expect(clippy::arithmetic_side_effects, reason = "times of some seconds")]

mod lock;

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lock::Lock;
use redis::{Client, RedisResult, Value, cmd};

const SECOND: Duration = Duration::from_secs(1);

/// What came of a request for an order: status, units, remaining, deadline, ref. None of the statuses is an error.
type Outcome = (String, i64, i64, i64, String);

/// Reserves a unit for `id`. Asked again with the same id, because an answer was lost, it is not reserved twice.
fn order(client: &Client, sale: &str, id: &str, hold: Duration) -> RedisResult<Outcome> {
    let mut connection = client.get_connection()?;
    cmd("STOCK.DECR_ONCE").arg(sale).arg(id).arg("HOLD").arg(hold.as_millis()).query(&mut connection)
}

/// The payment is there: what was held is sold, once.
fn confirm(client: &Client, sale: &str, id: &str) -> RedisResult<Outcome> {
    cmd("STOCK.CONFIRM").arg(sale).arg(id).query(&mut client.get_connection()?)
}

/// Whether so many wait for this lock.
fn waits(client: &Client, key: &str, number: i64) -> RedisResult<bool> {
    let info: Option<HashMap<String, Value>> = cmd("LOCK.INFO").arg(key).query(&mut client.get_connection()?)?;
    Ok(info.and_then(|mut info| info.remove("waiting")) == Some(Value::Int(number)))
}

fn main() -> RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let client = Client::open(url)?;

    let Some(held) = Lock::acquire(&client, "job:42", 20 * SECOND, 10 * SECOND)? else {
        println!("job:42 is taken");
        return Ok(());
    };
    println!("held: {}, with a fence: {}", held.is_held(), held.fence > 0);
    let brief = Lock::acquire(&client, "job:42", SECOND / 5, SECOND)?;
    println!("granted to who waits 200 ms: {}", brief.is_some());

    // Three more stand in line and are served in order, each by the release of the one before it.
    let (tell, told) = channel();
    let mut workers = vec![];
    for number in 1..=3 {
        let (asks, tell) = (client.clone(), tell.clone());
        workers.push(thread::spawn(move || {
            let lock = Lock::acquire(&asks, "job:42", 20 * SECOND, 10 * SECOND)?;
            let _ = tell.send((number, lock.as_ref().map(|lock| lock.fence)));
            lock.map_or(Ok(false), Lock::release)
        }));
        // Only so that they come one after another.
        while !waits(&client, "job:42", number)? {
            thread::sleep(SECOND / 100);
        }
    }
    drop(tell);
    println!("released: {}", held.release()?);
    let mut last = 0;
    for (number, fence) in told {
        let fence = fence.unwrap_or_default();
        println!("worker {number}, with a larger fence: {}", fence > last);
        last = fence;
    }
    for worker in workers {
        if !worker.join().unwrap_or(Ok(false))? {
            println!("a worker lost the lock");
        }
    }

    // Who creates it a second time hears BUSYKEY.
    let _: RedisResult<()> = cmd("STOCK.CREATE").arg("mug").arg(1).query(&mut client.get_connection()?);
    for (what, answer) in [
        ("order", order(&client, "mug", "ann", 600 * SECOND)?),
        ("again", order(&client, "mug", "ann", 600 * SECOND)?),
        ("other", order(&client, "mug", "bob", 600 * SECOND)?),
        ("paid", confirm(&client, "mug", "ann")?),
        ("again", confirm(&client, "mug", "ann")?),
    ] {
        let (status, units, remaining, ..) = answer;
        println!("{what}: {status}, has {units}, left {remaining}");
    }
    Ok(())
}
