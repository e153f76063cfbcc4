//! Sales, against a real server: `LOCKSTOCK_SERVER` names it.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::time::Duration;

use harness::{OK, Server};
use lockstock::{Change, Client, Error, Order, State, Status, Terms, blocking};

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &Server) -> Client {
    Client::open(&format!("redis://{}", server.address())).expect("a URL")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_sells_once() {
    let server = Server::start();
    let mug = client(&server).stock("mug");
    assert_eq!(mug.order("ann", &Order::default()).await.expect("an answer").status, Status::NoStock);
    mug.create(3, &Terms::default()).await.expect("an answer");
    assert!(matches!(mug.create(3, &Terms::default()).await, Err(Error::SaleExists)));
    let order = Order { units: Some(3), hold: Some(SECOND * 60), reference: Some("r".into()), ..Order::default() };
    let outcome = mug.order("ann", &order).await.expect("an answer");
    assert_eq!((outcome.status.clone(), outcome.units, outcome.reference.clone()), (Status::Ok, 3, b"r".to_vec()));
    assert!(outcome.is_done() && outcome.deadline.is_some());
    let queued = mug.order("bob", &Order { waitlist: true, ..Order::default() }).await.expect("an answer");
    assert_eq!(queued.status, Status::Queued);
    assert_eq!(mug.confirm("ann", None).await.expect("an answer").status, Status::Ok);
    assert_eq!(mug.adjust(2, Some(b"restock")).await.expect("an answer"), 1);
    assert_eq!(mug.adjust(2, Some(b"restock")).await.expect("an answer"), 1);
    assert_eq!(mug.cancel("ann", None).await.expect("an answer").remaining, 4);
}

#[tokio::test]
async fn a_sale_is_created_with_its_terms_and_altered() {
    let server = Server::start();
    let mug = client(&server).stock("mug");
    assert_eq!(mug.info().await.expect("an answer"), None);
    assert_eq!(mug.buyer("ann").await.expect("an answer"), None);
    assert!(matches!(mug.alter(&Change { limit: Some(1), ..Change::default() }).await, Err(Error::NoSale)));
    assert!(matches!(mug.adjust(1, None).await, Err(Error::NoSale)));
    let end = 4_102_444_800_000;
    let terms = Terms {
        limit: Some(2),
        end: Some(end),
        rebuy: true,
        stream: Some("changes".into()),
        deadlines: true,
        ..Terms::default()
    };
    mug.create(5, &terms).await.expect("an answer");
    let order = Order { units: Some(2), buyer: Some("ann".into()), hold: Some(60 * SECOND), ..Order::default() };
    assert_eq!(mug.order("first", &order).await.expect("an answer").status, Status::Ok);
    assert_eq!(mug.order("second", &order).await.expect("an answer").status, Status::Limit);
    let sale = mug.info().await.expect("an answer").expect("it is there");
    assert_eq!((sale.total, sale.remaining, sale.held, sale.sold, sale.orders, sale.buyers), (5, 3, 2, 0, 1, 1));
    assert_eq!((sale.limit, sale.start, sale.end, sale.rebuy), (Some(2), None, Some(end), true));
    assert_eq!((sale.stream, sale.deadlines, sale.changes), (Some(b"changes".to_vec()), true, 1));
    assert_eq!((sale.counters["ok"], sale.counters["limited"]), (1, 1));
    server.expect("XLEN changes", 1);
    mug.alter(&Change { limit: Some(0), start: Some(end - 1), end: Some(0), rebuy: Some(false) })
        .await
        .expect("altered");
    let sale = mug.info().await.expect("an answer").expect("it is there");
    assert_eq!((sale.limit, sale.start, sale.end, sale.rebuy), (None, Some(end - 1), None, false));
    let early = mug.order("third", &order).await.expect("an answer");
    assert_eq!((early.status, early.deadline), (Status::NotStarted, Some(end - 1)));
    let buyer = mug.buyer("ann").await.expect("an answer").expect("it is there");
    assert_eq!((buyer.units, buyer.limit), (2, None));
}

#[tokio::test]
async fn orders_are_looked_at_one_by_one_and_all_of_them() {
    let server = Server::start();
    let mug = client(&server).stock("mug");
    assert!(mug.orders(None).next().await.is_none());
    mug.create(1_200, &Terms::default()).await.expect("an answer");
    for number in 0..1_200 {
        server.cmd(["STOCK.DECR_ONCE", "mug", &format!("id {number}"), "REF", "r"]);
    }
    assert_eq!(
        mug.order("held", &Order { waitlist: true, ..Order::default() }).await.expect("an answer").status,
        Status::Queued
    );
    let waiting = mug.look("held").await.expect("an answer").expect("it is there");
    assert_eq!((waiting.id, waiting.state, waiting.place), (b"held".to_vec(), State::Waiting, Some(1)));
    assert_eq!(mug.look("nobody").await.expect("an answer"), None);
    assert_eq!(mug.cancel("id 7", None).await.expect("an answer").status, Status::Ok);
    let mut found = Vec::new();
    let mut orders = mug.orders(None);
    while let Some(order) = orders.next().await {
        found.push(order.expect("an answer"));
    }
    found.sort_by_key(|order| order.id.clone());
    found.dedup();
    assert_eq!(found.len(), 1_201);
    assert!(found.iter().all(|order| order.buyer == order.id));
    let mut cancelled = mug.orders(Some(State::Cancelled));
    let one = cancelled.next().await.expect("one").expect("an answer");
    assert_eq!((one.id, one.state, one.reference), (b"id 7".to_vec(), State::Cancelled, b"r".to_vec()));
    assert!(cancelled.next().await.is_none());
    let address = server.address();
    let blocking = blocking::Client::open(&format!("redis://{address}")).expect("a URL").stock("mug");
    assert_eq!(blocking.orders(Some(State::Sold)).filter_map(Result::ok).count(), 1_200);
    drop(server);
    let mut orders = mug.orders(None);
    assert!(matches!(orders.next().await, Some(Err(Error::Unreachable(_)))));
    assert!(orders.next().await.is_none());
}

#[tokio::test]
async fn a_cart_is_taken_as_a_whole() {
    let server = Server::start();
    let client = client(&server);
    for (sale, total) in [("tea", 5), ("cup", 1)] {
        client.stock(sale).create(total, &Terms::default()).await.expect("an answer");
    }
    let order =
        Order { hold: Some(60 * SECOND), buyer: Some("eve".into()), reference: Some("r".into()), ..Order::default() };
    let statuses =
        |cart: lockstock::Cart| (cart.status.clone(), cart.legs.into_iter().map(|leg| leg.status).collect::<Vec<_>>());
    let refused = client.order_all("ann", &[("tea", 2), ("cup", 2)], &order).await.expect("an answer");
    assert_eq!(statuses(refused), (Status::Insufficient, vec![Status::Skipped, Status::Insufficient]));
    let taken = client.order_all("ann", &[("tea", 2), ("cup", 1)], &order).await.expect("an answer");
    assert!(taken.is_done());
    assert_eq!(taken.legs.iter().map(|leg| leg.units).collect::<Vec<_>>(), [2, 1]);
    let cup = client.stock("cup").look("ann").await.expect("an answer").expect("it is there");
    assert_eq!((cup.state, cup.units, cup.buyer, cup.reference), (State::Held, 1, b"eve".to_vec(), b"r".to_vec()));
    assert!(cup.deadline.is_some());
    let paid = client.confirm_all("ann", &["tea", "cup"]).await.expect("an answer");
    assert_eq!(statuses(paid), (Status::Ok, vec![Status::Ok, Status::Ok]));
    let back = client.cancel_all("ann", &["cup"]).await.expect("an answer");
    assert_eq!(statuses(back), (Status::Ok, vec![Status::Ok]));
    assert_eq!(client.stock("cup").info().await.expect("an answer").expect("it is there").remaining, 1);
}

#[tokio::test]
async fn what_would_mean_nothing_is_not_sent() {
    let server = Server::start();
    let client = client(&server);
    let mug = client.stock("mug");
    let order = Order::default();
    let long = Order { hold: Some(Duration::ZERO), ..Order::default() };
    let many = Order { units: Some(u64::MAX), ..Order::default() };
    let nothing = Order { units: Some(0), ..Order::default() };
    let nobody = Order { buyer: Some(Vec::new()), ..Order::default() };
    let waits = Order { waitlist: true, ..Order::default() };
    let terms = Terms::default();
    let untold = Terms { deadlines: true, ..Terms::default() };
    let unlimited = Terms { limit: Some(0), ..Terms::default() };
    let sales: [&str; 0] = [];
    server.expect("CONFIG RESETSTAT", OK);
    for (what, error) in [
        ("a sale of no name", client.stock("").order("ann", &order).await.err()),
        ("no id", mug.order("", &order).await.err()),
        ("a long id", mug.order([b'x'; 513], &order).await.err()),
        ("a hold of 0", mug.order("ann", &long).await.err()),
        ("too many units", mug.order("ann", &many).await.err()),
        ("no units", mug.order("ann", &nothing).await.err()),
        ("a leg of no units", client.order_all("ann", &[("mug", 1), ("cup", 0)], &order).await.err()),
        ("a buyer of no name", mug.order("ann", &nobody).await.err()),
        ("keep 0", mug.confirm("ann", Some(0)).await.err()),
        ("keep 0", mug.cancel("ann", Some(0)).await.err()),
        ("an extension by 0", mug.extend("ann", Duration::ZERO).await.err()),
        ("an id of no name", mug.adjust(1, Some(b"")).await.err()),
        ("a total too large", mug.create(u64::MAX, &terms).await.err()),
        ("deadlines without a stream", mug.create(1, &untold).await.err()),
        ("a limit of 0", mug.create(1, &unlimited).await.err()),
        ("a change of nothing", mug.alter(&Change::default()).await.err()),
        ("no sales", client.confirm_all("ann", &sales).await.err()),
        ("a sale of no name", client.cancel_all("ann", &["mug", ""]).await.err()),
        (
            "units beside the legs",
            client.order_all("ann", &[("mug", 1)], &Order { units: Some(1), ..Order::default() }).await.err(),
        ),
        ("a waitlist for a cart", client.order_all("ann", &[("mug", 1)], &waits).await.err()),
    ] {
        assert!(matches!(error, Some(Error::Invalid(_))), "{what}: {error:?}");
    }
    assert!(!server.cmd("INFO commandstats").text().contains("cmdstat_stock."));
}

#[tokio::test]
async fn a_page_of_orders_is_asked_for_again_when_its_future_was_dropped() {
    let server = Server::start();
    let mug = client(&server).stock("mug");
    mug.create(2, &Terms::default()).await.expect("an answer");
    for id in ["ann", "bob"] {
        assert_eq!(mug.order(id, &Order::default()).await.expect("an answer").status, Status::Ok);
    }
    let (mut orders, mut found) = (mug.orders(None), Vec::new());
    tokio::select! {
        biased;
        // Rarely the answer is there at once.
        order = orders.next() => found.extend(order.and_then(Result::ok).map(|order| order.id)),
        () = std::future::ready(()) => {}
    }
    while let Some(order) = orders.next().await {
        found.push(order.expect("an answer").id);
    }
    assert_eq!(found.len(), 2, "{found:?}");
}

#[tokio::test]
async fn some_of_an_order_is_kept() {
    let server = Server::start();
    let mug = client(&server).stock("mug");
    mug.create(10, &Terms::default()).await.expect("an answer");
    let order = Order { units: Some(3), hold: Some(60 * SECOND), ..Order::default() };
    let held = mug.order("ann", &order).await.expect("an answer");
    let longer = mug.extend("ann", 600 * SECOND).await.expect("an answer");
    assert!(longer.deadline > held.deadline, "{longer:?}");
    let sold = mug.confirm("ann", Some(2)).await.expect("an answer");
    let kept = mug.cancel("ann", Some(1)).await.expect("an answer");
    assert_eq!([(sold.units, sold.remaining), (kept.units, kept.remaining)], [(2, 8), (1, 9)]);
}
