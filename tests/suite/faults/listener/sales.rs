//! Sales, while another module listens.

use harness::shop::{Replay, books, events};
use harness::{ANY, INT, OK, Server, TEXT, Want, err, eventually};

use super::scene::Scene;
use super::story::Act::{Call, Lease};
use super::story::{Story, story};

const LOOKS: [&str; 4] = ["STOCK.INFO s-#", "STOCK.ORDERS s-# 0", "STOCK.CONFIRM s-# nobody", "LISTENER.TWIN s-# o-#"];
const BUYS: [&str; 7] = [
    "STOCK.DECR_ONCE s-# z HOLD 100",
    "STOCK.DECR_ONCE s-# a HOLD 100",
    "STOCK.CANCEL s-# a",
    "STOCK.CONFIRM s-# a",
    "STOCK.EXTEND s-# a PX 100",
    "STOCK.ADJUST s-# 1",
    "STOCK.ALTER s-# END 1",
];
const TAKES_KEYS_AWAY: [&str; 11] = [
    "DEL s-#",
    "DEL e-#",
    "DEL @",
    "RENAME s-# o-#",
    "RENAME e-# o-#",
    "RENAME @ o-#",
    "MOVE s-# 1",
    "SET s-# text",
    "EXPIRE s-# -1",
    "XTRIM e-# MAXLEN 0",
    "COPY e-# o-#",
];
const DOES_AWAY_WITH_ALL: [&str; 3] = ["FLUSHALL", "FLUSHDB ASYNC", "SWAPDB 0 1"];
/// What it does in the middle of an XADD, which is sent to replicas and files after whatever it does there.
const MEANWHILE: [&str; 7] = [
    "STOCK.INFO s-#",
    "STOCK.DECR_ONCE s-# z HOLD 100",
    "STOCK.CANCEL s-# a",
    "STOCK.ADJUST s-# -1",
    "DEL s-#",
    "SET s-# text",
    "EXPIRE s-# -1",
];

const SALE: &str = "STOCK.CREATE s-# 2 REBUY STREAM e-# DEADLINES";
const NO_STREAM: &str = "STOCK.CREATE s-# 2 REBUY";

fn ok() -> Want {
    ("OK", INT, INT, INT, TEXT).into()
}

fn three() -> Want {
    3.into()
}

const SALES: [Story; 10] = [
    story("sell", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a", ok)),
    story("sell without a stream", &[NO_STREAM], &[], Call("STOCK.DECR_ONCE s-# a", ok)),
    story("sell the last", &[SALE, "STOCK.DECR_ONCE s-# b"], &[], Call("STOCK.DECR_ONCE s-# a", ok)),
    story("hold and lapse", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a QTY 2 HOLD 100", ok)),
    story("lapse", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 300", "STOCK.DECR_ONCE s-# b HOLD 300"], &[], Lease),
    story("lapse without a stream", &[NO_STREAM, "STOCK.DECR_ONCE s-# a QTY 2 HOLD 300"], &[], Lease),
    story("confirm", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3000"], &[], Call("STOCK.CONFIRM s-# a", ok)),
    story("cancel", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a", ok)),
    story("extend", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3000"], &[], Call("STOCK.EXTEND s-# a PX 100", ok)),
    story("adjust", &[SALE], &[], Call("STOCK.ADJUST s-# 1", three)),
];

/// Requests to two sales, each with its stream.
const CARTS: [Story; 5] = [
    story("take", &[SALE, OTHER], &[], Call("STOCK.MDECR_ONCE a 2 s-# 1 t-# 1", cart)),
    story("hold", &[SALE, OTHER], &[], Call("STOCK.MDECR_ONCE a 2 t-# 2 s-# 1 HOLD 100", cart)),
    story("confirm", &[SALE, OTHER, HOLD_BOTH], &[], Call("STOCK.MCONFIRM a 2 s-# t-#", cart)),
    story("cancel", &[SALE, OTHER, HOLD_BOTH], &[], Call("STOCK.MCANCEL a 2 t-# s-#", cart)),
    story("beside one without a stream", &[NO_STREAM, OTHER], &[], Call("STOCK.MDECR_ONCE a 2 s-# 1 t-# 1", cart)),
];
const OTHER: &str = "STOCK.CREATE t-# 2 REBUY STREAM f-# DEADLINES";
const HOLD_BOTH: &str = "STOCK.MDECR_ONCE a 2 s-# 1 t-# 1 HOLD 3000";

fn cart() -> Want {
    ("OK", ANY, ANY).into()
}

#[test]
fn that_are_bought_from_together_while_it_looks() {
    Scene::set("MODULE").play_quietly(&CARTS, &LOOKS);
}

#[test]
fn that_are_bought_from_together_while_it_buys() {
    Scene::set("MODULE").play(&CARTS, &BUYS);
}

#[test]
fn that_are_bought_from_together_and_whose_keys_it_takes_away() {
    Scene::set("MODULE").play(&CARTS, &TAKES_KEYS_AWAY);
}

#[test]
fn that_are_bought_from_together_while_it_does_away_with_everything() {
    Scene::set("MODULE").play_singly(&CARTS, &DOES_AWAY_WITH_ALL);
}

#[test]
fn that_are_bought_from_together_and_whose_events_are_being_appended() {
    Scene::set("SERVER").play(&CARTS, &MEANWHILE);
}

/// Those with a stream.
const TOLD: [Story; 5] = [
    story("sell", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a", ok)),
    story("sell the last", &[SALE, "STOCK.DECR_ONCE s-# b"], &[], Call("STOCK.DECR_ONCE s-# a", ok)),
    story("lapse", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 300", "STOCK.DECR_ONCE s-# b HOLD 300"], &[], Lease),
    story("confirm", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3000"], &[], Call("STOCK.CONFIRM s-# a", ok)),
    story("cancel", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a", ok)),
];

#[test]
fn that_it_looks_at() {
    Scene::set("MODULE").play_quietly(&SALES, &LOOKS);
}

#[test]
fn that_it_buys_from() {
    Scene::set("MODULE").play(&SALES, &BUYS);
}

#[test]
fn whose_keys_it_takes_away() {
    Scene::set("MODULE").play(&SALES, &TAKES_KEYS_AWAY);
}

#[test]
fn while_it_does_away_with_everything() {
    Scene::set("MODULE").play_singly(&SALES, &DOES_AWAY_WITH_ALL);
}

#[test]
fn whose_events_are_being_appended() {
    Scene::set("SERVER").play(&TOLD, &MEANWHILE);
}

#[test]
fn that_it_sells_from_itself() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events", OK);
    client.expect("LISTENER.CALL STOCK.DECR_ONCE sale ann HOLD 3600000", ("OK", 1, 9, INT, ""));
    client.expect("LISTENER.CALL STOCK.CONFIRM sale ann", ("OK", 1, 9, -1, ""));
    client.expect("LISTENER.CALL STOCK.ADJUST sale 5", 14);
    client.expect("LISTENER.LATER STOCK.DECR_ONCE sale bob", OK);
    eventually("it has sold in its timer", || books(&mut client, "sale").sold == 2);
    Replay::of(10, &events(&mut client, "events")).agrees_with(&mut client, "sale");
    // A client's rules are asked where it is the client who calls.
    server.expect("ACL SETUSER user reset on nopass ~sale +@all", OK);
    client.expect("AUTH user any", OK);
    client.expect("STOCK.DECR_ONCE sale cid", err("NOPERM"));
}
