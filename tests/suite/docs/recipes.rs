//! docs/recipes.md.

use harness::{OK, Reply, Server};

use super::page::RECIPES;
use super::play::play;

#[test]
fn every_example_prints_what_it_says() {
    play(&RECIPES, &Server::start());
}

/// A front that has read a sale hears of the next change of it and of no refusal.
#[test]
fn a_front_hears_once_when_a_sold_out_sale_has_units_again() {
    let server = Server::start();
    let [mut front, mut news] = [(); 2].map(|()| server.client());
    let id = news.cmd("CLIENT ID").int();
    news.cmd("SUBSCRIBE __redis__:invalidate");
    assert_eq!(front.cmd(format!("CLIENT TRACKING ON REDIRECT {id}")).text(), "OK");
    let mut next_change = || news.read().at(2).at(0).text();
    let mut looks = || front.cmd("STOCK.INFO concert").field("remaining").int();
    server.expect("STOCK.CREATE concert 1", OK);
    server.cmd("STOCK.DECR_ONCE concert order:1 HOLD 600000");

    assert_eq!(looks(), 0);
    for id in 2..10 {
        assert_eq!(server.cmd(format!("STOCK.DECR_ONCE concert order:{id}")).at(0).text(), "SOLDOUT");
    }
    // Had a refusal been told, this would not be the news of the other key.
    front.cmd("GET mark");
    server.expect("SET mark here", OK);
    assert_eq!(next_change(), "mark");
    server.cmd("STOCK.CANCEL concert order:1");
    assert_eq!(next_change(), "concert");

    // So it is with a hold that ends by itself.
    server.cmd("STOCK.DECR_ONCE concert order:1 HOLD 600000");
    server.cmd("STOCK.DECR_ONCE concert order:20 HOLD 300");
    let info = front.cmd("STOCK.INFO concert");
    assert_eq!((info.field("remaining"), info.field("held")), (Reply::Int(0), Reply::Int(1)));
    assert_eq!(next_change(), "concert");
    assert_eq!(front.cmd("STOCK.INFO concert").field("remaining"), Reply::Int(1));
}
