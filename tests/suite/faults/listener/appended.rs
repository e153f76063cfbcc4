//! Another module hears of an event while it is being appended to the stream of a sale, and does something to the sale before its change
//! is made. Then the change is not made, and its event is taken out again.

use harness::shop::{Event, Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Words, err, eventually};

const SAID: &str = "ERR another module changed the sale when it heard of the event, so nothing was done";

/// A primary with a listener, its file and its replica.
struct Scene {
    server: Server,
    replica: Server,
    client: Client,
}

impl Scene {
    #[track_caller]
    fn set() -> Self {
        let server = Server::builder().aof("always").config(&harness::listener::line()).start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let mut client = server.client();
        client.expect("STOCK.CREATE sale 10 LIMIT 9 STREAM events DEADLINES", OK);
        client.expect("STOCK.DECR_ONCE sale known HOLD 3600000", ("OK", 1, 9, INT, ""));
        client.expect("STOCK.DECR_ONCE sale paid", ("OK", 1, 8, -1, ""));
        Self { server, replica, client }
    }

    /// Has the listener run `reaction` when the next event is appended.
    #[track_caller]
    fn react(&mut self, reaction: impl Into<Words>) {
        self.client.expect("LISTENER.FORGET", OK);
        let words = [Words::from("LISTENER.ON events SERVER 1").0, reaction.into().0].concat();
        self.client.expect(Words(words), OK);
    }

    /// What the listener's reaction was answered.
    #[track_caller]
    fn reacted(&mut self) -> String {
        self.client.expect("LISTENER.SEEN events", ANY).at(0).text()
    }

    /// The sale `key` and its stream agree, and replicas and the file have the same.
    #[track_caller]
    fn is_whole(&mut self, key: &str) -> Vec<Event> {
        self.client.expect("LISTENER.FORGET", OK);
        let told = events(&mut self.client, "events");
        Replay::of(10, &told).agrees_with(&mut self.client, key);
        self.replica.wait_in_sync(&self.server);
        let digest = self.server.digest();
        assert_eq!(self.replica.digest(), digest, "the replica");
        self.client.expect("DEBUG LOADAOF", OK);
        assert_eq!(self.server.digest(), digest, "the file");
        told
    }
}

/// What it does to the sale, and the key under which that is afterwards.
const CHANGES: [(&str, &str); 3] =
    [("RENAME sale other", "other"), ("STOCK.ALTER sale LIMIT 8", "sale"), ("DEBUG RELOAD", "sale")];

#[test]
fn a_sale_that_has_changed_is_not_changed_again() {
    for (reaction, key) in CHANGES {
        let mut scene = Scene::set();
        scene.react(reaction);
        let reply = scene.client.cmd("STOCK.DECR_ONCE sale ann QTY 3 REF r");
        let reacted = scene.reacted();
        assert!(err(SAID).fits(&reply), "{reaction}: {reacted}, {reply:?}");
        assert!(reacted.starts_with("xadd events -> ") && !reacted.contains("-> -"), "{reaction}: {reacted}");
        let told = scene.is_whole(key);
        assert!(told.iter().all(|event| event.id != "ann"), "{reaction}: {told:?}");
        assert!(!orders(&mut scene.client, key).contains_key("ann"), "{reaction}");
        // Asked again, it is done, and the number is the next.
        scene.client.expect(format!("STOCK.DECR_ONCE {key} ann QTY 3 REF r"), ("OK", 3, INT, -1, "r"));
        scene.is_whole(key);
        assert!(!scene.server.log().contains("lockstock: the entry"), "{reaction}: {}", scene.server.log());
    }
}

#[test]
fn so_it_is_with_everything_that_makes_an_event() {
    for request in [
        "STOCK.DECR_ONCE sale ann HOLD 60000",
        "STOCK.CONFIRM sale known",
        "STOCK.CANCEL sale known",
        "STOCK.CANCEL sale paid",
        "STOCK.EXTEND sale known PX 60000",
        "STOCK.ADJUST sale 5",
        "STOCK.ADJUST sale -5",
    ] {
        let mut scene = Scene::set();
        let before = (orders(&mut scene.client, "sale"), books(&mut scene.client, "sale"));
        scene.react("STOCK.ALTER sale LIMIT 8");
        scene.client.expect(request, err(SAID));
        assert_eq!((orders(&mut scene.client, "sale"), books(&mut scene.client, "sale")), before, "{request}");
        assert_eq!(scene.is_whole("sale").len(), 2, "{request}");
        scene.client.expect(request, ANY);
        assert_eq!(scene.is_whole("sale").len(), 3, "{request}");
    }
}

#[test]
fn a_sale_that_is_gone_or_another_is_left_alone() {
    for reaction in ["DEL sale", "UNLINK sale", "SET sale text", "EXPIRE sale -1", "MOVE sale 1"] {
        let mut scene = Scene::set();
        scene.react(reaction);
        scene.client.expect("STOCK.DECR_ONCE sale ann", err(SAID));
        assert!(!scene.reacted().contains("-> -"), "{reaction}");
        scene.client.expect("LISTENER.FORGET", OK);
        assert_eq!(events(&mut scene.client, "events").len(), 2, "{reaction}");
        scene.replica.wait_in_sync(&scene.server);
        assert_eq!(scene.replica.digest(), scene.server.digest(), "{reaction}");
    }
    // One that is just like it, under the same name: what was decided on is not there any more.
    let mut scene = Scene::set();
    let dump = scene.client.cmd("DUMP sale").bytes();
    scene.react([&b"RESTORE"[..], b"sale", b"0", &dump, b"REPLACE"]);
    scene.client.expect("STOCK.DECR_ONCE sale ann", err(SAID));
    assert_eq!(scene.is_whole("sale").len(), 2);
    scene.client.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 7, -1, ""));
    assert_eq!(scene.is_whole("sale").len(), 3);
}

#[test]
fn a_lapse_is_tried_again() {
    for (reaction, key) in [("STOCK.ALTER sale LIMIT 8", "sale"), ("RENAME sale other", "other")] {
        let mut scene = Scene::set();
        scene.client.expect("STOCK.DECR_ONCE sale short HOLD 1000", ("OK", 1, 7, INT, ""));
        scene.react(reaction);
        eventually("the hold lapses", || {
            let order = scene.client.cmd(["STOCK.ORDER", key, "short"]);
            order != Reply::Nil(harness::Nil::Bulk) && scene.client.cmd("XLEN events").int() == 4
        });
        let told = scene.is_whole(key);
        assert_eq!(told.len(), 4, "{reaction}: {told:?}");
        assert_eq!(
            told.last().map(|event| (event.seq, event.event.as_str(), event.id.as_str())),
            Some((4, "expire", "short"))
        );
    }
}

#[test]
fn the_lapses_that_were_done_before_stay_done() {
    let mut scene = Scene::set();
    let lapsing =
        ["MULTI", "STOCK.DECR_ONCE sale a QTY 4 HOLD 1", "STOCK.DECR_ONCE sale b QTY 4 HOLD 1", "DEBUG SLEEP 0.01"];
    scene.client.expect("LISTENER.ON events SERVER 4 STOCK.ALTER sale LIMIT 8", OK);
    // Two lapse, and the event of the second is the one.
    let calls: Vec<&str> = lapsing.into_iter().chain(["STOCK.DECR_ONCE sale ann QTY 8", "EXEC"]).collect();
    scene.client.pipeline(calls)[5].at(3).clone().is(err(SAID));
    eventually("the other lapses", || scene.client.cmd("STOCK.INFO sale").field("expired") == Reply::Int(2));
    let told: Vec<String> =
        scene.is_whole("sale").into_iter().map(|event| format!("{} {}", event.event, event.id)).collect();
    assert_eq!(told, ["ok known", "ok paid", "ok a", "ok b", "expire a", "expire b"]);
    scene.client.expect("STOCK.DECR_ONCE sale ann QTY 8", ("OK", 8, 0, -1, ""));
}

#[test]
fn what_cannot_be_taken_out_any_more_is_in_the_log() {
    let mut scene = Scene::set();
    scene.react("FLUSHALL");
    scene.client.expect("STOCK.DECR_ONCE sale ann", err(SAID));
    let said = "tells what did not happen in the sale sale: the entry is not there any more";
    eventually("the log says so", || scene.server.log().contains(said));
    scene.client.expect("DBSIZE", 0);
}

#[test]
fn another_module_sells_in_nobodys_name() {
    let mut scene = Scene::set();
    scene.client.expect("LISTENER.CALL STOCK.DECR_ONCE sale ann HOLD 60000", ("OK", 1, 7, INT, ""));
    scene.client.expect("LISTENER.LATER STOCK.CONFIRM sale ann", OK);
    eventually("it is confirmed", || scene.client.cmd("XLEN events").int() == 4);
    let told = scene.is_whole("sale");
    let told: Vec<(&str, &str)> = told.iter().map(|event| (event.event.as_str(), event.id.as_str())).collect();
    assert_eq!(told, [("ok", "known"), ("ok", "paid"), ("ok", "ann"), ("confirm", "ann")]);
}

/// Whichever of several sales is changed meanwhile, nothing is taken from any, and no stream tells of it.
#[test]
fn a_cart_of_which_one_sale_has_changed_is_not_taken() {
    for (reaction, at) in [
        ("STOCK.ALTER sale LIMIT 8", 1),
        ("STOCK.ALTER other LIMIT 8", 1),
        ("STOCK.ALTER sale LIMIT 8", 2),
        ("STOCK.ALTER other LIMIT 8", 2),
        ("STOCK.DECR_ONCE quiet bob", 1),
        ("STOCK.DECR_ONCE quiet bob", 2),
        ("DEL other", 1),
        ("RENAME quiet away", 2),
    ] {
        let mut scene = Scene::set();
        scene.client.expect("STOCK.CREATE other 10 STREAM other-events", OK);
        scene.client.expect("STOCK.CREATE quiet 10", OK);
        scene.client.expect("LISTENER.FORGET", OK);
        scene.client.expect(format!("LISTENER.ON events SERVER {at} {reaction}"), OK);
        let call = "STOCK.MDECR_ONCE cart 3 sale 1 quiet 1 other 1 HOLD 60000";
        let reply = scene.client.cmd(call);
        let reacted = scene.client.expect("LISTENER.SEEN events", ANY);
        assert!(err(SAID).fits(&reply), "{reaction} at {at}: {reacted:?}, {reply:?}");
        let told = scene.is_whole("sale");
        assert!(told.iter().all(|event| event.id != "cart"), "{reaction}: {told:?}");
        assert_eq!(events(&mut scene.client, "other-events"), [], "{reaction}");
        for sale in ["sale", "quiet", "away", "other"] {
            scene.client.expect(["STOCK.ORDER", sale, "cart"], harness::NULL);
        }
        assert!(!scene.server.log().contains("lockstock: the entry"), "{reaction}: {}", scene.server.log());
    }
}
