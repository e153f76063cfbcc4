//! Valkey's import mode: a server that is being filled by a copying tool decides nothing by itself, as it expires no keys. Servers
//! that know no such mode are not asked.

use std::time::Duration;

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Tap, Words, eventually, unix_ms};

use crate::support::line::Line;

/// A server in import mode, if it can be.
fn importing() -> Option<Server> {
    let server = Server::start();
    let mode = server.cmd("CONFIG SET import-mode yes");
    if mode.is_error() {
        return None;
    }
    Some(server)
}

/// A connection of the tool that copies.
fn source_of(server: &Server) -> Client {
    let mut client = server.client();
    client.expect("CLIENT IMPORT-SOURCE ON", OK);
    client
}

/// Copies `keys` as they are.
#[track_caller]
fn copy(from: &mut Client, to: &mut Client, keys: &[&str]) {
    for key in keys {
        let dump = from.cmd(["DUMP", key]).bytes();
        to.expect([&b"RESTORE"[..], key.as_bytes(), b"0", &dump], OK);
    }
}

/// Carries out what a primary sent to its replicas; nothing of it is refused.
#[track_caller]
fn carry_over(sent: Vec<Words>, to: &mut Client) {
    for words in sent {
        let reply = to.cmd(&words);
        let failed = |reply: &Reply| {
            reply.is_error() || matches!(reply, Reply::Array(items) if items.iter().any(Reply::is_error))
        };
        assert!(!failed(&reply), "{words:?}: {reply:?}");
    }
}

#[test]
fn a_server_that_is_being_filled_leaves_every_decision_to_its_source() {
    let Some(target) = importing() else { return };
    let source = Server::start();
    let (mut shop, mut tool) = (source.client(), source_of(&target));
    shop.expect("STOCK.CREATE sale 3 STREAM events", OK);
    // One is extended just before its end, one confirmed, and one lapses.
    for id in ["extended", "confirmed", "lapses"] {
        shop.expect(format!("STOCK.DECR_ONCE sale {id} HOLD 3000"), ("OK", 1, INT, INT, ""));
    }
    shop.expect("LOCK.ACQUIRE renewed TOKEN t PX 3000", ANY);
    shop.expect("LOCK.ACQUIRE lapses TOKEN t PX 3000", ANY);
    let over = unix_ms() + 3_000;
    copy(&mut shop, &mut tool, &["sale", "events", "renewed", "lapses"]);
    let mut tap = Tap::attach(&source);
    shop.expect("STOCK.EXTEND sale extended PX 3600000", ("OK", 1, 0, INT, ""));
    shop.expect("STOCK.CONFIRM sale confirmed", ("OK", 1, 0, -1, ""));
    shop.expect("LOCK.EXTEND renewed t PX 3600000", 1);
    eventually("the others are over at the source", || {
        source.info_int("lockstock", "lockstock_stock_lapses") + source.info_int("lockstock", "lockstock_lock_lapses")
            == 2
    });
    eventually("long enough for the target, too", || unix_ms() > over + 300);
    // Which has left everything as it was.
    let mut line = Line::at(&target);
    assert_eq!(["lock_lapses", "stock_lapses"].map(|field| line.count(field)), [0, 0]);
    assert_eq!(tool.cmd("XLEN events").int(), 3);
    carry_over(tap.drain(), &mut tool);
    assert_eq!(target.digest(), source.digest());
    Replay::of(3, &events(&mut tool, "events")).agrees_with(&mut tool, "sale");
    assert_eq!(books(&mut tool, "sale").held, 1);

    // From the end of the import on, the target decides, and all that is due by then is done at once.
    tool.expect("CONFIG SET import-mode no", OK);
    let mut client = target.client();
    client.expect("STOCK.DECR_ONCE sale late", ("OK", 1, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale later", ("SOLDOUT", 0, 0, -1, ""));
    client.expect("STOCK.EXTEND sale extended PX 1", ("OK", 1, INT, INT, ""));
    line.until("stock_lapses", 1);
}

#[test]
fn what_fell_due_during_an_import_is_done_when_it_ends() {
    let Some(server) = importing() else { return };
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    let deadline = client.expect("STOCK.DECR_ONCE sale ann HOLD 100", ("OK", 1, 0, INT, "")).at(3).int();
    let mut line = Line::at(&server);
    let mut waiter = line.join_behind(&mut client, 100);
    let mut tied = server.client();
    tied.expect("LOCK.ACQUIRE tied TOKEN t PX 3600000 SESSION", ANY);
    tied.close();
    assert_eq!(waiter.try_read(Duration::from_millis(400)), None);
    assert!(unix_ms() > deadline);
    assert_eq!((line.count("lock_lapses"), client.cmd("XLEN events").int()), (0, 1));
    assert_eq!(line.holders("tied"), [""; 0], "its connection is gone, and INFO knows");
    assert_eq!(client.cmd("EXISTS tied").int(), 1);
    client.expect("CONFIG SET import-mode no", OK);
    waiter.read().is(("waiter", INT, 60_000));
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 2);
    eventually("the session ends", || client.cmd("EXISTS tied").int() == 0);

    // A second time, in the middle of the server's life.
    client.expect("CONFIG SET import-mode yes maxmemory-samples 6", OK);
    client.expect("LOCK.ACQUIRE short TOKEN t PX 1", ANY);
    let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    // What a client asks for is done as ever.
    waiter.expect("LOCK.RELEASE lock waiter", 1);
    next.read().is(("next", INT, 30_000));
    client.expect("LOCK.ACQUIRE lock TOKEN nobody WAIT 50", NULL);
    client.expect("LOCK.ACQUIRE lock TOKEN notified WAIT 50 NOTIFY news", 1);
    line.until("lock_timeouts", 2);
    assert_eq!(client.cmd("EXISTS short").int(), 1);
    client.expect("CONFIG SET import-mode no", OK);
    eventually("the lease ends", || client.cmd("EXISTS short").int() == 0);
}

#[test]
fn who_waits_for_stock_is_served_when_an_import_ends() {
    let Some(server) = importing() else { return };
    let mut client = server.client();
    let start = unix_ms() + 2_000;
    for (sale, hold) in [("lapses", "HOLD 1500"), ("starts", "")] {
        client.expect(format!("STOCK.CREATE {sale} 1 STREAM events:{sale}"), OK);
        client.expect(format!("STOCK.DECR_ONCE {sale} ann {hold}"), ("OK", 1, 0, INT, ""));
        client.expect(format!("STOCK.DECR_ONCE {sale} ben WAITLIST"), ("QUEUED", 0, 0, -1, ""));
    }
    client.expect(format!("STOCK.ALTER starts START {start}"), OK);
    client.expect("STOCK.CANCEL starts ann", ("OK", 0, 1, -1, ""));
    eventually("long enough", || unix_ms() > start + 100);
    for (sale, told) in [("lapses", 2), ("starts", 3)] {
        client.expect(format!("XLEN events:{sale}"), told);
        assert_eq!(client.cmd(["STOCK.INFO", sale]).field("waiting").int(), 1, "{sale}");
    }
    client.expect("CONFIG SET import-mode no", OK);
    for sale in ["lapses", "starts"] {
        eventually(sale, || client.cmd(["STOCK.INFO", sale]).field("waiting").int() == 0);
        client.expect(format!("XLEN events:{sale}"), 4);
    }
}

#[test]
fn an_import_may_begin_with_the_server() {
    if importing().is_none() {
        return;
    }
    let server = Server::builder().config("import-mode yes").start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 600000", ANY);
    let mut waiter = Line::at(&server).join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    client.expect("LOCK.EXTEND lock t PX 50", 1);
    assert_eq!(waiter.try_read(Duration::from_millis(300)), None);
    client.expect("CONFIG SET import-mode no", OK);
    waiter.read().is(("waiter", INT, 30_000));
}

#[test]
fn a_server_that_cannot_be_asked_for_the_mode_says_so() {
    if importing().is_none() {
        return;
    }
    let server = Server::builder().config("rename-command CONFIG \"\"").start();
    let told =
        "lockstock: CONFIG is renamed or disabled (rename-command): in import mode lockstock ends holds by itself";
    assert_eq!(server.log().matches(told).count(), 1, "{}", server.log());
}

#[test]
fn who_waits_during_an_import_is_served_after_it_if_the_source_has_made_room() {
    let Some(target) = importing() else { return };
    let (mut tool, mut line) = (source_of(&target), Line::at(&target));
    tool.expect(format!("LOCK.APPLY lock HELD t 5 {}", unix_ms() + 3_600_000), OK);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    tool.expect("LOCK.APPLY lock ENDED t", OK);
    assert_eq!(waiter.try_read(Duration::from_millis(300)), None);
    tool.expect("CONFIG SET import-mode no", OK);
    waiter.read().is(("waiter", INT, 30_000));
}
