//! What streams, replicas and files are told of carts, and what becomes of a cart if they cannot be.

use harness::shop::events;
use harness::{ANY, OK, Server, Stage, Words, err, unix_ms};

use super::{cart, mall, streams_agree};

/// Ids of the stream and times as such.
fn readable(mut words: Words) -> String {
    let now = unix_ms();
    for word in &mut words.0 {
        let text = String::from_utf8_lossy(word).into_owned();
        let number = text.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        if (now - 60_000..now + 120_000).contains(&number) {
            *word = if text.contains('-') { b"I".to_vec() } else { b"T".to_vec() };
        }
    }
    format!("{words:?}")
}

#[test]
fn replicas_and_the_file_are_told_of_all_of_it_in_one_step() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    // Two of the sales share a stream.
    client.expect("STOCK.CREATE one 5 STREAM shared", OK);
    client.expect("STOCK.CREATE two 5", OK);
    client.expect("STOCK.CREATE three 5 STREAM shared DEADLINES", OK);
    stage.told();
    client.expect("STOCK.MDECR_ONCE o 3 one 1 two 2 three 3 HOLD 60000", cart("OK", [ANY, ANY, ANY]));
    stage.tells(&[
        "MULTI",
        "XADD shared I seq 1 event ok id o units 1 buyer o ref \"\"",
        "XADD shared I seq 1 event ok id o units 3 buyer o ref \"\" deadline T",
        "STOCK.APPLY one TAKEN o 1 T",
        "STOCK.APPLY two TAKEN o 2 T",
        "STOCK.APPLY three TAKEN o 3 T",
        "EXEC",
    ]);
    client.expect("STOCK.MDECR_ONCE p 2 two 1 one 9", cart("INSUFFICIENT", [ANY, ANY]));
    stage.tells(&[]);
    client.expect("STOCK.MCONFIRM o 2 three one", cart("OK", [ANY, ANY]));
    stage.tells(&[
        "MULTI",
        "XADD shared I seq 2 event confirm id o units 3 buyer o ref \"\" deadline -1",
        "XADD shared I seq 2 event confirm id o units 1 buyer o ref \"\"",
        "STOCK.APPLY three CONFIRMED o",
        "STOCK.APPLY one CONFIRMED o",
        "EXEC",
    ]);
    client.expect("STOCK.MCANCEL o 2 two none", cart("OK", [ANY, ANY]));
    stage.tells(&["STOCK.APPLY two CANCELLED o"]);
    client.pipeline(["MULTI", "STOCK.MDECR_ONCE q 2 one 1 two 1", "STOCK.MCANCEL q 2 one two", "EXEC"]);
    let told = stage.told();
    assert_eq!((told.len(), &*told[0], &*told[7]), (8, "MULTI", "EXEC"), "{told:?}");
}

#[test]
fn if_one_event_cannot_be_appended_nothing_is_taken_anywhere() {
    let server = Server::start();
    let replica = Server::builder().replica_of(&server).start();
    let mut client = server.client();
    mall(&mut client, 5, "DEADLINES");
    client.expect("STOCK.CREATE four 5", OK);
    client.expect("STOCK.MDECR_ONCE known 3 one 1 two 1 three 1 HOLD 60000", cart("OK", [ANY, ANY, ANY]));
    let calls = [
        "MDECR_ONCE new 4 one 1 four 1 two 1 three 1",
        "MCONFIRM known 3 one two three",
        "MCANCEL known 3 one two three",
    ];
    // Of another type, another sale, and one that takes nothing more.
    let spoil: [(&[&str], &str); 3] = [
        (
            &["SET three:events x"],
            "WRONGTYPE the sale's stream does not take the event, so nothing was done: Operation against",
        ),
        (&["STOCK.CREATE three:events 5"], "WRONGTYPE the sale's stream does not take the event"),
        (
            &["XADD three:events 18446744073709551615-18446744073709551615 a b"],
            "ERR the sale's stream does not take the event, so nothing was done: The stream has exhausted",
        ),
    ];
    for (how, fault) in spoil {
        client.expect("RENAME three:events aside", OK);
        for step in how {
            client.expect(*step, ANY);
        }
        let told = ["one:events", "two:events"].map(|stream| events(&mut client, stream).len());
        let before: Vec<_> = ["one", "two", "three", "four"].map(|sale| client.cmd(["DUMP", sale]).bytes()).into();
        for call in calls {
            client.expect(format!("STOCK.{call}"), err(fault));
            let after: Vec<_> = ["one", "two", "three", "four"].map(|sale| client.cmd(["DUMP", sale]).bytes()).into();
            assert_eq!(after, before, "{call}");
        }
        assert_eq!(["one:events", "two:events"].map(|stream| events(&mut client, stream).len()), told, "{fault}");
        client.expect("RENAME aside three:events", OK);
    }
    for call in calls {
        client.expect(format!("STOCK.{call}"), ANY).at(0).clone().is("OK");
    }
    streams_agree(&mut client, 5);
    replica.wait_in_sync(&server);
    assert_eq!(replica.digest(), server.digest());
}

#[test]
fn if_who_is_served_cannot_be_told_of_nothing_is_cancelled() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE one 1 STREAM one:events", OK);
    client.expect("STOCK.CREATE two 1 STREAM two:events", OK);
    client.expect("STOCK.MDECR_ONCE a 2 one 1 two 1", cart("OK", [ANY, ANY]));
    client.expect("STOCK.DECR_ONCE one b WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE two c WAITLIST", ("QUEUED", 0, 0, -1, ""));
    // There is room for one more entry in the second stream, and not for two.
    client.expect("XADD two:events 18446744073709551615-18446744073709551614 a b", ANY);
    stage.told();
    client.expect("STOCK.MCANCEL a 2 one two", err("ERR the sale's stream does not take the event"));
    for (sale, state) in [("one a", "sold"), ("two a", "sold"), ("one b", "waiting"), ("two c", "waiting")] {
        client.expect(format!("STOCK.ORDER {sale}"), ANY).field("state").clone().is(state);
    }
    assert_eq!(events(&mut client, "one:events").len(), 2);
    client.expect("XLEN two:events", 3);
    client.expect("DEL two:events", 1);
    stage.told();
    client.expect("STOCK.MCANCEL a 2 one two", cart("OK", [("OK", 0, 0, -1, ""), ("OK", 0, 0, -1, "")]));
    stage.tells(&[
        "MULTI",
        "XADD one:events I seq 3 event cancel id a units 1 buyer a ref \"\"",
        "XADD one:events I seq 4 event ok id b units 1 buyer b ref \"\"",
        "XADD two:events I seq 3 event cancel id a units 1 buyer a ref \"\"",
        "XADD two:events I seq 4 event ok id c units 1 buyer c ref \"\"",
        "STOCK.APPLY one CANCELLED a",
        "STOCK.APPLY one SERVED b",
        "STOCK.APPLY two CANCELLED a",
        "STOCK.APPLY two SERVED c",
        "EXEC",
    ]);
}
