//! Locks and orders without an async runtime: `cargo run -p lockstock-client --example story -- redis://127.0.0.1:6379`.
#![expect(clippy::arithmetic_side_effects, reason = "times of some seconds")]

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lockstock::blocking::Client;
use lockstock::{Error, Order, Terms};
use redis::{Value, cmd};

const SECOND: Duration = Duration::from_secs(1);

/// Whether so many wait for this lock.
fn waits(client: &Client, key: &str, number: i64) -> Result<bool, Error> {
    let info: Option<HashMap<String, Value>> = client.query(key, cmd("LOCK.INFO").arg(key))?;
    Ok(info.and_then(|mut info| info.remove("waiting")) == Some(Value::Int(number)))
}

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let client = Client::open(&url)?;
    let lock = client.lock("job:42").lease(10 * SECOND);

    let held = lock.clone().wait(20 * SECOND).acquire()?;
    println!("held: {}, with a fence: {}", held.is_held(), held.fence() > 0);
    let brief = lock.clone().wait(SECOND / 5).acquire();
    println!("granted to who waits 200 ms: {}", !matches!(brief, Err(Error::NotGranted)));

    // Three more stand in line and are served in order, each by the release of the one before it.
    let (tell, told) = channel();
    let mut workers = vec![];
    for number in 1..=3 {
        let (lock, tell) = (lock.clone().wait(20 * SECOND), tell.clone());
        workers.push(thread::spawn(move || {
            let hold = lock.acquire()?;
            let _ = tell.send((number, hold.fence()));
            hold.release()
        }));
        // Only so that they come one after another.
        while !waits(&client, "job:42", number)? {
            thread::sleep(SECOND / 100);
        }
    }
    drop(tell);
    println!("released: {}", held.release().is_ok());
    let mut last = 0;
    for (number, fence) in told {
        println!("worker {number}, with a larger fence: {}", fence > last);
        last = fence;
    }
    for worker in workers {
        if !worker.join().is_ok_and(|released| released.is_ok()) {
            println!("a worker lost the lock");
        }
    }

    let mug = client.stock("mug");
    mug.create(1, &Terms::default())?;
    let reserved = Order { hold: Some(600 * SECOND), ..Order::default() };
    for (what, outcome) in [
        ("order", mug.order("ann", &reserved)?),
        // Asked again, because an answer was lost, it is not reserved twice.
        ("again", mug.order("ann", &reserved)?),
        ("other", mug.order("bob", &reserved)?),
        // The payment is there: the held units are sold, once.
        ("paid", mug.confirm("ann", None)?),
        ("again", mug.confirm("ann", None)?),
    ] {
        println!("{what}: {}, has {}, left {}", outcome.status, outcome.units, outcome.remaining);
    }
    Ok(())
}
