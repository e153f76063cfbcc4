//! The server forgets what it has told, or tells it no more.

use harness::shop::orders;
use harness::{ANY, Client, OK, Server};

use crate::databases::{Database, Kind};
use crate::support::{EVERYTHING, Outbox, agree, agrees, has_every_event, once, progress, sell, stops, url, written};

/// A sale that every follower knows, and another.
fn known(server: &Server, database: &Database) -> Client {
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    client.expect("STOCK.CREATE other 1000 STREAM others DEADLINES", OK);
    sell(&mut client, "sale", "known", 6);
    sell(&mut client, "other", "known", 2);
    once(server, database, EVERYTHING);
    assert!(agrees(database, &mut client, "sale") && agrees(database, &mut client, "other"));
    client
}

/// It stops as often as it is started, and the tables stay; `--reconcile` mends them, and it goes on.
#[track_caller]
fn stops_and_is_mended(server: &Server, database: &Database, words: &str) {
    let mut client = server.client();
    let before = (progress(database, "sale"), written(database, "sale"));
    for _ in 0..2 {
        stops(server, database, words);
        assert_eq!((progress(database, "sale"), written(database, "sale")), before);
    }
    let said = once(server, database, &[EVERYTHING, &["--reconcile"]].concat());
    assert!(said.contains("sale: compared with STOCK.ORDERS"), "{said}");
    assert_is_what_the_sale_knows(database, &mut client);
    sell(&mut client, "sale", "later", 3);
    once(server, database, EVERYTHING);
    assert_is_what_the_sale_knows(database, &mut client);
}

/// The orders of the sale are in the tables as they are; what else is there is over.
#[track_caller]
fn assert_is_what_the_sale_knows(database: &Database, client: &mut Client) {
    let (sale, mut tables) = (orders(client, "sale"), written(database, "sale"));
    for (id, order) in sale {
        assert_eq!(tables.remove(&id), Some(order), "{id}");
    }
    for (id, order) in tables {
        assert!(["cancelled", "expired"].contains(&order.state.as_str()) && order.units == 0, "{id} {order:?}");
    }
    let seq = client.expect("STOCK.INFO sale", ANY).field("seq").int();
    assert_eq!(progress(database, "sale"), seq);
}

pub fn a_stream_that_was_trimmed_too_early_stops_its_sale_only(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    sell(&mut client, "sale", "lost", 2);
    client.expect("XTRIM events MAXLEN 0", ANY);
    sell(&mut client, "sale", "told", 2);
    sell(&mut client, "other", "told", 2);
    stops(&server, &database, "sale: stopped: events 7 to 8 are missing");
    assert!(agrees(&database, &mut client, "other"));
    stops_and_is_mended(&server, &database, "sale: stopped: events 7 to 8 are missing");
    assert!(agrees(&database, &mut client, "sale"));
}

pub fn an_emptied_stream_stops_its_sale(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    sell(&mut client, "sale", "lost", 1);
    client.expect("DEL events", 1);
    stops_and_is_mended(&server, &database, "sale: stopped: event 7 is missing");
    // A gap in front of the first event that was ever read.
    client.expect("STOCK.CREATE third 10 STREAM thirds", OK);
    sell(&mut client, "third", "lost", 2);
    client.expect("XTRIM thirds MAXLEN 1", ANY);
    stops(&server, &database, "third: stopped: event 1 is missing");
    client.expect("XTRIM thirds MAXLEN 0", ANY);
    stops(&server, &database, "third: stopped: events 1 to 2 are missing");
}

pub fn a_sale_that_was_created_anew_stops_and_is_reconciled(kind: Kind) {
    for (keep, count) in [(true, 0), (true, 3), (true, 9), (false, 0), (false, 6), (false, 9)] {
        let (server, database) = (Server::start(), Database::start(kind));
        let mut client = known(&server, &database);
        client.expect("DEL sale", 1);
        if !keep {
            client.expect("DEL events", 1);
        }
        client.expect("STOCK.CREATE sale 500 STREAM events DEADLINES", OK);
        sell(&mut client, "sale", "new", count);
        sell(&mut client, "sale", "known", count.min(2));
        stops_and_is_mended(&server, &database, "of another past: the sale was deleted and created anew");
        if !keep {
            has_every_event(&database, &mut client, "sale", "events");
        }
    }
}

/// Sells `count` orders of a sale on the stream that another sale had, and of one whose first form had its name and its stream.
fn create_again(client: &mut Client, count: usize) {
    client.expect("STOCK.CREATE next 1000 STREAM others DEADLINES", OK);
    client.expect("STOCK.CREATE twice 1000 STREAM twices DEADLINES", OK);
    sell(client, "twice", "first", 4);
    client.expect("DEL twice", 1);
    client.expect("STOCK.CREATE twice 1000 STREAM twices DEADLINES", OK);
    for sale in ["next", "twice"] {
        sell(client, sale, "new", count);
    }
}

pub fn a_stream_that_an_earlier_sale_had_stops_its_sale(kind: Kind) {
    for count in [0, 1, 5, 9] {
        let (server, database) = (Server::start(), Database::start(kind));
        let mut client = known(&server, &database);
        // The outbox has written all of the one, and nothing of the other.
        client.expect("DEL other", 1);
        create_again(&mut client, count);
        stops(&server, &database, "next: stopped: its stream has ");
        stops(&server, &database, "twice: stopped: its stream has ");
        let rows = database.rows("SELECT count(*) FROM lockstock_orders WHERE sale = 'next' OR sale = 'twice'");
        assert_eq!(rows, [["0"]]);
        once(&server, &database, &[EVERYTHING, &["--reconcile"]].concat());
        for sale in ["next", "twice"] {
            assert!(agrees(&database, &mut client, sale), "{sale} {count}");
            sell(&mut client, sale, "later", 3);
        }
        once(&server, &database, EVERYTHING);
        assert!(agrees(&database, &mut client, "next") && agrees(&database, &mut client, "twice"));
    }
    // The stream went with its sale, or has lost the events of it.
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    client.expect("DEL other others", 2);
    create_again(&mut client, 5);
    client.expect("XTRIM twices MAXLEN 5", 4);
    once(&server, &database, EVERYTHING);
    assert!(agrees(&database, &mut client, "next") && agrees(&database, &mut client, "twice"));
}

pub fn a_sale_that_was_renamed_to_another_stops_and_is_reconciled(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    client.expect("STOCK.CREATE twin 1000 STREAM twins DEADLINES", OK);
    sell(&mut client, "twin", "twin", 6);
    // As if each event of the one had come with one of the other.
    for stream in ["events", "twins"] {
        client.expect(format!("XSETID {stream} 9000000000000-0"), OK);
    }
    sell(&mut client, "sale", "last", 2);
    sell(&mut client, "twin", "last", 2);
    once(&server, &database, EVERYTHING);
    client.expect("RENAME twin sale", OK);
    stops_and_is_mended(
        &server,
        &database,
        "sale: stopped: the tables have event 8 and the server is at 8 of another past",
    );
    assert_eq!(database.rows("SELECT «stream» FROM lockstock_sales WHERE sale = 'sale'"), [["twins"]]);
}

pub fn tables_without_the_stream_go_on(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    let mut goes_on = |url: &str| {
        database.change("ALTER TABLE lockstock_sales DROP COLUMN stream");
        let before = written(&database, "sale").len();
        sell(&mut client, "sale", &format!("new-{before}"), 3);
        let ended = Outbox::at(&self::url(&server), url, &[EVERYTHING, &["--once"]].concat()).ended();
        assert_eq!(ended.status, Some(0), "{ended:?}");
        assert!(agrees(&database, &mut client, "sale") && agrees(&database, &mut client, "other"));
        assert_eq!(written(&database, "sale").len(), before + 3);
        has_every_event(&database, &mut client, "sale", "events");
    };
    goes_on(&database.url());
    let streams = "SELECT «stream» FROM lockstock_sales ORDER BY sale";
    assert_eq!(database.rows(streams), [["others"], ["events"]]);
    if kind == Kind::Postgres {
        // Whose user may not add it.
        database.change("CREATE ROLE weak LOGIN");
        database.change("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO weak");
        goes_on(&database.url().replace("postgres@", "weak@"));
        assert!(database.try_rows(streams).is_err());
    }
}

pub fn a_promotion_that_lost_changes_stops_and_is_reconciled(kind: Kind) {
    // What the old primary told is older than what the new one tells, or, where clocks differ, newer.
    for (ahead, count) in [(false, 20), (true, 20), (true, 6), (true, 2), (false, 2)] {
        let mut primary = Server::start();
        let replica = Server::builder().replica_of(&primary).start();
        let database = Database::start(kind);
        replica.wait_in_sync(&primary);
        let mut client = known(&primary, &database);
        replica.wait_in_sync(&primary);
        replica.expect("REPLICAOF 127.0.0.1 1", OK);
        if ahead {
            client.expect("XSETID events 9000000000000-0", OK);
        }
        sell(&mut client, "sale", "lost", 4);
        client.expect("STOCK.CONFIRM sale known-1", ANY);
        client.expect("STOCK.CANCEL sale known-2", ANY);
        once(&primary, &database, EVERYTHING);
        primary.kill9();
        replica.promote();
        let mut client = replica.client();
        sell(&mut client, "sale", "new", count);
        stops_and_is_mended(&replica, &database, "sale: stopped: ");
        has_every_event(&database, &mut client, "sale", "events");
    }
}

pub fn a_start_from_an_old_file_stops_and_is_reconciled(kind: Kind) {
    for count in [2, 4, 9] {
        let (mut server, database) = (Server::start(), Database::start(kind));
        let mut client = known(&server, &database);
        client.expect("SAVE", OK);
        sell(&mut client, "sale", "lost", 4);
        once(&server, &database, EVERYTHING);
        server.kill9();
        server.start_again();
        // As many as there were, fewer, and more.
        let mut client = server.client();
        sell(&mut client, "sale", "new", count);
        stops_and_is_mended(&server, &database, "sale: stopped: ");
        has_every_event(&database, &mut client, "sale", "events");
    }
}

pub fn a_promotion_that_lost_nothing_is_followed(kind: Kind) {
    let mut primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    let database = Database::start(kind);
    let mut client = known(&primary, &database);
    // Two nodes of one Sentinel would do the same: the address of the primary changes.
    let outbox = Outbox::at(&url(&primary), &database.url(), EVERYTHING);
    sell(&mut client, "sale", "more", 4);
    agree(&database, &mut client, "sale");
    replica.wait_in_sync(&primary);
    primary.kill9();
    replica.promote();
    let mut client = replica.client();
    sell(&mut client, "sale", "new", 4);
    outbox.says("the server is away");
    outbox.end();
    once(&replica, &database, EVERYTHING);
    assert!(agrees(&database, &mut client, "sale"));
    has_every_event(&database, &mut client, "sale", "events");
}

pub fn what_differs_is_mended(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    for statement in [
        "UPDATE lockstock_orders SET units = 7, state = 'sold' WHERE sale = 'sale' AND id = 'known-1'",
        "UPDATE lockstock_orders SET state = 'nonsense' WHERE sale = 'sale' AND id = 'known-2'",
        "UPDATE lockstock_orders SET id = 'strange' WHERE sale = 'sale' AND id = 'known-3'",
    ] {
        database.change(statement);
    }
    // Without being asked it does not look.
    once(&server, &database, EVERYTHING);
    assert!(!agrees(&database, &mut client, "sale"));
    let said = once(&server, &database, &[EVERYTHING, &["--reconcile"]].concat());
    assert!(said.contains("sale: compared with STOCK.ORDERS: 3 orders mended, 1 cancelled"), "{said}");
    assert!(said.contains("other: compared with STOCK.ORDERS: 0 orders mended, 0 cancelled"), "{said}");
    assert_is_what_the_sale_knows(&database, &mut client);
    // One that runs mends what comes up.
    let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--reconcile"]].concat());
    outbox.says("other: compared");
    outbox.says("sale: compared");
    outbox.signal(rustix::process::Signal::STOP);
    sell(&mut client, "sale", "lost", 2);
    client.expect("XTRIM events MAXLEN 0", ANY);
    outbox.signal(rustix::process::Signal::CONT);
    outbox.says("sale: events 7 to 8 are missing");
    harness::eventually("it is mended", || progress(&database, "sale") == 8);
    assert_is_what_the_sale_knows(&database, &mut client);
    outbox.end();
}

/// So many that the comparison lasts until the outbox is frozen.
const ORDERS: usize = 20_000;

pub fn a_sale_that_is_deleted_while_it_is_compared_keeps_its_orders(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000000 STREAM events DEADLINES", OK);
    client.pipeline((0..ORDERS).map(|number| format!("STOCK.DECR_ONCE sale {number}")));
    once(&server, &database, &["--sale", "*", "--batch", "10000"]);
    let outbox = Outbox::start(&server, &database, &["--sale", "*", "--reconcile"]);
    harness::eventually("it reads the orders", || server.info("commandstats").contains_key("cmdstat_stock.orders"));
    outbox.signal(rustix::process::Signal::STOP);
    client.expect("DEL sale", 1);
    outbox.signal(rustix::process::Signal::CONT);
    outbox.says("sale: the sale was deleted, and all that its stream tells is written");
    let said = outbox.end();
    assert!(!said.contains("is away"), "{said}");
    let sold = database.rows("SELECT count(*) FROM lockstock_orders WHERE state = 'sold'");
    assert_eq!(sold, [[ORDERS.to_string()]]);
}

pub fn what_is_no_event_is_named(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = known(&server, &database);
    let foreign = client.cmd("XADD events * some thing").text();
    sell(&mut client, "sale", "new", 1);
    let ended = Outbox::start(&server, &database, &["--sale", "*", "--once"]).ended();
    assert_eq!(ended.status, Some(1), "{ended:?}");
    let words = format!("sale: stopped: the entry {foreign} of its stream is no event of a sale");
    assert!(ended.said.contains(&words), "{ended:?}");
    client.expect(["XDEL", "events", &foreign], 1);
    once(&server, &database, EVERYTHING);
    assert!(agrees(&database, &mut client, "sale"));
}
