//! A command-line program that holds a lock while it works: `cargo run -p lockstock-client --example brief -- redis://127.0.0.1:6379`.

use std::time::Duration;

use lockstock::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let hold = Client::open(&url)?.lock("job").lease(Duration::from_mins(10)).acquire().await?;
    println!("at work with the fence {}", hold.fence());
    // Released here, or wherever `?` leaves the function.
    Ok(())
}
