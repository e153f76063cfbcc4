//! `STOCK.ORDERS`: pages that are complete and repeat nothing, while the sale goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use harness::shop::orders;
use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err, eventually};

/// The ids of all pages, in order.
#[track_caller]
fn pages(client: &mut Client, call: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (vec![], "0".to_owned());
    loop {
        let reply = client.expect(call.replace("CURSOR", &cursor), ANY);
        pages.push(reply.at(1).items().iter().map(|row| row.at(0).text()).collect());
        cursor = reply.at(0).text();
        if cursor == "0" {
            return pages;
        }
    }
}

#[track_caller]
fn take(client: &mut Client, sale: &str, ids: impl Iterator<Item = usize>, rest: &str) {
    let calls: Vec<String> = ids.map(|id| format!("STOCK.DECR_ONCE {sale} id-{id} {rest}")).collect();
    for call in calls.chunks(1_000) {
        assert!(client.pipeline(call).iter().all(|reply| reply.at(0).text() == "OK"));
    }
}

#[test]
fn a_row_tells_all_of_an_order() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 2 BUYER ann REF r-1", ANY);
    let deadline = client.expect("STOCK.DECR_ONCE sale b HOLD 60000", ("OK", 1, INT, INT, "")).at(3).int();
    client.expect("STOCK.DECR_ONCE sale c QTY 3", ANY);
    client.expect("STOCK.CANCEL sale c", ANY);
    client.expect("STOCK.DECR_ONCE sale d QTY 4 HOLD 1", ANY);
    eventually("the hold lapses", || client.cmd("STOCK.ORDER sale d").field("units").int() == 0);
    let rows = (
        ("a", "sold", 2, "ann", "r-1", -1),
        ("b", "held", 1, "b", "", deadline),
        ("c", "cancelled", 0, "c", "", -1),
        ("d", "expired", 0, "d", "", -1),
    );
    client.expect("STOCK.ORDERS sale 0", ("0", rows));
    for (state, id) in [("sold", "a"), ("HELD", "b"), ("Cancelled", "c"), ("expired", "d")] {
        let page = client.expect(format!("STOCK.ORDERS sale 0 STATE {state}"), ("0", (ANY,)));
        assert_eq!(page.at(1).at(0).at(0).text(), id);
    }
    // The same in RESP3: an array of arrays.
    client.hello3();
    assert_eq!(client.cmd("STOCK.ORDERS sale 0").at(1).items().len(), 4);
    client.expect("STOCK.ORDERS sale 0 STATE nonsense", err("ERR STATE must be"));
    client.expect("STOCK.ORDERS none 0", ("0", ()));
    client.expect("STOCK.ORDER none 0", NULL);
}

#[test]
fn count_is_how_many_rows_a_page_has() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10000", OK);
    take(&mut client, "sale", 0..2_500, "");
    let sizes = |call: &str, client: &mut Client| pages(client, call).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes("STOCK.ORDERS sale CURSOR", &mut client), [10; 250]);
    assert_eq!(sizes("STOCK.ORDERS sale CURSOR COUNT 1000", &mut client), [1_000, 1_000, 500]);
    assert_eq!(sizes("STOCK.ORDERS sale CURSOR COUNT 9223372036854775807", &mut client), [1_000, 1_000, 500]);
    assert_eq!(sizes("STOCK.ORDERS sale CURSOR COUNT 1", &mut client).len(), 2_500);
    for cursor in ["2499", "2500", "99999999", "4294967296", "9223372036854775807"] {
        client.expect(["STOCK.ORDERS", "sale", cursor], ("0", ANY));
    }
}

#[test]
fn a_page_looks_at_a_bounded_number_of_orders() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100000", OK);
    take(&mut client, "sale", 0..20_000, "");
    client.expect("STOCK.CANCEL sale id-19999", ANY);
    let pages = pages(&mut client, "STOCK.ORDERS sale CURSOR COUNT 1000 STATE cancelled");
    // Empty ones before the one that has something to show.
    assert!((4..=6).contains(&pages.len()), "{}", pages.len());
    assert_eq!(pages.concat(), ["id-19999"]);
}

#[test]
fn pages_are_complete_and_repeat_nothing_while_the_sale_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000000 REBUY", OK);
    take(&mut client, "sale", 0..5_000, "HOLD 600000");
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut client = server.client();
            let mut next = 5_000;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // Old orders change their state, lapse and buy anew; new ones come.
                let old = next % 5_000;
                client.pipeline([
                    format!("STOCK.DECR_ONCE sale id-{next} QTY 2 BUYER b-{} REF r", next % 50),
                    format!("STOCK.CANCEL sale id-{old}"),
                    format!("STOCK.DECR_ONCE sale id-{old} BUYER other-{} REF longer-than-before HOLD 5", next % 7),
                    format!("STOCK.CONFIRM sale id-{}", (old + 2_500) % 5_000),
                ]);
                next += 1;
            }
            next
        });
        let before: BTreeSet<String> = (0..5_000).map(|id| format!("id-{id}")).collect();
        for _ in 0..5 {
            let ids = pages(&mut client, "STOCK.ORDERS sale CURSOR COUNT 37").concat();
            let unique: BTreeSet<String> = ids.iter().cloned().collect();
            assert_eq!(unique.len(), ids.len(), "an order came twice");
            assert!(unique.is_superset(&before), "an order is missing");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let taken = traffic.join().expect("the traffic ends well");
        assert_eq!(orders(&mut client, "sale").len(), taken);
    });
}

#[test]
fn a_cursor_survives_a_restart_and_a_failover() {
    let mut primary = Server::builder().aof("always").start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 1000", OK);
    take(&mut client, "sale", 0..300, "");
    let first = client.expect("STOCK.ORDERS sale 0 COUNT 100", ANY);
    let cursor = first.at(0).text();
    replica.wait_in_sync(&primary);
    drop(client);
    primary.expect("BGREWRITEAOF", ANY);
    eventually("the rewrite ends", || primary.info_int("persistence", "aof_rewrite_in_progress") == 0);
    primary.restart();
    let rest = |server: &Server| {
        let mut cursor = cursor.clone();
        let mut ids = BTreeMap::new();
        while cursor != "0" {
            let page: Reply = server.expect(["STOCK.ORDERS", "sale", &cursor, "COUNT", "100"], ANY);
            ids.extend(page.at(1).items().iter().map(|row| (row.at(0).text(), row.clone())));
            cursor = page.at(0).text();
        }
        ids.len()
    };
    assert_eq!(rest(&primary), 200);
    replica.promote();
    assert_eq!(rest(&replica), 200);
}
