//! A sale whose events tell deadlines: what stands in its stream, and that this is the sale, whatever becomes of the server.

use harness::shop::{Replay, events, orders};
use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Tap, Words, err, eventually, unix_ms};

const HOUR: i64 = 3_600_000;

/// Every entry of `stream` as names and values in turn, the oldest first.
#[track_caller]
fn entries(client: &mut Client, stream: &str) -> Vec<String> {
    let told = client.cmd(["XRANGE", stream, "-", "+"]);
    let words = |entry: &Reply| entry.at(1).items().iter().map(Reply::text).collect::<Vec<_>>().join(" ");
    told.items().iter().map(words).collect()
}

/// Asks, expects OK, and gives the deadline of the answer.
#[track_caller]
fn deadline(client: &mut Client, call: &str) -> i64 {
    client.expect(call, ("OK", INT, INT, INT, ANY)).at(3).int()
}

#[track_caller]
fn rebuilds(client: &mut Client, key: &str, total: i64) {
    let replay = Replay::of(total, &events(client, &format!("events:{key}")));
    assert!(replay.rebuilt.is_some(), "the events tell no deadlines");
    replay.agrees_with(client, key);
}

#[test]
fn each_event_tells_until_when_the_units_are_held() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 REBUY STREAM events:sale DEADLINES", OK);
    let held = deadline(&mut client, "STOCK.DECR_ONCE sale o1 BUYER ann QTY 2 REF r1 HOLD 3600000");
    let longer = deadline(&mut client, "STOCK.EXTEND sale o1 PX 7200000");
    let sooner = deadline(&mut client, "STOCK.EXTEND sale o1 PX 1800000");
    assert!(sooner < held && held < longer);
    client.expect("STOCK.CONFIRM sale o1", ("OK", 2, 8, -1, "r1"));
    client.expect("STOCK.EXTEND sale o1 PX 5", ("DUPLICATE", 2, 8, -1, "r1"));
    client.expect("STOCK.DECR_ONCE sale bob", ("OK", 1, 7, -1, ""));
    client.expect("STOCK.CANCEL sale bob", ("OK", 0, 8, -1, ""));
    client.expect("STOCK.EXTEND sale bob PX 5", ("CANCELLED", 0, 8, -1, ""));
    client.expect("STOCK.ADJUST sale -3", 5);
    client.expect("STOCK.ALTER sale LIMIT 5", OK);
    // A hold that lapses, is paid late, and bought once more with another buyer and reference after it was given back.
    let short = deadline(&mut client, "STOCK.DECR_ONCE sale eve QTY 3 HOLD 1 REF r2");
    eventually("the hold lapses", || client.cmd("XLEN events:sale").int() == 9);
    client.expect("STOCK.EXTEND sale eve PX 5", ("EXPIRED", 0, 5, -1, "r2"));
    client.expect("STOCK.CONFIRM sale eve", ("OK", 3, 2, -1, "r2"));
    client.expect("STOCK.CANCEL sale eve", ("OK", 0, 5, -1, "r2"));
    let again = deadline(&mut client, "STOCK.DECR_ONCE sale eve BUYER dan HOLD 3600000");
    client.expect("STOCK.CANCEL sale o1", ("OK", 0, 6, -1, "r1"));
    assert_eq!(
        entries(&mut client, "events:sale"),
        [
            format!("seq 1 event ok id o1 units 2 buyer ann ref r1 deadline {held}"),
            format!("seq 2 event extend id o1 units 2 buyer ann ref r1 deadline {longer}"),
            format!("seq 3 event extend id o1 units 2 buyer ann ref r1 deadline {sooner}"),
            "seq 4 event confirm id o1 units 2 buyer ann ref r1 deadline -1".into(),
            "seq 5 event ok id bob units 1 buyer bob ref  deadline -1".into(),
            "seq 6 event cancel id bob units 1 buyer bob ref  deadline -1".into(),
            "seq 7 event adjust id  units -3 buyer  ref  deadline -1".into(),
            format!("seq 8 event ok id eve units 3 buyer eve ref r2 deadline {short}"),
            "seq 9 event expire id eve units 3 buyer eve ref r2 deadline -1".into(),
            "seq 10 event confirm id eve units 3 buyer eve ref r2 deadline -1".into(),
            "seq 11 event cancel id eve units 3 buyer eve ref r2 deadline -1".into(),
            format!("seq 12 event ok id eve units 1 buyer dan ref  deadline {again}"),
            "seq 13 event cancel id o1 units 2 buyer ann ref r1 deadline -1".into(),
        ]
    );
    rebuilds(&mut client, "sale", 10);
}

#[test]
fn a_sale_that_does_not_ask_for_them_is_as_it_ever_was() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events:sale", OK);
    client.expect("STOCK.CREATE silent 10", OK);
    for sale in ["sale", "silent"] {
        client.expect(format!("STOCK.DECR_ONCE {sale} ann HOLD 3600000 REF r"), ("OK", 1, 9, INT, "r"));
        client.expect(format!("STOCK.EXTEND {sale} ann PX 7200000"), ("OK", 1, 9, INT, "r"));
        let info = client.expect(["STOCK.INFO", sale], ANY);
        info.field("seq").is(1);
        let names: Vec<String> = info.items().iter().step_by(2).map(Reply::text).collect();
        assert_eq!((names.len(), names[10].as_str(), names[11].as_str()), (20, "stream", "seq"));
    }
    client.expect("STOCK.ADJUST sale 1", 10);
    assert_eq!(
        entries(&mut client, "events:sale"),
        ["seq 1 event ok id ann units 1 buyer ann ref r", "seq 2 event adjust id  units 1 buyer  ref "]
    );
}

#[test]
fn they_are_an_option_of_the_stream() {
    let server = Server::start();
    let mut client = server.client();
    for refused in
        ["DEADLINES", "DEADLINES REBUY", "STREAM s DEADLINES DEADLINES", "STREAM s DEADLINE", "STREAM DEADLINES no"]
    {
        client.expect(format!("STOCK.CREATE sale 5 {refused}"), err("ERR syntax error"));
        client.expect("STOCK.INFO sale", NULL);
    }
    for (number, taken) in
        ["STREAM s DEADLINES", "deadlines LIMIT 2 STREAM s", "REBUY sTREAM s Deadlines"].iter().enumerate()
    {
        client.expect(format!("STOCK.CREATE sale:{number} 5 {taken}"), OK);
        let info = client.expect(format!("STOCK.INFO sale:{number}"), ANY);
        let names: Vec<String> = info.items().iter().step_by(2).map(Reply::text).collect();
        assert_eq!((names.len(), &names[10..13]), (21, &["stream", "deadlines", "seq"].map(String::from)[..]));
        info.field("stream").is("s");
        info.field("deadlines").is("yes");
    }
    // A stream may be called so, and a sale stays what it was created as.
    client.expect("STOCK.CREATE named 5 STREAM DEADLINES", OK);
    client.expect("STOCK.INFO named", ANY).field("stream").is("DEADLINES");
    assert_eq!(client.cmd("STOCK.INFO named").items().len(), 2 * 20);
    client.expect("STOCK.ALTER named DEADLINES yes", err("ERR syntax error"));
}

#[test]
fn an_extension_and_its_event_are_one_step_for_replicas_and_files() {
    let server = Server::builder().aof("always").start();
    let mut tap = Tap::attach(&server);
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events:sale DEADLINES", OK);
    let held = deadline(&mut client, "STOCK.DECR_ONCE sale o BUYER ann REF r HOLD 3600000");
    let longer = deadline(&mut client, "STOCK.EXTEND sale o PX 7200000");
    let ids: Vec<String> =
        client.cmd("XRANGE events:sale - +").items().iter().map(|entry| entry.at(0).text()).collect();
    let told: Vec<String> = tap.drain().iter().map(|words| format!("{words:?}")).collect();
    let entry = |nth: usize, event: &str, until: i64| {
        format!(
            "XADD events:sale {} seq {} event {event} id o units 1 buyer ann ref r deadline {until}",
            ids[nth],
            nth + 1
        )
    };
    assert_eq!(
        told,
        [
            "STOCK.CREATE sale 10 STREAM events:sale DEADLINES".into(),
            "MULTI".into(),
            entry(0, "ok", held),
            format!("STOCK.APPLY sale TAKEN o 1 {held} ann r"),
            "EXEC".into(),
            "MULTI".into(),
            entry(1, "extend", longer),
            format!("STOCK.APPLY sale EXTENDED o {longer}"),
            "EXEC".into(),
        ]
    );
}

/// Fails the test unless `call`, which extends the hold `ann` of `sale`, is refused with `code` and changes nothing.
#[track_caller]
fn extends_nothing(server: &Server, client: &mut Client, code: &str) {
    let mut owner = server.client();
    let before = server.keys();
    let mut tap = Tap::attach(server);
    let call = "STOCK.EXTEND sale ann PX 7200000";
    let refusal = format!("{code} the sale's stream does not take the event, so nothing was done: ");
    client.expect(call, err(&refusal));
    let replies = client.pipeline(["MULTI", call, "EXEC"]);
    if !replies[0].is_error() {
        replies[2].at(0).clone().is(err(&refusal));
    }
    server.keys().are(&before);
    let told: Vec<String> = tap.drain().iter().map(Words::name).collect();
    assert!(told.iter().all(|name| name == "MULTI" || name == "EXEC"), "{told:?}");
    assert_eq!(owner.cmd("STOCK.INFO sale").field("seq").int(), 1);
}

#[test]
fn an_extension_that_cannot_be_told_does_not_happen() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events:sale DEADLINES", OK);
    let held = deadline(&mut client, "STOCK.DECR_ONCE sale ann HOLD 3600000");
    client.expect("RENAME events:sale aside", OK);
    client.expect("SET events:sale x", OK);
    extends_nothing(&server, &mut client, "WRONGTYPE");
    client.expect("DEL events:sale", 1);
    client.expect("XADD events:sale 18446744073709551615-18446744073709551615 f v", ANY);
    extends_nothing(&server, &mut client, "ERR");
    client.expect("DEL events:sale", 1);
    client.expect("RENAME aside events:sale", OK);
    // A user that may run the command and not write the stream.
    for rules in
        ["~sale +stock.extend +multi +exec", "~sale %R~events:* +stock.extend +xadd", "~sale ~events:* +stock.extend"]
    {
        client.expect(format!("ACL SETUSER clerk reset on nopass {rules}"), OK);
        let mut clerk = server.client();
        clerk.expect("AUTH clerk any", OK);
        extends_nothing(&server, &mut clerk, "NOPERM");
    }
    assert_eq!(client.cmd("STOCK.ORDER sale ann").field("deadline").int(), held);
    rebuilds(&mut client, "sale", 10);
    // And a user that may do both.
    client.expect("ACL SETUSER clerk reset on nopass ~sale %W~events:* +stock.extend +xadd", OK);
    let mut clerk = server.client();
    clerk.expect("AUTH clerk any", OK);
    assert!(deadline(&mut clerk, "STOCK.EXTEND sale ann PX 7200000") > held);
    rebuilds(&mut client, "sale", 10);
}

#[test]
fn a_full_server_extends_and_tells_it() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events:sale DEADLINES", OK);
    for id in ["ann", "bob", "eve"] {
        client.expect(format!("STOCK.DECR_ONCE sale {id} HOLD 3600000"), ("OK", 1, ANY, INT, ""));
    }
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect("STOCK.DECR_ONCE sale dan", err("OOM "));
    // As with CONFIRM and CANCEL, the event is small, and keeping it back would keep units or money back.
    client.expect("STOCK.EXTEND sale ann PX 7200000", ("OK", 1, 2, INT, ""));
    client.expect("STOCK.CONFIRM sale bob", ("OK", 1, 2, -1, ""));
    client.expect("STOCK.CANCEL sale eve", ("OK", 0, 3, -1, ""));
    client.expect("CONFIG SET maxmemory 0", OK);
    assert_eq!(client.cmd("XLEN events:sale").int(), 6);
    rebuilds(&mut client, "sale", 5);
}

/// Opens two sales, of which only `told` tells deadlines, and takes holds.
#[track_caller]
fn open(client: &mut Client) {
    client.expect("STOCK.CREATE told 10 REBUY STREAM events:told DEADLINES", OK);
    client.expect("STOCK.CREATE plain 10 STREAM events:plain", OK);
    for sale in ["told", "plain"] {
        for call in [
            "DECR_ONCE % ann QTY 2 HOLD 3600000 REF r",
            "DECR_ONCE % bob",
            "DECR_ONCE % eve HOLD 3600000",
            "EXTEND % ann PX 60000",
        ] {
            client.expect(format!("STOCK.{}", call.replace('%', sale)), ("OK", INT, INT, INT, ANY));
        }
    }
}

/// Goes on with both as before, wherever they are now.
#[track_caller]
fn goes_on(server: &Server, what: &str) {
    let mut client = server.client();
    client.expect("STOCK.INFO told", ANY).field("deadlines").is("yes");
    assert_eq!(client.cmd("STOCK.INFO plain").items().len(), 2 * 20, "{what}");
    let seqs = |client: &mut Client| ["told", "plain"].map(|sale| client.cmd(["STOCK.INFO", sale]).field("seq").int());
    let before = seqs(&mut client);
    let until = deadline(&mut client, "STOCK.EXTEND told ann PX 7200000");
    assert!(until > unix_ms() + HOUR, "{what}");
    client.expect("STOCK.EXTEND plain ann PX 7200000", ("OK", 2, INT, INT, "r"));
    assert_eq!(seqs(&mut client), [before[0] + 1, before[1]], "{what}");
    let last = entries(&mut client, "events:told").pop().expect("an event");
    assert_eq!(
        last,
        format!("seq {} event extend id ann units 2 buyer ann ref r deadline {until}", before[0] + 1),
        "{what}"
    );
    rebuilds(&mut client, "told", 10);
    Replay::of(10, &events(&mut client, "events:plain")).agrees_with(&mut client, "plain");
    assert_eq!(orders(&mut client, "told")["ann"].deadline, until, "{what}");
}

#[test]
fn it_goes_on_after_a_restart_from_any_file() {
    for (file, rewrite) in [("AOF", None), ("AOF of commands", Some(false)), ("AOF with an RDB preamble", Some(true))] {
        let mut server = Server::builder().aof("always").start();
        open(&mut server.client());
        if let Some(preamble) = rewrite {
            server.rewrite_aof(preamble);
        }
        for _ in 0..2 {
            server.kill9();
            server.start_again();
            goes_on(&server, file);
        }
    }
    let mut server = Server::start();
    open(&mut server.client());
    server.expect("SAVE", OK);
    server.kill9();
    server.start_again();
    goes_on(&server, "RDB");
}

#[test]
fn it_goes_on_where_it_was_carried_to() {
    let (from, to) = (Server::start(), Server::start());
    open(&mut from.client());
    for key in ["told", "plain", "events:told", "events:plain"] {
        let dump = from.cmd(["DUMP", key]).bytes();
        to.expect([&b"RESTORE"[..], key.as_bytes(), b"0", &dump], OK);
    }
    goes_on(&to, "RESTORE");
}

#[test]
fn it_goes_on_on_a_replica_that_was_promoted() {
    let primary = Server::start();
    // One that has it from a full synchronisation, and one that has heard every effect.
    let listener = Server::builder().replica_of(&primary).start();
    listener.wait_in_sync(&primary);
    open(&mut primary.client());
    let late = Server::builder().replica_of(&primary).start();
    goes_on(&primary, "primary");
    for replica in [&listener, &late] {
        replica.wait_in_sync(&primary);
        assert_eq!(replica.digest(), primary.digest());
        rebuilds(&mut replica.client(), "told", 10);
    }
    for replica in [&listener, &late] {
        replica.promote();
        goes_on(replica, "promoted");
    }
}
