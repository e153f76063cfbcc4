//! A line whose slot moves.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use harness::shop::{Replay, events, orders};
use harness::{Cluster, eventually};

use super::{EVENTS, Follower, SALE, take};

/// A line and its stream, too: nobody is passed over, forgotten or served twice, whichever node serves.
#[test]
fn a_line_moves_with_its_slot() {
    let cluster = Cluster::start(2);
    let mut seller = Follower::of(&cluster);
    seller.cmd(&format!("STOCK.CREATE {SALE} 3 STREAM {EVENTS} DEADLINES"));
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut at = cluster.owner(SALE);
    thread::scope(|scope| {
        for name in 0..4 {
            let (stop, done, cluster) = (&stop, &done, &cluster);
            scope.spawn(move || {
                let mut client = Follower::of(cluster);
                for number in (0..).take_while(|_| !stop.load(Relaxed)) {
                    let id = format!("o-{name}-{number}");
                    let hold = ["HOLD 5", "HOLD 20", "HOLD 60000"][number % 3];
                    let status = client.cmd(&format!("{} {hold} WAITLIST", take(&id))).at(0).text();
                    assert!(["OK", "QUEUED"].contains(&status.as_str()), "{id}: {status}");
                    if number % 3 == 2 {
                        // Whether it has its unit or waits for it.
                        let status = client.cmd(&format!("STOCK.CANCEL {SALE} {id}")).at(0).text();
                        assert_eq!(status, "OK", "{id}");
                    }
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        let more = |count: usize| {
            let goal = done.load(Relaxed) + count;
            eventually("more comes", || done.load(Relaxed) >= goal);
        };
        for round in 0..4 {
            let to = 1 - at;
            more(20);
            if round == 1
                && let Some(begun) = cluster.move_whole_slot(SALE, at, to)
            {
                assert!(!begun.is_error(), "{begun:?}");
                eventually("the slot has moved", || !cluster.node(to).cmd(format!("STOCK.INFO {SALE}")).is_error());
            } else {
                cluster.begin_move(SALE, at, to);
                for key in [SALE, EVENTS] {
                    cluster.move_key(key, at, to);
                }
                more(10);
                cluster.end_move(SALE, at, to);
            }
            cluster.agree();
            at = to;
        }
        more(20);
        stop.store(true, Relaxed);
    });
    let mut client = cluster.node(at).client();
    eventually("everybody was served, and every hold has lapsed", || {
        let info = client.cmd(["STOCK.INFO", SALE]);
        info.field("waiting").int() == 0 && info.field("held").int() == 0
    });
    let mut told = vec![];
    eventually("the last lapse is told", || {
        told = events(&mut client, EVENTS);
        client.cmd(["STOCK.INFO", SALE]).field("seq").int() == i64::try_from(told.len()).expect("few")
            && orders(&mut client, SALE).values().filter(|order| order.state == "expired").count()
                == told.iter().filter(|event| event.event == "expire").count()
    });
    assert!(told.iter().filter(|event| event.event == "wait").count() > 20);
    Replay::of(3, &told).agrees_with(&mut client, SALE);
}
