//! A cluster's primary hands over to its replica: `CLUSTER FAILOVER`, as an operator does before maintenance.

use harness::shop::{Replay, books, events};
use harness::{ANY, Cluster, INT, NULL, OK, Reply, eventually};

use crate::support::line::Line;

const LOCK: &str = "{job}lock";
const SALE: &str = "{job}sale";
const EVENTS: &str = "{job}events";

#[test]
fn locks_lines_and_sales_go_over_to_the_replica_and_back() {
    let cluster = Cluster::start(3);
    let primary = cluster.node(cluster.owner(LOCK));
    let replica = cluster.replica_of(cluster.owner(LOCK));
    let mut old = primary.client();
    let mut line = Line::at(primary);
    let mut news = primary.client();
    news.expect("SUBSCRIBE news", ANY);

    let fence = old.expect(format!("LOCK.ACQUIRE {LOCK} TOKEN holder PX 600000"), ("holder", INT, 600_000)).at(1).int();
    let mut parked = line.join(format!("LOCK.ACQUIRE {LOCK} TOKEN parked WAIT 0"));
    let mut notified = line.join(format!("LOCK.ACQUIRE {LOCK} TOKEN notified WAIT 0 NOTIFY news"));
    notified.read().is(2);
    old.expect(format!("STOCK.CREATE {SALE} 1 STREAM {EVENTS}"), OK);
    old.expect(format!("STOCK.DECR_ONCE {SALE} ann HOLD 600000"), ("OK", 1, 0, INT, ""));
    for id in ["ben", "cy"] {
        old.expect(format!("STOCK.DECR_ONCE {SALE} {id} WAITLIST"), ("QUEUED", 0, 0, -1, ""));
    }

    cluster.fail_over(primary, &replica);
    let mut new = replica.client();
    // Each request in line is told that its wait is over here. Valkey 9 sends a blocked client to the new primary first.
    let told = parked.read();
    let ended = matches!(&told, Reply::Error(text) if text.starts_with("UNBLOCKED ") || text.starts_with("MOVED "));
    assert!(ended, "{told:?}");
    let told = news.read().at(2).text();
    assert!(told.contains(r#""event":"failed""#) && told.contains("UNBLOCKED "), "{told}");
    // The hold and its fence are those that the old primary granted, and the next fence is larger.
    assert_eq!(new.cmd(["LOCK.INFO", LOCK]).field("holders").at(0).field("fence").int(), fence);
    new.expect(format!("LOCK.ACQUIRE {LOCK} TOKEN parked"), NULL);
    let mut line = Line::at(&replica);
    let mut parked = line.join(format!("LOCK.ACQUIRE {LOCK} TOKEN parked WAIT 0"));
    new.expect(format!("LOCK.RELEASE {LOCK} holder"), 1);
    let next = parked.read().is(("parked", INT, 30_000)).at(1).int();
    assert!(next > fence);
    // The line of the sale goes on where it was.
    new.expect(format!("STOCK.EXTEND {SALE} ann PX 1"), ("OK", 1, 0, INT, ""));
    eventually("the hold lapses, and ben is served", || books(&mut new, SALE).sold == 1);
    assert_eq!(new.cmd(format!("STOCK.ORDER {SALE} ben")).field("state").text(), "sold");
    new.expect(format!("STOCK.DECR_ONCE {SALE} cy WAITLIST"), ("QUEUED", 0, 0, -1, ""));

    cluster.fail_over(&replica, primary);
    let mut back = primary.client();
    back.expect(format!("STOCK.CANCEL {SALE} ben"), ("OK", 0, 0, -1, ""));
    assert_eq!(back.cmd(format!("STOCK.ORDER {SALE} cy")).field("state").text(), "sold");
    Replay::of(1, &events(&mut back, EVENTS)).agrees_with(&mut back, SALE);
    back.expect(format!("LOCK.RELEASE {LOCK} parked"), 1);
    assert!(back.cmd(format!("LOCK.ACQUIRE {LOCK} TOKEN last")).at(1).int() > next);
    replica.wait_in_sync(primary);
    assert_eq!(replica.digest(), primary.digest());
}
