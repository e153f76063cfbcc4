//! What replicas and the append-only file are told of sales: what became of every order, and the event in the sale's stream
//! with it, or nothing at all.

use harness::{ANY, INT, OK, Reply, Stage, TEXT, Words, err, eventually, unix_ms};

/// Deadlines in the future as `D`, ids of the stream as `I`.
#[track_caller]
fn readable(mut words: Words) -> String {
    let now = unix_ms();
    for word in &mut words.0 {
        let text = String::from_utf8_lossy(word).into_owned();
        let number = text.strip_suffix("-0").unwrap_or(&text).parse().unwrap_or(0);
        if (now - 60_000..now + 7_300_000).contains(&number) {
            *word = if text.ends_with("-0") { b"I".to_vec() } else { b"D".to_vec() };
        }
    }
    format!("{words:?}")
}

#[test]
fn of_every_change_and_of_nothing_else() {
    let mut stage = Stage::set(readable);
    stage.server.take_effects();
    let mut client = stage.server.client();
    for (request, status, told) in [
        ("DECR_ONCE sale a", "OK", "="),
        ("DECR_ONCE sale a", "DUPLICATE", ""),
        ("DECR_ONCE sale b QTY 2 BUYER ann REF r-1", "OK", "="),
        ("DECR_ONCE sale c BUYER ann", "OK", "="),
        ("DECR_ONCE sale d REF r", "OK", "="),
        ("DECR_ONCE sale e HOLD 3600000", "OK", "TAKEN e 1 D"),
        ("DECR_ONCE sale f HOLD 3600000 BUYER ben REF r", "OK", "TAKEN f 1 D ben r"),
        ("EXTEND sale e PX 7200000", "OK", "EXTENDED e D"),
        ("CONFIRM sale e", "OK", "="),
        ("CONFIRM sale e", "DUPLICATE", ""),
        ("EXTEND sale e PX 7200000", "DUPLICATE", ""),
        ("CANCEL sale e", "OK", "="),
        ("CANCEL sale e", "DUPLICATE", ""),
        ("DECR_ONCE sale e", "CANCELLED", ""),
        ("CONFIRM sale none", "NOORDER", ""),
        ("DECR_ONCE sale g QTY 100", "LIMIT", ""),
        ("DECR_ONCE none g", "NOSTOCK", ""),
    ] {
        if stage.read == 0 {
            client.expect("STOCK.CREATE sale 20 LIMIT 10", OK);
            assert_eq!(stage.told(), ["STOCK.CREATE sale 20 LIMIT 10"]);
        }
        client.expect(format!("STOCK.{request}"), (status, INT, INT, INT, TEXT));
        // Most are told in their own words.
        let told = match told {
            "" => vec![],
            "=" => vec![format!("STOCK.{request}")],
            effect => vec![format!("STOCK.APPLY sale {effect}")],
        };
        assert_eq!(stage.told(), told, "{request}");
    }
    client.expect("STOCK.ADJUST sale 5", INT);
    client.expect("STOCK.ALTER sale LIMIT 3 START 5 REBUY yes", OK);
    assert_eq!(stage.told(), ["STOCK.ADJUST sale 5", "STOCK.APPLY sale ALTERED 3 5 0 yes"]);
    for (refused, answer) in [
        ("STOCK.ADJUST sale -100", err("ERR")),
        ("STOCK.CREATE sale 1", err("BUSYKEY")),
        ("STOCK.ADJUST none 1", err("NOSTOCK")),
        ("STOCK.DECR_ONCE sale z QTY 0", err("ERR")),
        ("STOCK.APPLY sale CONFIRMED nobody", err("ERR the effect is damaged")),
        ("STOCK.APPLY none TAKEN x 1", err("NOSTOCK")),
        ("STOCK.INFO sale", ANY),
        ("STOCK.ORDERS sale 0", ANY),
    ] {
        client.expect(refused, answer);
        assert_eq!(stage.told(), [""; 0], "{refused}");
    }
}

#[test]
fn a_hold_that_lapses_is_told_once_by_the_timer_or_before_the_next_order() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 1", OK);
    client.expect("STOCK.DECR_ONCE sale a HOLD 30", ("OK", 1, 0, INT, ""));
    let over = unix_ms() + 30;
    eventually("the hold lapses without traffic", || {
        unix_ms() > over && client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(1)
    });
    let mut told = stage.told();
    told.drain(..2);
    eventually("it is told", || {
        told.extend(stage.told());
        !told.is_empty()
    });
    assert_eq!(told, ["STOCK.APPLY sale LAPSED a"]);

    // By the timer or by the order that gets the unit: always before it.
    client.expect("STOCK.DECR_ONCE sale b HOLD 1", ("OK", 1, 0, INT, ""));
    eventually("the unit is back", || client.cmd("STOCK.DECR_ONCE sale c").at(0).text() == "OK");
    let told: Vec<String> = stage.told().into_iter().filter(|line| line != "MULTI" && line != "EXEC").collect();
    assert_eq!(told[..2], ["STOCK.APPLY sale TAKEN b 1 D", "STOCK.APPLY sale LAPSED b"]);
    // The order is told in its own words only if nothing else came of it.
    assert!(
        matches!(&told[2..], [c] if c == "STOCK.APPLY sale TAKEN c 1" || c == "STOCK.DECR_ONCE sale c"),
        "{told:?}"
    );
}

#[test]
fn an_event_in_the_stream_and_its_change_stay_together() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events", OK);
    stage.told();
    client.expect("STOCK.DECR_ONCE sale a BUYER b REF r QTY 2", ANY);
    let told = stage.told();
    assert_eq!(
        told,
        [
            "MULTI",
            "XADD events I seq 1 event ok id a units 2 buyer b ref r",
            "STOCK.APPLY sale TAKEN a 2 0 b r",
            "EXEC"
        ]
    );
    // Where the event is refused, nothing happened.
    client.expect("DEL events", 1);
    client.expect("SET events x", OK);
    stage.told();
    let before = stage.server.keys();
    client.expect("STOCK.DECR_ONCE sale c", err("WRONGTYPE the sale's stream does not take the event"));
    client.expect("STOCK.CANCEL sale a", err("WRONGTYPE"));
    assert_eq!(stage.told(), [""; 0]);
    stage.server.keys().are(&before);
    client.expect("DEL events", 1);
    client.expect("STOCK.CANCEL sale a", ("OK", 0, 10, -1, "r"));
    assert_eq!(
        stage.told(),
        [
            "DEL events",
            "MULTI",
            "XADD events I seq 2 event cancel id a units 2 buyer b ref r",
            "STOCK.APPLY sale CANCELLED a",
            "EXEC"
        ]
    );
}

#[test]
fn transactions_and_scripts() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 2", OK);
    stage.told();
    client.pipeline(["MULTI", "STOCK.DECR_ONCE sale a", "STOCK.DECR_ONCE sale a", "STOCK.CANCEL sale a", "EXEC"]);
    assert_eq!(stage.told(), ["MULTI", "STOCK.DECR_ONCE sale a", "STOCK.CANCEL sale a", "EXEC"]);
    let script = "redis.call('STOCK.DECR_ONCE', KEYS[1], 'b') redis.call('LOCK.ACQUIRE', KEYS[2], 'TOKEN', 't') \
                  return redis.call('STOCK.DECR_ONCE', KEYS[1], 'b')";
    client.expect(["EVAL", script, "2", "sale", "lock"], ("DUPLICATE", 1, 1, -1, ""));
    let told = stage.told();
    assert_eq!((told.len(), told[1].as_str()), (4, "STOCK.DECR_ONCE sale b"), "{told:?}");
    assert!(told[2].starts_with("LOCK.APPLY lock HELD t "), "{told:?}");
}

#[test]
fn an_effect_that_is_refused_has_changed_nothing() {
    let mut stage = Stage::set(readable);
    stage.server.take_effects();
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 3", OK);
    stage.told();
    let before = stage.server.keys();
    // One unit for 7 and one more, or nine, for 8: the second order of each block is bad.
    for block in [&b"\x01\x01\x01\x07\x01\x01\x07"[..], b"\x01\x01\x01\x07\x05\x01\x08\x09", b"\x01\x01\x01\x07\x01"] {
        client.expect([&b"STOCK.APPLY"[..], b"sale", b"MORE", block], err("ERR the effect is damaged"));
        stage.server.keys().are(&before);
    }
    assert_eq!(stage.told(), [""; 0]);
    client.expect([&b"STOCK.APPLY"[..], b"sale", b"MORE", b"\x01\x01\x01\x07\x05\x01\x08\x02"], OK);
    client.expect("STOCK.ORDER sale 8", ANY);
    assert_eq!(client.cmd("STOCK.INFO sale").field("sold"), Reply::Int(3));
}
