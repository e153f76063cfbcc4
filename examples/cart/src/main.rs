//! A morning in a shop.

use std::env;
use std::error::Error;
use std::time::Duration;

use lockstock_cart::{Item, Reservation, Shop};

fn item(article: &str, units: u64) -> Item {
    Item { article: article.into(), units }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: cart URL")?;
    let mut shop = Shop::at(&url, "shop")?;
    shop.offer("teapot", 3, 0)?;
    shop.offer("cup", 10, 6)?;
    let hold = Duration::from_mins(10);

    let tea_for_four = [item("teapot", 1), item("cup", 4)];
    println!("ann reserves: {:?}", shop.reserve("order-1", "ann", &tea_for_four, hold)?);
    println!("and again, for the reply was lost: {:?}", shop.reserve("order-1", "ann", &tea_for_four, hold)?);
    println!("ann pays: {:?}", shop.pay("order-1", &tea_for_four)?);

    let party = [item("teapot", 3), item("cup", 6)];
    if let Reservation::Missing(missing) = shop.reserve("order-2", "bob", &party, hold)? {
        println!("bob cannot have all of his cart, and gets nothing of it: {missing:?}");
    }
    println!("a delivery of teapots: {} now", shop.restock("teapot", 5, "delivery-7")?);
    println!("bob reserves: {:?}", shop.reserve("order-2", "bob", &party, hold)?);
    shop.abandon("order-2", &party)?;
    println!("bob has thought better of it");
    shop.withdraw("teapot")?;
    shop.withdraw("cup")?;
    Ok(())
}
