//! Playing a transition with a fault in it, and what has to be so afterwards.

use std::iter;
use std::time::Duration;

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, INT, OK, Reply, Server, Words, eventually, patiently};

use super::Act::{Before, Call, HangUp, Holds, Lease, Wait};
use super::{COMMAND, Play};
use crate::support::line::Line;

/// A primary with an append-only file, its replica, and an eye on each.
pub struct Scene {
    server: Server,
    replica: Server,
    eye: Client,
    replicas_eye: Client,
}

impl Scene {
    #[track_caller]
    pub fn set() -> Self {
        let server = Server::builder().aof("no").start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        server.take_effects();
        let (eye, replicas_eye) = (server.client(), replica.client());
        Self { server, replica, eye, replicas_eye }
    }

    #[track_caller]
    pub fn play_all(mut self, plays: &[Play]) {
        for (number, play) in plays.iter().enumerate() {
            // How far it goes when nothing comes in between.
            let steps = self.play(play, 1 << 40, number * 1_000).1;
            let all = 1..=steps;
            let played = all.filter(|step| *step <= 12 || step + 42 > steps || step % 100 == 0);
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
        self.no_cart_is_in_part(&what, number);
        self.whoever_was_told_holds(&what, &mut waiters, &mut answered);
        self.comes_to_an_end(&what, &mut waiters, answered, number.is_multiple_of(2));
        let seen = self.eye.expect(["LOCK.FAULT", ""], ANY);
        self.goes_on(&what, number);
        (seen.at(0).int() > before, usize::try_from(seen.at(1).int()).expect("a few"))
    }

    /// Soon all agree: the server on the parked clients, the module on waiters and holds, and the replica on everything.
    #[track_caller]
    fn calms_down(&mut self, what: &str) {
        let mut seen = String::new();
        let mut calm = || {
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
        if patiently(|| calm().then_some(())).is_none() {
            let values = [&mut self.eye, &mut self.replicas_eye].map(show);
            panic!("{what}: {seen}\n{values:#?}");
        }
    }

    /// An order over both sales is the same in both.
    #[track_caller]
    fn no_cart_is_in_part(&mut self, what: &str, number: usize) {
        let sales = ["s", "t"].map(|name| format!("{name}-{number}"));
        if sales.iter().all(|sale| self.eye.cmd(["EXISTS", sale]) == Reply::Int(1)) {
            let [one, other] = sales.map(|sale| self.eye.cmd(["STOCK.ORDER", &sale, "a"]));
            let state = |order: &Reply| (!matches!(order, Reply::Nil(_))).then(|| order.field("state").text());
            assert_eq!(state(&one), state(&other), "{what}: a part of a cart");
        }
    }

    /// A waiter that has read its grant holds the lock with that fence.
    #[track_caller]
    fn whoever_was_told_holds(&mut self, what: &str, waiters: &mut [Client], answered: &mut [bool]) {
        for (waiter, answered) in waiters.iter_mut().zip(answered).filter(|(_, answered)| !**answered) {
            let Some(reply) = waiter.try_read(Duration::from_millis(1)) else { continue };
            *answered = true;
            if let Reply::Array(grant) = &reply {
                let looks = keys(&mut self.eye, "lockstk-l").into_iter().map(|lock| self.eye.cmd(["LOCK.INFO", &lock]));
                let holds = looks.flat_map(|info| info.field("holders").items().to_vec());
                let told = |hold: &Reply| hold.field("token") == grant[0] && hold.field("fence") == grant[1];
                assert!({ holds }.any(|hold| told(&hold)), "{what}: nobody holds {reply:?}");
            }
        }
    }

    /// Every lock ends, by its lease or by DEL, and every waiter has one reply.
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
            // Waiting orders may stay if no unit remains, if the window is closed, or if the first one asks for more units than remain.
            eventually(&format!("{what}: who waits is served"), || {
                let info = self.eye.cmd(["STOCK.INFO", sale]);
                let [waiting, remaining, end] = ["waiting", "remaining", "end"].map(|name| info.field(name).int());
                waiting == 0 || remaining == 0 || end > 0 || waiting == 2 && remaining == 6
            });
            let has = self.eye.cmd(["STOCK.ORDER", sale, "a"]);
            let again = self.eye.expect(["STOCK.DECR_ONCE", sale, "a", "HOLD", "3600000"], ANY);
            let wanted = if matches!(has, Reply::Nil(_)) || has.field("units").int() == 0 { "OK" } else { "DUPLICATE" };
            assert_eq!(again.at(0).text(), wanted, "{what}: {has:?}");
            let (books, orders) = (books(&mut self.eye, sale), orders(&mut self.eye, sale));
            let sum = |state: &str| orders.values().filter(|order| order.state == state).map(|order| order.units).sum();
            assert_eq!((books.held, books.sold), (sum("held"), sum("sold")), "{what}");
            let letter = if sale.starts_with('t') { "f" } else { "e" };
            let stream = format!("{letter}-{number}");
            if self.eye.cmd(["TYPE", &stream]) == Reply::Simple("stream".into()) {
                let mut told = vec![];
                eventually(&format!("{what}: every lapse is told of"), || {
                    told = events(&mut self.eye, &stream);
                    let count = |kind: &str| told.iter().filter(|event| event.event == kind).count();
                    let orders = harness::shop::orders(&mut self.eye, sale);
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
