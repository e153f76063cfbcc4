//! The program of the README: `cargo run -p lockstock-client --example first -- redis://127.0.0.1:6379`.

use std::time::Duration;

use lockstock::{Client, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let client = Client::open(&url)?;
    let hold = client.lock("job:42").wait(Duration::from_secs(10)).acquire().await?;
    tokio::select! {
        () = work(hold.fence()) => hold.release().await?,
        () = hold.lost() => println!("the lock was lost: another client may have it by now"),
    }
    Ok(())
}

/// A database that this writes to should refuse smaller fences than it has seen.
async fn work(fence: i64) {
    println!("job:42 is ours: {}", fence > 0);
    tokio::time::sleep(Duration::from_millis(100)).await;
}
