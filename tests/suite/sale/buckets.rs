//! The split sale of `examples/buckets` on three nodes: nobody buys twice, nothing is sold twice, and all of it is sold.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use harness::Cluster;
use lockstock_buckets::{Answer, Books, Sale};
use redis::cluster::{ClusterClient, ClusterConnection};

fn connect(cluster: &Cluster) -> ClusterConnection {
    let nodes: Vec<String> = (0..3).map(|node| format!("redis://127.0.0.1:{}", cluster.node(node).port())).collect();
    ClusterClient::new(nodes).and_then(|client| client.get_connection()).expect("a connection to the cluster")
}

fn sale(cluster: &Cluster, buckets: u64, total: u64) -> (Sale, ClusterConnection) {
    let mut redis = connect(cluster);
    let sale = Sale { name: "mug".into(), buckets: buckets.try_into().expect("at least one") };
    sale.create(&mut redis, total).expect("a new sale");
    (sale, redis)
}

#[test]
fn everything_is_sold_once_and_nobody_buys_twice() {
    const TOTAL: u64 = 301;
    const BUYERS: usize = 500;

    let cluster = Cluster::start(3);
    let (sale, mut redis) = sale(&cluster, 8, TOTAL);
    let wins = Mutex::new(BTreeMap::<usize, u32>::new());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (sale, wins, mut redis) = (&sale, &wins, connect(&cluster));
            scope.spawn(move || {
                // Every buyer tries in two of the threads, and in each of them twice.
                for attempt in 0..BUYERS {
                    let buyer = (attempt / 2 + thread * BUYERS / 4) % BUYERS;
                    if sale.buy(&mut redis, &format!("buyer:{buyer}")).expect("an answer") == Answer::Sold {
                        *wins.lock().expect("nobody failed").entry(buyer).or_default() += 1;
                    }
                }
            });
        }
    });
    // Units that were on their way when others heard that nothing is left.
    let mut wins = wins.into_inner().expect("nobody failed");
    for buyer in 0..BUYERS {
        if sale.buy(&mut redis, &format!("buyer:{buyer}")).expect("an answer") == Answer::Sold {
            *wins.entry(buyer).or_default() += 1;
        }
    }
    assert!(wins.values().all(|wins| *wins == 1), "{wins:?}");
    assert_eq!(wins.len() as u64, TOTAL);
    assert_eq!(
        sale.books(&mut redis).expect("the books"),
        Books { total: TOTAL, remaining: 0, sold: TOTAL, moving: 0 }
    );
}

#[test]
fn buyers_of_one_bucket_can_have_the_units_of_all() {
    const TOTAL: u64 = 40;

    let cluster = Cluster::start(3);
    let (sale, mut redis) = sale(&cluster, 6, TOTAL);
    let neighbours = (0_u64..).map(|number| format!("buyer:{number}")).filter(|id| sale.home(id) == 3);
    for (number, id) in neighbours.take(60).enumerate() {
        let wanted = if (number as u64) < TOTAL { Answer::Sold } else { Answer::SoldOut };
        assert_eq!(sale.buy(&mut redis, &id).expect("an answer"), wanted);
        let again = if wanted == Answer::Sold { Answer::Duplicate } else { Answer::SoldOut };
        assert_eq!(sale.buy(&mut redis, &id).expect("an answer"), again);
    }
    assert_eq!(
        sale.books(&mut redis).expect("the books"),
        Books { total: TOTAL, remaining: 0, sold: TOTAL, moving: 0 }
    );
}

#[test]
fn a_move_whose_mover_died_is_ended_by_the_next_buyer() {
    let cluster = Cluster::start(3);
    let (sale, mut redis) = sale(&cluster, 2, 8);
    let mut neighbours = (0_u64..).map(|number| format!("buyer:{number}")).filter(|id| sale.home(id) == 0);
    let mut buy = |redis: &mut ClusterConnection| {
        let id = neighbours.next().expect("endless");
        sale.buy(redis, &id).expect("an answer")
    };
    for _ in 0..4 {
        assert_eq!(buy(&mut redis), Answer::Sold);
    }
    // One stops after it took two of the four other units, later another one before it took anything.
    let plan = sale.plan(&mut redis, 0, "first").expect("a plan").expect("there are units");
    assert_eq!((plan.from, plan.units), (1, 2));
    assert_eq!(sale.depart(&mut redis, 0, &plan).expect("units"), 2);
    assert_eq!(sale.books(&mut redis).expect("the books"), Books { total: 8, remaining: 2, sold: 4, moving: 2 });
    assert_eq!(buy(&mut redis), Answer::Sold);
    assert_eq!(sale.books(&mut redis).expect("the books"), Books { total: 8, remaining: 3, sold: 5, moving: 0 });
    assert_eq!(buy(&mut redis), Answer::Sold);
    sale.plan(&mut redis, 0, "second").expect("a plan").expect("there are units");
    // The first one was not dead but frozen, and carries out its move: that is over.
    sale.carry_out(&mut redis, 0, &plan).expect("nothing to do");
    assert_eq!(sale.books(&mut redis).expect("the books"), Books { total: 8, remaining: 2, sold: 6, moving: 0 });
    for _ in 0..2 {
        assert_eq!(buy(&mut redis), Answer::Sold);
    }
    assert_eq!(buy(&mut redis), Answer::SoldOut);
    assert_eq!(sale.books(&mut redis).expect("the books"), Books { total: 8, remaining: 0, sold: 8, moving: 0 });
}
