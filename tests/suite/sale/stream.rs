//! The stream of a sale: every change once, in order, together with the change itself or not at all.

use harness::shop::{Event, Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Tap, err, eventually};

fn event(seq: i64, event: &str, id: &str, units: i64, buyer: &str, reference: &str) -> Event {
    let [event, id, buyer, reference] = [event, id, buyer, reference].map(String::from);
    Event { seq, event, id, units, buyer, reference, deadline: None }
}

#[test]
fn every_change_of_an_order_is_told_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 LIMIT 5 STREAM events", OK);
    client.expect("EXISTS events", 0);
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 2 REF r1", ("OK", 2, 8, -1, "r1"));
    client.expect("STOCK.DECR_ONCE sale o1 BUYER ann QTY 2 REF r1", ("DUPLICATE", 2, 8, -1, "r1"));
    client.expect("STOCK.DECR_ONCE sale bob HOLD 60000", ("OK", 1, 7, INT, ""));
    client.expect("STOCK.EXTEND sale bob PX 70000", ("OK", 1, 7, INT, ""));
    client.expect("STOCK.CONFIRM sale bob", ("OK", 1, 7, -1, ""));
    client.expect("STOCK.DECR_ONCE sale eve QTY 6", ("LIMIT", 0, 7, -1, ""));
    client.expect("STOCK.ALTER sale LIMIT 6", OK);
    client.expect("STOCK.CANCEL sale o1", ("OK", 0, 9, -1, "r1"));
    client.expect("STOCK.ADJUST sale -4", 5);
    client.expect("STOCK.ADJUST sale 0", 5);
    client.expect("STOCK.DECR_ONCE sale eve QTY 6", ("INSUFFICIENT", 0, 5, -1, ""));
    client.expect("STOCK.DECR_ONCE sale eve QTY 5 HOLD 5 REF r2", ("OK", 5, 0, INT, "r2"));
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 7);
    client.expect("STOCK.CONFIRM sale eve", ("OK", 5, 0, -1, "r2"));
    let told = events(&mut client, "events");
    assert_eq!(
        told,
        [
            event(1, "ok", "o1", 2, "ann", "r1"),
            event(2, "ok", "bob", 1, "bob", ""),
            event(3, "confirm", "bob", 1, "bob", ""),
            event(4, "cancel", "o1", 2, "ann", "r1"),
            event(5, "adjust", "", -4, "", ""),
            event(6, "ok", "eve", 5, "eve", "r2"),
            event(7, "expire", "eve", 5, "eve", "r2"),
            event(8, "confirm", "eve", 5, "eve", "r2"),
        ][..]
    );
    Replay::of(10, &told).agrees_with(&mut client, "sale");
}

#[test]
fn event_and_change_are_one_step_for_replicas_and_files() {
    let server = Server::builder().aof("always").start();
    let mut tap = Tap::attach(&server);
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 10 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 9, -1, ""));
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 9, -1, ""));
    client.expect("STOCK.CANCEL sale ann", ("OK", 0, 10, -1, ""));
    let id = |n: usize, client: &mut Client| client.cmd("XRANGE events - +").at(n).at(0).text();
    let [first, second] = [id(0, &mut client), id(1, &mut client)];
    assert_eq!(
        tap.drain(),
        [
            "STOCK.CREATE sale 10 STREAM events".to_owned(),
            "MULTI".into(),
            format!("XADD events {first} seq 1 event ok id ann units 1 buyer ann ref"),
            "STOCK.APPLY sale TAKEN ann 1".into(),
            "EXEC".into(),
            "MULTI".into(),
            format!("XADD events {second} seq 2 event cancel id ann units 1 buyer ann ref"),
            "STOCK.APPLY sale CANCELLED ann".into(),
            "EXEC".into(),
        ]
        .iter()
        .map(|line| {
            let mut words = harness::Words::from(line);
            if words.name() == "XADD" {
                words.0.push(vec![]);
            }
            words
        })
        .collect::<Vec<_>>()
    );
}

/// A sale of 5 with ann's hold and bob's order, whose stream then refuses events.
struct Refused {
    server: Server,
    client: Client,
}

impl Refused {
    fn because(spoil: &str) -> Self {
        let server = Server::start();
        let mut client = server.client();
        client.expect("STOCK.CREATE sale 5 STREAM events", OK);
        client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 4, INT, ""));
        client.expect("STOCK.DECR_ONCE sale bob", ("OK", 1, 3, -1, ""));
        client.expect(spoil, ANY);
        Self { server, client }
    }

    /// Fails the test unless every command that would make an event is refused and changes nothing.
    #[track_caller]
    fn nothing_is_taken(&mut self, code: &str) {
        let before = (self.client.cmd("DUMP sale"), self.client.cmd("DUMP events"));
        let mut tap = Tap::attach(&self.server);
        for call in ["DECR_ONCE sale eve", "CONFIRM sale ann", "CANCEL sale ann", "CANCEL sale bob", "ADJUST sale 1"] {
            let reply = self.client.cmd(format!("STOCK.{call}"));
            let Reply::Error(line) = &reply else { panic!("{call}: {reply:?}") };
            assert!(line.starts_with(&format!("{code} the sale's stream does not take the event")), "{call}: {line}");
        }
        assert_eq!((self.client.cmd("DUMP sale"), self.client.cmd("DUMP events")), before);
        assert_eq!(tap.drain(), [""; 0]);
        // Commands that make no event still work.
        self.client.expect("STOCK.DECR_ONCE sale bob", ("DUPLICATE", 1, 3, -1, ""));
        self.client.expect("STOCK.EXTEND sale ann PX 70000", ("OK", 1, 3, INT, ""));
        self.client.expect("STOCK.ALTER sale LIMIT 3", OK);
    }

    /// And then the sale goes on as if nothing had been.
    #[track_caller]
    fn goes_on_after(&mut self, cure: &str) {
        self.client.expect(cure, ANY);
        self.client.expect("STOCK.DECR_ONCE sale eve", ("OK", 1, 2, -1, ""));
        self.client.expect("STOCK.CONFIRM sale ann", ("OK", 1, 2, -1, ""));
        books(&mut self.client, "sale");
        self.client.expect("STOCK.INFO sale", ANY).field("seq").is(4);
    }
}

#[test]
fn a_stream_of_the_wrong_type_takes_nothing() {
    let mut sale = Refused::because("SET events v");
    sale.nothing_is_taken("WRONGTYPE");
    sale.goes_on_after("DEL events");
}

#[test]
fn a_stream_without_ids_left_takes_nothing() {
    let mut sale = Refused::because("XADD events 18446744073709551615-18446744073709551615 f v");
    sale.nothing_is_taken("ERR");
    sale.goes_on_after("DEL events");
}

#[test]
fn a_full_server_takes_nothing_and_still_gives_back() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 4, INT, ""));
    client.expect("STOCK.DECR_ONCE sale bob HOLD 60000", ("OK", 1, 3, INT, ""));
    client.expect("STOCK.DECR_ONCE sale eve HOLD 60000", ("OK", 1, 2, INT, ""));
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect("STOCK.DECR_ONCE sale dan", err("OOM "));
    client.expect("STOCK.ADJUST sale 1", err("OOM "));
    // Their events are small, and keeping them back would keep units or money back.
    client.expect("STOCK.CONFIRM sale ann", ("OK", 1, 2, -1, ""));
    client.expect("STOCK.CANCEL sale bob", ("OK", 0, 3, -1, ""));
    client.expect("STOCK.EXTEND sale eve PX 50", ("OK", 1, 3, INT, ""));
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 6);
    client.expect("CONFIG SET maxmemory 0", OK);
    let told = events(&mut client, "events");
    Replay::of(5, &told).agrees_with(&mut client, "sale");
}

#[test]
fn holds_whose_event_is_refused_lapse_when_the_stream_is_well_again() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 2 STREAM events", OK);
    client.expect("SET events v", OK);
    client.expect("STOCK.DECR_ONCE sale ann", err("WRONGTYPE "));
    client.expect("DEL events", 1);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 1, INT, ""));
    client.expect("RENAME events aside", OK);
    client.expect("SET events v", OK);
    client.expect("STOCK.EXTEND sale ann PX 30", ("OK", 1, 1, INT, ""));
    let warned = || server.log().matches("holds of the sale sale are due and wait: WRONGTYPE").count();
    eventually("the log says why", || warned() > 0);
    // Its units count as returned, and nobody gets them while that cannot be written down.
    assert_eq!(books(&mut client, "sale").remaining, 2);
    client.expect("STOCK.DECR_ONCE sale bob QTY 2", err("WRONGTYPE "));
    client.expect("STOCK.ALTER sale LIMIT 5", OK);
    client.expect("RENAME aside events", OK);
    eventually("the hold lapses", || client.cmd("XLEN events").int() == 2);
    client.expect("STOCK.DECR_ONCE sale bob QTY 2", ("OK", 2, 0, -1, ""));
    let told = events(&mut client, "events");
    Replay::of(2, &told).agrees_with(&mut client, "sale");
    assert_eq!(warned(), 1, "once is enough");
}

#[test]
fn scripts_and_transactions_are_one_step_with_all_they_do() {
    let server = Server::builder().aof("always").start();
    let mut tap = Tap::attach(&server);
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let script = "local a = redis.call('STOCK.DECR_ONCE', KEYS[1], 'ann', 'REF', 'r') \
                  local b = redis.call('STOCK.DECR_ONCE', KEYS[1], 'ann') \
                  return {a[1], a[2], a[3], a[4], a[5], b[1]}";
    client.expect(["EVAL", script, "1", "sale"], ("OK", 1, 4, -1, "r", "DUPLICATE"));
    let broken = "redis.call('STOCK.DECR_ONCE', KEYS[1], 'bob') return redis.call('STOCK.DECR_ONCE', KEYS[1])";
    client.expect(["EVAL", broken, "1", "sale"], err("ERR "));
    client.pipeline(["MULTI", "STOCK.DECR_ONCE sale eve", "STOCK.CANCEL sale ann", "SET k v", "EXEC"])[4].clone().is((
        ("OK", 1, 2, -1, ""),
        ("OK", 0, 3, -1, "r"),
        OK,
    ));
    client.expect("SET events-of-none x", OK);
    let names: Vec<String> = tap.drain().iter().map(harness::Words::name).collect();
    let step = |inner: &[&'static str]| [&["MULTI"], inner, &["EXEC"]].concat();
    let (event, change) = ("XADD", "STOCK.APPLY");
    let want = [
        vec!["STOCK.CREATE"],
        step(&[event, change]),
        step(&[event, change]),
        step(&[event, change, event, change, "SET"]),
        vec!["SET"],
    ]
    .concat();
    assert_eq!(names, want);
    let told = events(&mut client, "events");
    Replay::of(5, &told).agrees_with(&mut client, "sale");
    assert_eq!(orders(&mut client, "sale").len(), 3);
}

#[test]
fn a_transaction_that_watched_a_sale_fails_when_it_changed() {
    let server = Server::start();
    let (mut watcher, mut client) = (server.client(), server.client());
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale ann", ANY);
    let mut survives = |change: &str| {
        watcher.expect("WATCH sale", OK);
        client.expect(change, ANY);
        !matches!(watcher.pipeline(["MULTI", "PING", "EXEC"])[2], Reply::Nil(_))
    };
    assert!(!survives("STOCK.DECR_ONCE sale bob HOLD 60000"));
    assert!(!survives("STOCK.EXTEND sale bob PX 50000"));
    assert!(!survives("STOCK.CANCEL sale bob"));
    assert!(!survives("STOCK.ADJUST sale 1"));
    assert!(!survives("STOCK.ALTER sale LIMIT 1"));
    // What is refused changes nothing.
    assert!(survives("STOCK.DECR_ONCE sale ann"));
    assert!(survives("STOCK.DECR_ONCE sale eve QTY 9"));
    assert!(survives("STOCK.CANCEL sale bob"));
    assert!(survives("STOCK.ADJUST sale 0"));
    assert!(survives("STOCK.ALTER sale LIMIT 1"));
    assert!(survives("STOCK.INFO sale"));
}

#[test]
fn listeners_hear_of_every_change() {
    let server = Server::start();
    let (mut listener, mut client) = (server.client(), server.client());
    client.expect("CONFIG SET notify-keyspace-events Ed", OK);
    listener.expect("PSUBSCRIBE __keyevent@0__:stock.*", ANY);
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale ann HOLD 60000", ANY);
    client.expect("STOCK.EXTEND sale ann PX 50000", ANY);
    client.expect("STOCK.CONFIRM sale ann", ANY);
    client.expect("STOCK.CANCEL sale ann", ANY);
    client.expect("STOCK.CANCEL sale ann", ANY);
    client.expect("STOCK.ADJUST sale 1", ANY);
    client.expect("STOCK.ALTER sale LIMIT 1", ANY);
    client.expect("STOCK.DECR_ONCE sale bob HOLD 1", ANY);
    for event in ["create", "ok", "extend", "confirm", "cancel", "adjust", "alter", "ok", "expire"] {
        let channel = format!("__keyevent@0__:stock.{event}");
        listener.read().is(("pmessage", "__keyevent@0__:stock.*", channel, "sale"));
    }
}

#[test]
fn a_sale_is_not_its_own_stream() {
    let server = Server::start();
    server.expect("STOCK.CREATE sale 5 STREAM sale", err("ERR STREAM must be another key than the sale's"));
    server.expect([&b"STOCK.CREATE"[..], b"sale", b"5", b"STREAM", b""], err("ERR STREAM must name a key"));
    server.expect("EXISTS sale", 0);
}
