//! Sells all of a split sale, to twice as many buyers as there are units.
#![expect(clippy::arithmetic_side_effects, reason = "it counts buyers")]

use std::env;
use std::error::Error;

use lockstock_buckets::{Answer, Sale};
use redis::cluster::ClusterClient;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, total, buckets, nodes @ ..] = &args[..] else {
        return Err("usage: buckets NAME TOTAL BUCKETS URL…".into());
    };
    let mut redis = ClusterClient::new(nodes.to_vec())?.get_connection()?;
    let sale = Sale { name: name.clone(), buckets: buckets.parse()? };
    let total = total.parse()?;
    sale.create(&mut redis, total)?;
    let (mut sold, mut refused) = (0, 0);
    for buyer in 0..total.saturating_mul(2) {
        match sale.buy(&mut redis, &format!("buyer:{buyer}"))? {
            Answer::Sold => sold += 1,
            Answer::SoldOut => refused += 1,
            Answer::Duplicate => return Err("somebody had bought before".into()),
        }
    }
    println!("{sold} sold, {refused} refused; the books: {:?}", sale.books(&mut redis)?);
    sale.withdraw(&mut redis)?;
    Ok(())
}
