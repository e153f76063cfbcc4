//! A train that is full, and what becomes of the waiting passengers when one stays at home.

use std::env;
use std::error::Error;

use lockstock_railway::{Journey, Standing, Train, passed_over};
use redis::Client;

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: railway URL")?;
    let mut redis = Client::open(url)?.get_connection()?;
    let train = Train { name: "train-9".into(), stops: 10 };
    train.open(&mut redis, 2)?;
    let journey = |id: &str, from, to| Journey { id: id.into(), from, to };
    let journeys =
        [journey("ann", 1, 10), journey("bob", 3, 6), journey("cid", 2, 5), journey("dan", 5, 8), journey("eve", 4, 7)];
    for journey in &journeys {
        let Journey { id, from, to } = journey;
        println!("{id}, from stop {from} to stop {to}: {:?}", train.book(&mut redis, journey)?);
    }
    println!("ann stays at home");
    let [ann, others @ ..] = &journeys;
    train.cancel(&mut redis, ann)?;
    for journey in others {
        println!("{}: {:?}", journey.id, train.book(&mut redis, journey)?);
    }
    for leg in train.legs() {
        let passed_over = passed_over(&train.story(&mut redis, leg)?);
        println!("leg {leg}: {:?}, passed over: {passed_over:?}", train.look(&mut redis, leg)?);
    }
    let booked = others.iter().filter(|journey| matches!(train.book(&mut redis, journey), Ok(Standing::Booked)));
    println!("{} are on their way", booked.count());
    train.withdraw(&mut redis)?;
    Ok(())
}
