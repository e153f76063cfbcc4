//! `LOCK.APPLY`, the way in which replicas and files hear of locks: in order, all or nothing, the same however often.

use harness::{ANY, NULL, OK, Server, err};

const LATER: &str = "4102444800000";

#[test]
fn several_effects_happen_in_their_order() {
    let server = Server::start();
    server.take_effects();
    server.expect(
        format!("LOCK.APPLY lock HELD a 5 {LATER} ENDED a HELD b 6 {LATER} SHARED HELD c 7 {LATER} SHARED"),
        OK,
    );
    let info = server.cmd("LOCK.INFO lock");
    assert_eq!((info.field("mode").text(), info.field("holders").items().len()), ("shared".into(), 2));
    server.expect("LOCK.APPLY lock ENDED b LAPSED ENDED c DISCONNECTED", OK);
    server.expect("EXISTS lock", 0);
    // As they would be told again after a link that broke.
    for _ in 0..2 {
        server.expect(format!("LOCK.APPLY lock ENDED a HELD d 8 {LATER} LIMIT 3"), OK);
        server.expect(format!("LOCK.APPLY lock ENDED d LAPSED HELD e 9 {LATER}"), OK);
    }
    server.expect("LOCK.ACQUIRE lock TOKEN f", NULL);
    server.expect("LOCK.RELEASE lock e", 1);
}

#[test]
fn one_bad_effect_and_none_happens() {
    let server = Server::start();
    server.take_effects();
    server.expect("SET string x", OK);
    for bad in [
        "",
        "HELD",
        "ENDED",
        "LOAD",
        "HELD b 6",
        "HELD b 6 0",
        "HELD b -1 7",
        "HELD b 6 7 SHARED LIMIT 2",
        "HELD b 6 7 LIMIT",
        "HELD b 6 7 LIMIT 0",
        "ENDED a RELEASED",
        "ENDED a LAPSED DISCONNECTED",
        "ENDED a SHARED",
        "LOAD nonsense",
        "GRANTED b 6 7",
    ] {
        server.expect(format!("LOCK.APPLY lock HELD a 5 {LATER} {bad}"), if bad.is_empty() { OK } else { err("ERR") });
        server.expect("LOCK.RELEASE lock a", i64::from(bad.is_empty()));
    }
    server.expect("EXISTS lock", 0);
    server.expect(format!("LOCK.APPLY string HELD a 5 {LATER}"), err("WRONGTYPE"));
    server.expect("GET string", ANY);
}
