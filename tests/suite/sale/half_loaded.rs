//! A sale that a tool copies from an append-only file to a server that serves already: it decides nothing until all of it is there.

use harness::shop::books;
use harness::{ANY, Aof, Base, Client, OK, Reply, Server, Words, err, eventually};

/// Holds of one unit each, which is all there is.
const HOLDS: i64 = 700;

/// Orders after the copy: the holds, and the order that was sold what 128 of them and a cutoff had left.
const ORDERS: i64 = HOLDS + 1;

/// A sale that has sold the units of 700 due holds to one order, of which most have not expired yet: as the commands of an append-only file.
#[track_caller]
fn sale_with_a_cutoff() -> Vec<Words> {
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    let mut calls = vec!["MULTI".to_owned(), format!("STOCK.CREATE sale {HOLDS}")];
    calls.extend((0..HOLDS).map(|n| format!("STOCK.DECR_ONCE sale h-{n} HOLD 1")));
    calls.extend(["DEBUG SLEEP 0.01".into(), format!("STOCK.DECR_ONCE sale all QTY {HOLDS}")]);
    // Writes are paused before the timer can end the holds.
    calls.extend(["CLIENT PAUSE 600000 WRITE".into(), "EXEC".into()]);
    client.pipeline(&calls);
    client.expect("STOCK.INFO sale", ANY).field("expired").is(128);
    server.rewrite_aof(false);
    let Base::Commands(commands) = Aof::of(&server).base else { panic!("not rewritten as commands") };
    commands.into_iter().filter(|command| command.name() == "STOCK.APPLY").collect()
}

/// Everything that decides on the sale is refused, and says why.
#[track_caller]
fn decides_nothing(client: &mut Client, loaded: i64) {
    let refusal = err(&format!("ERR the sale is being loaded: {loaded} of its {ORDERS} orders are there"));
    for command in [
        "STOCK.DECR_ONCE sale late",
        "STOCK.DECR_ONCE sale late WAITLIST",
        "STOCK.CONFIRM sale all",
        "STOCK.CANCEL sale all",
        "STOCK.EXTEND sale h-699 PX 1000",
        "STOCK.ADJUST sale 1",
        "STOCK.ALTER sale LIMIT 1",
        "STOCK.MDECR_ONCE late 1 sale 1",
        "STOCK.MCONFIRM all 1 sale",
        "STOCK.MCANCEL all 1 sale",
    ] {
        client.expect(command, refusal.clone());
    }
}

#[test]
fn a_sale_that_is_loaded_in_parts_decides_nothing_before_the_last_and_loses_nothing() {
    let parts = sale_with_a_cutoff();
    assert!(parts.len() >= 3, "a header and several blocks: {}", parts.len());
    let server = Server::start();
    server.take_effects();
    let mut client = server.client();
    for (nth, part) in parts.iter().enumerate() {
        if nth > 0 {
            let loaded = client.cmd("STOCK.INFO sale").field("orders").int();
            decides_nothing(&mut client, loaded);
            // The timer would have ended holds of the sale by the time when it has ended one of another sale.
            client.expect(format!("STOCK.CREATE other-{nth} 1"), OK);
            client.expect(format!("STOCK.DECR_ONCE other-{nth} ann HOLD 1"), ANY);
            let other = format!("STOCK.INFO other-{nth}");
            eventually("the timer has run", || client.cmd(&*other).field("expired") == Reply::Int(1));
            client.expect("STOCK.INFO sale", ANY).field("orders").is(loaded);
        }
        client.expect(part.clone(), OK);
    }
    eventually("every hold has expired", || client.cmd("STOCK.ORDERS sale 0 STATE held").at(1).items().is_empty());
    let books = books(&mut client, "sale");
    assert_eq!((books.total, books.remaining, books.held, books.sold), (HOLDS, 0, 0, HOLDS));
    assert_eq!(client.cmd("STOCK.INFO sale").field("orders"), Reply::Int(ORDERS));
    client.expect("STOCK.DECR_ONCE sale late", ("SOLDOUT", 0, 0, -1, ""));
    client.expect("STOCK.CONFIRM sale h-699", ("EXPIRED", 0, 0, -1, ""));
}
