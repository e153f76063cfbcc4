//! A panic in the middle: every transition of locks and sales is cut short before its first step towards the world, before its second,
//! its third … until it has no more. Afterwards nobody is stuck, the books are right, and a replica has what the primary has.
//!
//! Needs a module with the feature `inject-faults`: `make test-panics` builds it and runs these.

use std::time::{Duration, Instant};
use std::{iter, thread};

use crate::harness::{ANY, Client, INT, OK, PATIENCE, Reply, Server, Words, eventually};
use crate::line::Line;
use crate::shop::{Replay, books, events, orders};

/// One transition. `#` is the number of the play: each has keys of its own.
struct Play {
    name: &'static str,
    /// What the one who acts has done before.
    before: &'static [&'static str],
    /// Who waits, each on a connection of its own.
    waiting: &'static [&'static str],
    act: Act,
    /// The entry from the server that is cut short.
    doing: &'static str,
}

/// What makes the transition happen.
enum Act {
    /// This call.
    Call(&'static str),
    /// This call, before the timer comes to what the ones before it leave to it. `@` in one of those: a hundred and thirty times.
    Before(&'static [&'static str], &'static str),
    /// The connection of the one who acts ends.
    HangUp,
    /// The lease of `a` ends.
    Lease,
    /// The wait of the first who waits ends.
    Wait,
    /// Holds lapse; the sale has seen so many changes then.
    Holds(i64),
}

use Act::{Before, Call, HangUp, Holds, Lease, Wait};

const COMMAND: &str = "a command";
const TIMER: &str = "deferred work";

const fn play(
    name: &'static str,
    before: &'static [&'static str],
    waiting: &'static [&'static str],
    act: Act,
    doing: &'static str,
) -> Play {
    Play { name, before, waiting, act, doing }
}

/// A primary with an append-only file, its replica, and an eye on each.
struct Scene {
    server: Server,
    replica: Server,
    eye: Client,
    replicas_eye: Client,
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn locks_of_one_key() {
    Scene::set().play_all(&[
        play("acquire", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 3600"), COMMAND),
        play("acquire with a session", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 3600 SESSION"), COMMAND),
        play("refused", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.ACQUIRE k-# TOKEN b"), COMMAND),
        play("renew", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 7200"), COMMAND),
        play("extend", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.EXTEND k-# a EX 7200"), COMMAND),
        play("release", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.RELEASE k-# a"), COMMAND),
        play(
            "a reader leaves",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED", "LOCK.ACQUIRE k-# TOKEN b EX 3600 SHARED"],
            &[],
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "upgrade",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED"],
            &[],
            Call("LOCK.ACQUIRE k-# TOKEN a EX 3600"),
            COMMAND,
        ),
        play("several", &[], &[], Call("LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a EX 3600"), COMMAND),
        play(
            "several released",
            &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a EX 3600"],
            &[],
            Call("LOCK.MRELEASE a 3 k-# l-# m-#"),
            COMMAND,
        ),
        play("an effect", &[], &[], Call("LOCK.APPLY k-# HELD a # 9000000000000"), COMMAND),
        play(
            "the effect of an end",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600"],
            &[],
            Call("LOCK.APPLY k-# ENDED a"),
            COMMAND,
        ),
    ]);
}

const HELD: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a EX 3600"];
const ONE: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0"];
const TWO: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE k-# TOKEN x EX 3600 WAIT 0"];

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn locks_that_others_wait_for() {
    const READERS: &[&str] = &[
        "LOCK.ACQUIRE k-# TOKEN w EX 3600 SHARED WAIT 0",
        "LOCK.ACQUIRE k-# TOKEN x EX 3600 SHARED WAIT 0",
        "LOCK.ACQUIRE k-# TOKEN y EX 3600 WAIT 0",
    ];
    Scene::set().play_all(&[
        play("wait", HELD, &[], Call("LOCK.ACQUIRE k-# TOKEN b EX 3600 WAIT 200"), COMMAND),
        play("a waiter asks again", HELD, ONE, Call("LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 200"), COMMAND),
        play("release", HELD, TWO, Call("LOCK.RELEASE k-# a"), COMMAND),
        play("release to readers", HELD, READERS, Call("LOCK.RELEASE k-# a"), COMMAND),
        play("downgrade", HELD, READERS, Call("LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED"), COMMAND),
        play(
            "the last other reader leaves an upgrade",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED", "LOCK.ACQUIRE k-# TOKEN w EX 3600 SHARED"],
            ONE,
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "a request for several gets its last key",
            HELD,
            &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE l-# TOKEN x EX 3600 WAIT 0"],
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "several released to several",
            &["LOCK.MACQUIRE 2 k-# l-# TOKEN a EX 3600"],
            &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE l-# TOKEN x EX 3600 WAIT 0"],
            Call("LOCK.MRELEASE a 2 k-# l-#"),
            COMMAND,
        ),
    ]);
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn locks_that_end_by_themselves_or_vanish() {
    const SHORT: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a PX 100"];
    const SESSION: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SESSION"];
    Scene::set().play_all(&[
        play("lapse", SHORT, &[], Lease, TIMER),
        play("lapse and hand-over", SHORT, TWO, Lease, TIMER),
        play(
            "met before the timer comes",
            HELD,
            TWO,
            Before(&["LOCK.EXTEND k-# a PX 10"], "LOCK.ACQUIRE k-# TOKEN c EX 3600"),
            COMMAND,
        ),
        play("session", SESSION, &[], HangUp, TIMER),
        play("session and hand-over", SESSION, TWO, HangUp, TIMER),
        play("session, as it is heard of", SESSION, ONE, HangUp, "an event"),
        play("DEL", HELD, TWO, Call("DEL k-#"), TIMER),
        play("DEL, as it is heard of", HELD, TWO, Call("DEL k-#"), "letting go of a value"),
        play("overwritten", HELD, TWO, Call("SET k-# text"), TIMER),
        play("RENAME", HELD, ONE, Call("RENAME k-# l-#"), TIMER),
        play("RENAME, as it is heard of", HELD, ONE, Call("RENAME k-# l-#"), "letting go of a value"),
        play("FLUSHALL", HELD, TWO, Call("FLUSHALL"), TIMER),
        play("FLUSHALL, as it is heard of", HELD, TWO, Call("FLUSHALL"), "an event"),
    ]);
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn waiters_that_are_answered_or_leave() {
    const BRIEF: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 100", "LOCK.ACQUIRE k-# TOKEN x EX 3600 WAIT 0"];
    Scene::set().play_all(&[
        play("answered", HELD, TWO, Call("LOCK.RELEASE k-# a"), "an answer to a parked client"),
        play("answered, and done with", HELD, TWO, Call("LOCK.RELEASE k-# a"), "the end of a parked client"),
        play("its time is over", HELD, BRIEF, Wait, "an answer to a parked client"),
        play("its time is over, and done with", HELD, BRIEF, Wait, "the end of a parked client"),
    ]);
}

const SALE: &str = "STOCK.CREATE s-# 10 REBUY";
const TOLD: &str = "STOCK.CREATE s-# 10 REBUY STREAM e-#";

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn sales() {
    Scene::set().play_all(&[
        play("create", &[], &[], Call("STOCK.CREATE s-# 10 LIMIT 5"), COMMAND),
        play("order", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play("hold", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a QTY 2 BUYER b HOLD 3600000 REF r"), COMMAND),
        play("again", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play("confirm", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("STOCK.CONFIRM s-# a"), COMMAND),
        play("cancel", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play("adjust", &[SALE], &[], Call("STOCK.ADJUST s-# 5"), COMMAND),
        play("alter", &[SALE], &[], Call("STOCK.ALTER s-# LIMIT 5"), COMMAND),
        play(
            "extend",
            &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"],
            &[],
            Call("STOCK.EXTEND s-# a PX 7200000"),
            COMMAND,
        ),
        play("confirm late", &[SALE], &[], Before(&["STOCK.DECR_ONCE s-# a HOLD 10"], "STOCK.CONFIRM s-# a"), COMMAND),
        play(
            "order due units",
            &[SALE],
            &[],
            Before(&["STOCK.DECR_ONCE s-# b QTY 10 HOLD 10"], "STOCK.DECR_ONCE s-# a"),
            COMMAND,
        ),
        play(
            "cutoff",
            &["STOCK.CREATE s-# 130"],
            &[],
            Before(&["STOCK.DECR_ONCE s-# h-@ HOLD 10"], "STOCK.DECR_ONCE s-# a QTY 129"),
            COMMAND,
        ),
        play(
            "lapse",
            &[SALE, "STOCK.DECR_ONCE s-# a HOLD 100", "STOCK.DECR_ONCE s-# b HOLD 100"],
            &[],
            Holds(4),
            TIMER,
        ),
        play("RENAME", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("RENAME s-# s-#-new"), TIMER),
        play("UNLINK", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 100"], &[], Call("UNLINK s-#"), "letting go of a value"),
        play("an effect", &[SALE], &[], Call("STOCK.APPLY s-# TAKEN a 2 9000000000000 b r"), COMMAND),
    ]);
}

#[test]
#[ignore = "needs inject-faults: make test-panics"]
fn sales_with_a_stream() {
    Scene::set().play_all(&[
        play("order", &[TOLD], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play("hold", &[TOLD], &[], Call("STOCK.DECR_ONCE s-# a QTY 2 BUYER b HOLD 3600000 REF r"), COMMAND),
        play("confirm", &[TOLD, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("STOCK.CONFIRM s-# a"), COMMAND),
        play("cancel", &[TOLD, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play("adjust", &[TOLD], &[], Call("STOCK.ADJUST s-# 5"), COMMAND),
        play("confirm late", &[TOLD], &[], Before(&["STOCK.DECR_ONCE s-# a HOLD 10"], "STOCK.CONFIRM s-# a"), COMMAND),
        play(
            "order due units",
            &[TOLD],
            &[],
            Before(&["STOCK.DECR_ONCE s-# b QTY 10 HOLD 10"], "STOCK.DECR_ONCE s-# a"),
            COMMAND,
        ),
        play(
            "cutoff",
            &["STOCK.CREATE s-# 130 STREAM e-#"],
            &[],
            Before(&["STOCK.DECR_ONCE s-# h-@ HOLD 10"], "STOCK.DECR_ONCE s-# a QTY 129"),
            COMMAND,
        ),
        play(
            "lapse",
            &[TOLD, "STOCK.DECR_ONCE s-# a HOLD 100", "STOCK.DECR_ONCE s-# b HOLD 100"],
            &[],
            Holds(4),
            TIMER,
        ),
    ]);
}

impl Scene {
    #[track_caller]
    fn set() -> Self {
        let server = Server::builder().aof("no").start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let (eye, replicas_eye) = (server.client(), replica.client());
        Self { server, replica, eye, replicas_eye }
    }

    #[track_caller]
    fn play_all(mut self, plays: &[Play]) {
        for (number, play) in plays.iter().enumerate() {
            // How far it goes when nothing comes in between.
            let steps = self.play(play, 1 << 40, number * 1_000).1;
            let all = 1..=steps;
            let played = all.filter(|step| *step <= 15 || step + 45 > steps || step % 60 == 0);
            let struck = played.filter(|step| self.play(play, *step, number * 1_000 + step).0).count();
            println!("{}, cut short in {}: {struck} times in {steps} steps", play.name, play.doing);
            assert!(struck > 0, "{}: nothing was struck", play.name);
        }
        self.the_file_says_the_same();
    }

    /// Plays with a fault before the step `step`; whether it struck, and how many steps there were.
    #[track_caller]
    fn play(&mut self, play: &Play, step: usize, number: usize) -> (bool, usize) {
        let what = format!("{}, cut short in {} before step {step}", play.name, play.doing);
        let call = |text: &str| text.replace('#', &number.to_string());
        let mut actor = Some(self.server.client());
        for before in play.before {
            actor.as_mut().expect("not gone yet").expect(call(before), ANY);
        }
        let mut line = Line::at(&self.server);
        let mut waiters: Vec<Client> = play.waiting.iter().map(|request| line.join(call(request))).collect();
        let fault = ["LOCK.FAULT", play.doing, &step.to_string()].map(String::from);
        let before = self.eye.expect(&fault[..], ANY).at(0).int();
        match play.act {
            Call(request) => {
                let actor = actor.as_mut().expect("not gone yet");
                // Its reply, and nothing else.
                actor.send(call(request));
                actor.read();
                actor.expect("ECHO mark", "mark");
            }
            Before(leave, request) => {
                let each = |text: &&str| {
                    let count = if text.contains('@') { 130 } else { 1 };
                    (0..count).map(|n| Words::from(call(text).replace('@', &n.to_string()))).collect::<Vec<_>>()
                };
                let calls = iter::once(Words::from("MULTI"))
                    .chain([["LOCK.FAULT", ""].into()])
                    .chain(leave.iter().flat_map(each))
                    .chain([fault[..].into(), "DEBUG SLEEP 0.02".into(), call(request).into(), "EXEC".into()]);
                let replies = actor.as_mut().expect("not gone yet").pipeline(calls);
                let executed = replies.last().expect("a reply to EXEC").items();
                assert!(executed[..executed.len() - 1].iter().all(|reply| !reply.is_error()), "{what}: {executed:?}");
            }
            HangUp => drop(actor.take()),
            Lease | Wait | Holds(_) => {}
        }
        if play.doing == COMMAND {
            self.eye.expect(["LOCK.FAULT", ""], ANY);
        }
        let mut answered = vec![false; waiters.len()];
        match play.act {
            HangUp | Lease => {
                let lock = call("k-#");
                eventually(&format!("{what}: the hold ends"), || {
                    !holders(&mut self.eye, &lock).contains(&"a".to_owned())
                });
            }
            Wait => {
                waiters[0].read();
                answered[0] = true;
            }
            Holds(changes) => {
                let ask = call("STOCK.INFO s-#");
                eventually(&format!("{what}: the holds lapse"), || self.eye.cmd(&ask).field("seq").int() == changes);
            }
            Call(_) | Before(..) => {}
        }
        self.calms_down(&what);
        self.comes_to_an_end(&what, &mut waiters, answered, number.is_multiple_of(2));
        let seen = self.eye.expect(["LOCK.FAULT", ""], ANY);
        self.goes_on(&what, number);
        (seen.at(0).int() > before, usize::try_from(seen.at(1).int()).expect("a few"))
    }

    /// Soon everybody knows the same: the server who is parked, the module who waits and what is held, and the replica everything.
    #[track_caller]
    fn calms_down(&mut self, what: &str) {
        let mut seen = String::new();
        let calm = || {
            let waiters = count(&mut self.eye, "lockstock", "lockstock_lock_waiters");
            let parked = count(&mut self.eye, "clients", "blocked_clients");
            let held = count(&mut self.eye, "lockstock", "lockstock_locks_held");
            let locks = keys(&mut self.eye, "lockstk-l");
            let digests = [&mut self.eye, &mut self.replicas_eye].map(|eye| eye.cmd("DEBUG DIGEST").text());
            seen = format!("{waiters} wait, {parked} are parked, {held} held, {locks:?}, {digests:?}");
            for lock in &locks {
                let info = self.eye.cmd(["LOCK.INFO", lock]);
                let alone = matches!(info, Reply::Nil(_)) || info.field("mode").text() != "exclusive";
                assert!(alone || info.field("holders").items().len() == 1, "{what}: {info:?}");
            }
            waiters == parked
                && i64::try_from(locks.len()).is_ok_and(|locks| locks == held)
                && (waiters == 0 || held > 0)
                && digests[0] == digests[1]
        };
        if !happens(calm) {
            let values = [&mut self.eye, &mut self.replicas_eye].map(show);
            panic!("{what}: {seen}\n{values:#?}");
        }
    }

    /// Every lock ends, by its lease or by DEL, and everybody who waits has one reply.
    #[track_caller]
    fn comes_to_an_end(&mut self, what: &str, waiters: &mut [Client], mut answered: Vec<bool>, by_lease: bool) {
        eventually(&format!("{what}: all waiters are answered and all locks end"), || {
            let locks = keys(&mut self.eye, "lockstk-l");
            for lock in &locks {
                if by_lease {
                    for token in holders(&mut self.eye, lock) {
                        self.eye.expect(["LOCK.EXTEND", lock, &token, "PX", "1"], INT);
                    }
                } else {
                    self.eye.expect(["DEL", lock], INT);
                }
            }
            for (waiter, answered) in waiters.iter_mut().zip(&mut answered).filter(|(_, answered)| !**answered) {
                *answered = waiter.try_read(Duration::from_millis(1)).is_some();
            }
            locks.is_empty() && answered.iter().all(|answered| *answered)
        });
        for waiter in waiters {
            waiter.expect("ECHO mark", "mark");
        }
        self.calms_down(what);
    }

    /// Locks are given and released, sales sell, and their books are right.
    #[track_caller]
    fn goes_on(&mut self, what: &str, number: usize) {
        for key in ["k", "l", "m"].map(|name| format!("{name}-{number}")) {
            self.eye.cmd(["SET", &key, "text"]);
            self.eye.cmd(["DEL", &key]);
            self.eye.expect(["LOCK.ACQUIRE", &key, "TOKEN", "other", "EX", "3600"], ("other", INT, 3_600_000));
            self.eye.expect(["LOCK.RELEASE", &key, "other"], 1);
        }
        for sale in keys(&mut self.eye, "lockstk-s").iter().filter(|sale| sale.contains(&format!("-{number}"))) {
            let has = self.eye.cmd(["STOCK.ORDER", sale, "a"]);
            let again = self.eye.expect(["STOCK.DECR_ONCE", sale, "a", "HOLD", "3600000"], ANY);
            let wanted = if matches!(has, Reply::Nil(_)) || has.field("units").int() == 0 { "OK" } else { "DUPLICATE" };
            assert_eq!(again.at(0).text(), wanted, "{what}: {has:?}");
            let (books, orders) = (books(&mut self.eye, sale), orders(&mut self.eye, sale));
            let sum = |state: &str| orders.values().filter(|order| order.state == state).map(|order| order.units).sum();
            assert_eq!((books.held, books.sold), (sum("held"), sum("sold")), "{what}");
            let stream = format!("e-{number}");
            if self.eye.cmd(["TYPE", &stream]) == Reply::Simple("stream".into()) {
                let mut told = vec![];
                eventually(&format!("{what}: every lapse is told of"), || {
                    told = events(&mut self.eye, &stream);
                    let count = |kind: &str| told.iter().filter(|event| event.event == kind).count();
                    let orders = crate::shop::orders(&mut self.eye, sale);
                    orders.values().filter(|order| order.state == "expired").count() <= count("expire")
                });
                let adjusted: i64 = told.iter().filter(|event| event.event == "adjust").map(|event| event.units).sum();
                Replay::of_all(books.total - adjusted, &told).agrees_with(&mut self.eye, sale);
            }
        }
        eventually(&format!("{what}: INFO counts what there is"), || {
            let sales = keys(&mut self.eye, "lockstk-s");
            let orders: i64 = sales.iter().map(|sale| self.eye.cmd(["STOCK.INFO", sale]).field("orders").int()).sum();
            let told = ["sales", "orders"].map(|name| count(&mut self.eye, "lockstock", &format!("lockstock_{name}")));
            told == [i64::try_from(sales.len()).expect("few"), orders]
        });
        self.calms_down(what);
    }

    /// What the append-only file makes is what there was.
    #[track_caller]
    fn the_file_says_the_same(mut self) {
        let before = self.server.digest();
        self.eye.expect("DEBUG LOADAOF", OK);
        assert_eq!(self.server.digest(), before);
        drop(self.replica);
    }
}

/// Whether `condition` holds some time soon.
fn happens(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The number `field` of a section of INFO.
#[track_caller]
fn count(eye: &mut Client, section: &str, field: &str) -> i64 {
    let text = eye.cmd(["INFO", section]).text();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
}

/// The keys of this type.
#[track_caller]
fn keys(eye: &mut Client, kind: &str) -> Vec<String> {
    let page = eye.cmd(["SCAN", "0", "COUNT", "1000000", "TYPE", kind]);
    assert_eq!(page.at(0).text(), "0", "all keys in one go");
    page.at(1).items().iter().map(Reply::text).collect()
}

/// The tokens that hold `lock`.
#[track_caller]
fn holders(eye: &mut Client, lock: &str) -> Vec<String> {
    match eye.cmd(["LOCK.INFO", lock]) {
        Reply::Nil(_) | Reply::Error(_) => vec![],
        info => info.field("holders").items().iter().map(|holder| holder.field("token").text()).collect(),
    }
}

/// Every lock and sale as a person would look at it.
#[track_caller]
fn show(eye: &mut Client) -> Vec<String> {
    let looks = [("LOCK.INFO", "lockstk-l"), ("STOCK.INFO", "lockstk-s")];
    let look = |(command, kind): (&str, &str)| {
        keys(eye, kind).into_iter().map(|key| format!("{key}: {:?}", eye.cmd([command, &key]))).collect::<Vec<_>>()
    };
    looks.into_iter().flat_map(look).collect()
}
