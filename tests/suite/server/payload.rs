//! Payloads that are damaged, cut short, forged or from the future: refused with one clear line, and the server lives.

use harness::{Client, INT, OK, Payload, Reply, Server, err, eventually, sealed};

use crate::support::scene::Scene;

/// A server whose payloads are not compressed, so that every byte of a value can be reached.
fn server() -> Server {
    Server::builder().config("rdbcompression no").start()
}

/// One small value of every kind and mode.
#[track_caller]
fn specimens(server: &Server) -> Vec<(&'static str, Vec<u8>)> {
    let mut client = server.client();
    for line in [
        "LOCK.ACQUIRE exclusive TOKEN alice EX 3600",
        "LOCK.ACQUIRE shared TOKEN r1 EX 3600 SHARED",
        "LOCK.ACQUIRE shared TOKEN r2 EX 3600 SHARED",
        "LOCK.ACQUIRE permits TOKEN p1 EX 3600 LIMIT 300",
        "LOCK.ACQUIRE permits TOKEN 6f1c2a52-9d0b-4c43-8a5e-0a86b1d1c5aa EX 7200 LIMIT 2",
        "STOCK.CREATE sale 100 LIMIT 9 END 9000000000000 STREAM events{sale}",
        "STOCK.DECR_ONCE sale sold QTY 2 BUYER b REF r",
        "STOCK.DECR_ONCE sale held HOLD 3600000",
        "STOCK.DECR_ONCE sale gone",
        "STOCK.CANCEL sale gone",
        "STOCK.DECR_ONCE sale late QTY 7 BUYER b HOLD 1",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
    }
    eventually("the short hold lapses", || client.cmd("STOCK.ORDER sale late").field("state").text() == "expired");
    client.expect("STOCK.ALTER sale LIMIT 8", OK);
    client.expect("STOCK.CONFIRM sale late", ("LIMIT", 0, INT, -1, ""));
    let dump = |key| (key, client.cmd(["DUMP", key]).bytes());
    ["exclusive", "shared", "permits", "sale"].map(dump).into()
}

/// What `RESTORE` says to each payload, and what `DUMP` then makes of those it took.
#[track_caller]
fn restore(client: &mut Client, payloads: &[Vec<u8>]) -> Vec<(Reply, Reply)> {
    let mut tried = vec![];
    for batch in payloads.chunks(100) {
        let mut commands: Vec<harness::Words> = vec![];
        for payload in batch {
            commands.push([&b"RESTORE"[..], b"victim", b"0", payload].into());
            commands.push("DUMP victim".into());
            commands.push("DEL victim".into());
        }
        tried.extend(client.pipeline(commands).chunks(3).map(|replies| (replies[0].clone(), replies[1].clone())));
    }
    tried
}

/// How often the module has complained in the log.
fn complaints(server: &Server) -> usize {
    server.log().matches("lockstock: a lockstk-").count()
}

#[test]
fn what_was_dumped_is_restored_to_the_byte() {
    let (from, to) = (server(), server());
    let scene = Scene::set(&from);
    let mut client = to.client();
    for ((db, name), value) in &from.keys().0 {
        client.expect(format!("SELECT {db}"), OK);
        client.expect([&b"RESTORE"[..], &name.0[0], b"0", &value.0[0]], OK);
        client.expect([&b"RESTORE"[..], &name.0[0], b"0", &value.0[0]], err("BUSYKEY"));
        client.expect([&b"RESTORE"[..], &name.0[0], b"0", &value.0[0], b"REPLACE"], OK);
    }
    to.keys().are(&from.keys());
    assert_eq!(to.digest(), from.digest());
    drop(scene);
}

#[test]
fn cut_short_at_every_length_it_is_refused() {
    let server = server();
    for (key, dump) in specimens(&server) {
        let mut client = server.client();
        let whole = Payload::of(&dump);
        // The value ends anywhere, and the server's own reader or ours notices.
        let body = &dump[..dump.len() - 10];
        let cut = (0..body.len()).map(|end| sealed([&body[..end], &dump[dump.len() - 10..dump.len() - 8]].concat()));
        let cut: Vec<_> = cut.collect();
        for (payload, (answer, again)) in cut.iter().zip(restore(&mut client, &cut)) {
            // The server reads on into the RDB version behind the value, which can complete it.
            if !answer.is_error() {
                let again = again.bytes();
                assert!(payload.starts_with(&again[..again.len() - 10]), "{key}: read as something else");
            }
        }
        // Each string ends early or has one byte more, in an envelope without fault: this is for us alone to notice.
        let before = complaints(&server);
        let mut forged = vec![];
        for (number, string) in whole.strings.iter().enumerate() {
            let mut put = |bytes: Vec<u8>| {
                let mut payload = whole.clone();
                payload.strings[number] = bytes;
                forged.push(payload.bytes());
            };
            // An empty string says that no more blocks follow, and then it is the server that finds one too many.
            let shortest = usize::from(number > 0);
            (shortest..string.len()).for_each(|end| put(string[..end].to_vec()));
            put([&string[..], &[0]].concat());
        }
        let mut refused = 0;
        for (number, (answer, again)) in restore(&mut client, &forged).into_iter().enumerate() {
            // A sale with an order less, or with a shorter name for its stream, is a sale all the same.
            if answer.is_error() {
                refused += 1;
                assert_eq!(answer, Reply::Error("ERR Bad data format".into()));
            } else {
                assert_eq!(Payload::of(&again.bytes()).bytes(), forged[number], "{key}: read as something else");
            }
        }
        assert_eq!(complaints(&server) - before, refused, "one line for each");
        assert!(refused * 3 >= forged.len() * 2, "{key}: {refused} of {} were refused", forged.len());
    }
}

#[test]
fn with_any_byte_changed_it_is_refused_or_is_exactly_what_it_says() {
    let server = server();
    for (key, dump) in specimens(&server) {
        let mut client = server.client();
        let end = dump.len() - 10;
        let mut forged = vec![];
        for position in 0..end {
            for change in (0..8).map(|bit| 1 << bit).chain([0xff]) {
                let mut bytes = dump[..dump.len() - 8].to_vec();
                bytes[position] ^= change;
                forged.push(sealed(bytes));
            }
        }
        let mut accepted = 0;
        for (bytes, (answer, again)) in forged.iter().zip(restore(&mut client, &forged)) {
            match (&answer, &again) {
                (Reply::Error(text), Reply::Nil(_)) => assert_eq!(text, "ERR Bad data format"),
                (Reply::Simple(_), Reply::Bulk(again)) => {
                    accepted += 1;
                    assert_eq!(again[..again.len() - 10], bytes[..end], "{key}: read as something else");
                }
                // A lease or a time to live that is over by now.
                (Reply::Simple(_), Reply::Nil(_)) => accepted += 1,
                other => panic!("{key}: {other:?} to {}", bytes.escape_ascii()),
            }
        }
        // Names and times can be anything; everything else is checked.
        let share = forged.len() / 4;
        assert!((1..3 * share).contains(&accepted), "{key}: {accepted} of {} were accepted", forged.len());
        server.expect(["LOCK.INFO", "none"], harness::NULL);
    }
}

#[test]
fn of_a_newer_version_it_is_refused_with_a_word_about_that() {
    let server = server();
    let mut client = server.client();
    for (key, dump) in specimens(&server) {
        let whole = Payload::of(&dump);
        let mut newer = whole.clone();
        newer.strings[0][0] = 2;
        for (payload, said) in [
            (newer.bytes(), "its format 2 is newer than 1, the newest this version of lockstock reads"),
            (
                whole.with_encoding(2).bytes(),
                "its encoding 2 is newer than 1, the newest this version of lockstock reads",
            ),
            (whole.with_encoding(1023).bytes(), "its encoding 1023 is newer than 1"),
            (whole.with_encoding(0).bytes(), "no lockstock has written encoding 0"),
        ] {
            let before = server.log().len();
            client.expect([&b"RESTORE"[..], b"victim", b"0", &payload], err("ERR Bad data format"));
            let log = server.log().split_off(before);
            assert!(log.contains(said) && log.matches("lockstock:").count() == 1, "{key}: {log}");
        }
        client.expect([&b"RESTORE"[..], b"victim", b"0", &whole.bytes(), b"REPLACE"], OK);
        client.expect("DEL victim", 1);
    }
}

#[test]
fn no_payload_makes_the_server_set_memory_aside_on_a_promise() {
    let server = server();
    let mut client = server.client();
    for (_, dump) in specimens(&server) {
        let mut whole = Payload::of(&dump);
        let before = server.info_int("memory", "used_memory_peak");
        // Counts and lengths of up to 2^63, in each place where a number may stand.
        for position in 0..whole.strings[0].len() {
            let honest = whole.strings[0].clone();
            whole.strings[0].splice(position..=position, [0xff; 8].into_iter().chain([0x7f]));
            client.cmd([&b"RESTORE"[..], b"victim", b"0", &whole.bytes(), b"REPLACE"]);
            whole.strings[0] = honest;
        }
        let grown = server.info_int("memory", "used_memory_peak") - before;
        assert!(grown < 2_000_000, "{grown} bytes");
    }
}
