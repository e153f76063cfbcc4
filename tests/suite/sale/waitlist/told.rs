//! What streams, replicas and files are told of a line, and what becomes of it if they cannot be.

use harness::{ANY, INT, OK, Server, Stage, TEXT, Words, err, eventually, unix_ms};

use super::{HOUR, line, number, order, told};

/// Deadlines in the future as `D`, ids of the stream as `I`.
#[track_caller]
fn readable(mut words: Words) -> String {
    let now = unix_ms();
    for word in &mut words.0 {
        let text = String::from_utf8_lossy(word).into_owned();
        let (number, id) = text.split_once('-').map_or((&*text, false), |(number, _)| (number, true));
        if (now - 60_000..now + 7_300_000).contains(&number.parse().unwrap_or(0)) {
            *word = if id { b"I".to_vec() } else { b"D".to_vec() };
        }
    }
    format!("{words:?}")
}

#[test]
fn what_replicas_and_files_are_told() {
    let mut stage = Stage::set(readable);
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 3", OK);
    client.expect("STOCK.DECR_ONCE sale a QTY 3", ANY);
    stage.told();
    for (request, told) in [
        ("DECR_ONCE sale b WAITLIST", &["WAITING b 1"][..]),
        ("DECR_ONCE sale c QTY 2 HOLD 3600000 WAITLIST", &["WAITING c 2 3600000"]),
        ("DECR_ONCE sale d BUYER ann REF r WAITLIST", &["WAITING d 1 0 ann r"]),
        ("DECR_ONCE sale d BUYER ann REF r WAITLIST", &[]),
        ("CANCEL sale d", &["CANCELLED d"]),
        ("CANCEL sale a", &["CANCELLED a", "SERVED b", "SERVED c D"]),
    ] {
        client.expect(format!("STOCK.{request}"), (TEXT, INT, INT, INT, TEXT));
        let told: Vec<_> = told.iter().map(|told| format!("STOCK.APPLY sale {told}")).collect();
        let heard: Vec<_> = stage.told().into_iter().filter(|line| line != "MULTI" && line != "EXEC").collect();
        assert_eq!(heard, told, "{request}");
    }
    stage.server.take_effects();
    for damaged in
        ["SERVED b", "SERVED nobody", "WAITING e 4", "WAITING e 0", "WAITING c 1", "WAITING e 1 -1", "SERVED b 1 2"]
    {
        client.expect(format!("STOCK.APPLY sale {damaged}"), err("ERR"));
    }
    client.expect("STOCK.APPLY none WAITING x 1", err("NOSTOCK"));
    client.expect("STOCK.APPLY sale WAITING e 2 5 bob", OK);
    assert_eq!(order(&mut client, "e"), "state waiting units 0 buyer bob ref  deadline -1 place 1");
}

/// All events of a step or none: here the stream has room for one more, and the step needs two.
#[test]
fn a_step_whose_events_do_not_all_fit_is_not_done() {
    for (step, back) in [("STOCK.CANCEL sale a", 0), ("STOCK.ADJUST sale 1", 1)] {
        let server = Server::start();
        let mut client = server.client();
        client.expect("STOCK.CREATE sale 1 STREAM events", OK);
        client.expect("STOCK.DECR_ONCE sale a", ("OK", 1, 0, -1, ""));
        client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("QUEUED", 0, 0, -1, ""));
        client.expect("XADD events 18446744073709551615-18446744073709551614 x y", TEXT);
        let before = (client.cmd("DUMP sale"), client.cmd("XLEN events"));
        client.expect(step, err("ERR the sale's stream does not take the event, so nothing was done"));
        assert_eq!((client.cmd("DUMP sale"), client.cmd("XLEN events")), before, "{step}");
        assert_eq!(line(&mut client), ["b"]);
        client.expect("DEL events", 1);
        client.expect(step, ANY);
        assert_eq!((number(&mut client, "waiting"), number(&mut client, "remaining")), (0, 0), "{back}");
        assert_eq!(client.cmd("XLEN events").int(), 2);
    }
}

/// A lapse whose events do not fit is tried again, and what it frees is nobody's meanwhile.
#[test]
fn a_lapse_that_the_stream_refuses_is_made_up_for() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a HOLD 60000", ("OK", 1, 0, INT, ""));
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect("XADD events 18446744073709551615-18446744073709551614 x y", TEXT);
    client.expect("STOCK.EXTEND sale a PX 1", ("OK", 1, 0, INT, ""));
    eventually("the hold is due", || number(&mut client, "remaining") == 1);
    eventually("the log says so", || server.log().contains("are due and wait"));
    client.expect("STOCK.DECR_ONCE sale c", ("SOLDOUT", 0, 1, -1, ""));
    client.expect("STOCK.CONFIRM sale a", err("ERR the sale's stream does not take the event"));
    assert_eq!((line(&mut client), client.cmd("XLEN events").int()), (vec!["b".into()], 3));
    client.expect("DEL events", 1);
    eventually("it is made up for", || number(&mut client, "waiting") == 0);
    assert_eq!(told(&mut client), ["3 expire a 1 a ", "4 ok b 1 b "]);
}

/// So is the beginning of the sale for the line, and the log names the sale whose line is kept waiting.
#[test]
fn a_start_that_the_stream_refuses_is_made_up_for() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale a", ("OK", 1, 0, -1, ""));
    client.expect("STOCK.DECR_ONCE sale b WAITLIST", ("QUEUED", 0, 0, -1, ""));
    client.expect(format!("STOCK.ALTER sale START {}", unix_ms() + HOUR), OK);
    client.expect("STOCK.CANCEL sale a", ("OK", 0, 1, -1, ""));
    client.expect("XADD events 18446744073709551615-18446744073709551615 x y", TEXT);
    client.expect(format!("STOCK.ALTER sale START {}", unix_ms() + 50), OK);
    let said = "orders on the waitlist of the sale sale cannot be served: ";
    eventually("the log says so", || server.log().contains(said));
    assert!(!server.log().contains("are due and wait"), "no hold is due");
    assert_eq!(line(&mut client), ["b"]);
    client.expect("DEL events", 1);
    eventually("it is made up for", || number(&mut client, "waiting") == 0);
    assert_eq!(told(&mut client), ["4 ok b 1 b "]);
}
