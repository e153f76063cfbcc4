//! The shop of `examples/cart`: what a cart holds is the buyer's or nobody's, whatever is lost on the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::shop::{Replay, books, events};
use harness::{Server, eventually, random};
use lockstock_cart::{Item, Missing, Payment, Reservation, Shop};

const LONG: Duration = Duration::from_mins(10);

fn shop(server: &Server) -> Shop {
    Shop::at(&format!("redis://127.0.0.1:{}", server.port()), "shop").expect("a URL")
}

fn items<const N: usize>(items: [(&str, u64); N]) -> Vec<Item> {
    items.into_iter().map(|(article, units)| Item { article: article.into(), units }).collect()
}

#[test]
fn a_cart_is_reserved_paid_and_given_back_as_a_whole() {
    let server = Server::start();
    let mut shop = shop(&server);
    shop.offer("teapot", 2, 0).expect("an offer");
    shop.offer("cup", 10, 6).expect("an offer");
    let cart = items([("teapot", 1), ("cup", 6)]);
    let first = shop.reserve("o1", "ann", &cart, LONG).expect("an answer");
    assert!(matches!(first, Reservation::Held { until } if until > harness::unix_ms()), "{first:?}");
    assert_eq!(shop.reserve("o1", "ann", &cart, LONG).expect("an answer"), first, "the first reply was lost");
    let missing = |article: &str, why: &str, left| Missing { article: article.into(), why: why.into(), left };
    let more = items([("teapot", 2), ("cup", 1)]);
    assert_eq!(
        shop.reserve("o2", "ann", &more, LONG).expect("an answer"),
        Reservation::Missing(vec![missing("teapot", "INSUFFICIENT", 1), missing("cup", "LIMIT", 4)])
    );
    assert_eq!(shop.restock("teapot", 1, "d1").expect("a delivery"), 2);
    assert_eq!(shop.restock("teapot", 1, "d1").expect("a delivery"), 2, "it came once");
    assert_eq!(shop.pay("o1", &cart).expect("an answer"), Payment::Accepted);
    assert_eq!(shop.pay("o1", &cart).expect("an answer"), Payment::Accepted);
    assert_eq!(shop.reserve("o1", "ann", &cart, LONG).expect("an answer"), Reservation::Paid);
    shop.abandon("o1", &cart).expect("an answer");
    assert_eq!(shop.pay("o1", &cart).expect("an answer"), Payment::Refused);
    for (article, total) in [("teapot", 2), ("cup", 10)] {
        let key = shop.key(article);
        let told = events(&mut server.client(), &format!("{key}:events"));
        Replay::of(total, &told).agrees_with(&mut server.client(), &key);
    }
}

#[test]
fn a_payment_that_is_refused_for_one_article_leaves_nothing_of_the_cart_held() {
    let server = Server::start();
    let mut shop = shop(&server);
    shop.offer("teapot", 1, 0).expect("an offer");
    shop.offer("cup", 5, 0).expect("an offer");
    let cart = items([("cup", 2), ("teapot", 1)]);
    shop.reserve("o1", "ann", &cart, Duration::from_millis(1)).expect("an answer");
    let others = items([("teapot", 1)]);
    eventually("somebody else gets the teapot", || {
        matches!(shop.reserve("o2", "bob", &others, LONG), Ok(Reservation::Held { .. }))
    });
    assert_eq!(shop.pay("o1", &cart).expect("an answer"), Payment::Refused);
    shop.abandon("o2", &others).expect("an answer");
    assert_eq!(shop.pay("o1", &cart).expect("an answer"), Payment::Refused, "a refusal is final");
    assert_eq!(books(&mut server.client(), &shop.key("cup")).remaining, 5);
}

/// The server is killed again and again while carts are bought; the shop sends again what was not answered.
#[test]
fn carts_are_whole_though_the_server_is_killed() {
    const ARTICLES: [&str; 4] = ["a", "b", "c", "d"];
    let mut server = Server::builder().aof("always").start();
    for article in ARTICLES {
        shop(&server).offer(article, 60, 0).expect("an offer");
    }
    let (over, port) = (AtomicBool::new(false), server.port());
    let mut random = random();
    let carts: Vec<(String, Vec<Item>)> = thread::scope(|scope| {
        let buyers: Vec<_> = (0..4)
            .map(|buyer| {
                let (mut random, over) = (random.fork(), &over);
                scope.spawn(move || {
                    let mut shop = Shop::at(&format!("redis://127.0.0.1:{port}"), "shop").expect("a URL");
                    let mut paid = vec![];
                    for number in 0.. {
                        let id = format!("{buyer}-{number}");
                        let mut cart: Vec<Item> =
                            ARTICLES.iter().map(|article| Item { article: (*article).into(), units: 1 }).collect();
                        random.shuffle(&mut cart);
                        cart.truncate(random.usize(2..=4));
                        let reserved = shop.reserve(&id, &format!("b-{buyer}"), &cart, LONG).expect("an answer");
                        if over.load(Ordering::Relaxed) || !matches!(reserved, Reservation::Held { .. }) {
                            shop.abandon(&id, &cart).expect("an answer");
                            break;
                        }
                        if random.u8(..4) > 0 {
                            shop.abandon(&id, &cart).expect("an answer");
                        } else {
                            assert_eq!(shop.pay(&id, &cart).expect("an answer"), Payment::Accepted);
                            paid.push((id, cart));
                        }
                    }
                    paid
                })
            })
            .collect();
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(150));
            server.kill9();
            server.start_again();
        }
        over.store(true, Ordering::Relaxed);
        buyers.into_iter().flat_map(|buyer| buyer.join().expect("a buyer")).collect()
    });
    let mut client = server.client();
    for article in ARTICLES {
        let key = shop(&server).key(article);
        let sold = carts.iter().flat_map(|(_, cart)| cart).filter(|item| item.article == article).count();
        let books = books(&mut client, &key);
        assert_eq!((books.held, books.sold), (0, i64::try_from(sold).expect("few")), "{article}");
        let told = events(&mut client, &format!("{key}:events"));
        Replay::of(60, &told).agrees_with(&mut client, &key);
    }
    assert!(!carts.is_empty());
}
