//! Playing transitions while the listener interferes, and what has to be so all the while and afterwards.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, OK, Reply, Server, eventually, patiently};

use super::story::{Act, Story};
use crate::support::line::Line;

/// One transition with one interference.
struct Play<'a> {
    story: &'a Story,
    number: usize,
    /// At which of its events.
    nth: usize,
    reaction: &'a str,
    waiters: Vec<Client>,
    replies: Vec<Option<Reply>>,
    /// What the acting client was told, if it is not what the story says.
    reply: Option<Reply>,
}

/// A primary with a listener and an append-only file, and its replica.
pub struct Scene {
    server: Server,
    replica: Server,
    /// One for each database.
    eyes: [Client; 2],
    /// The class of events that the listener answers.
    class: &'static str,
    plays: usize,
    wrong: BTreeSet<String>,
}

/// No story has so many events.
const NEVER: usize = 1_000_000;

/// The keys of a play.
const LOCKS: [&str; 4] = ["k", "l", "m", "o"];

impl Scene {
    /// The listener answers events of `class`.
    #[track_caller]
    pub fn set(class: &'static str) -> Self {
        let server = Server::builder().aof("no").config(&harness::listener::line()).start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let mut eyes = [server.client(), server.client()];
        eyes[1].expect("SELECT 1", OK);
        Self { server, replica, eyes, class, plays: 0, wrong: BTreeSet::new() }
    }

    /// Plays every story with each of the `reactions` at each of its events, one reaction in all of them at a time.
    #[track_caller]
    pub fn play(self, stories: &[Story], reactions: &[&'static str]) {
        self.play_all(stories, reactions, false);
    }

    /// The same with reactions that change nothing; so nothing is different.
    #[track_caller]
    pub fn play_quietly(self, stories: &[Story], reactions: &[&'static str]) {
        self.play_all(stories, reactions, true);
    }

    #[track_caller]
    fn play_all(mut self, stories: &[Story], reactions: &[&'static str], quiet: bool) {
        let rehearsed = self.rehearse(stories);
        // Valkey 8 leaves the client of a MOVE in the other database when a module listens, an append-only file that it loads, too.
        let astray = self.server.is_valkey() && self.server.version() < [9, 0, 0];
        for reaction in reactions.iter().filter(|reaction| !(astray && reaction.starts_with("MOVE"))) {
            let nths = stories
                .iter()
                .zip(&rehearsed)
                .flat_map(|(story, (events, _))| (1..=*events).map(move |nth| (story, nth)));
            let plays = self.all_at_once(nths.map(|(story, nth)| (story, nth, *reaction)).collect());
            for play in plays.iter().filter(|_| quiet) {
                let told = rehearsed
                    .iter()
                    .zip(stories)
                    .find(|(_, story)| story.name == play.story.name)
                    .map(|(quiet, _)| &quiet.1);
                if told != Some(&play.told()) {
                    self.wrong(play, &format!("the waiters are told {:?} instead of {told:?}", play.told()));
                }
            }
            if !self.wrong.is_empty() {
                break;
            }
        }
        self.end();
    }

    /// As [`Scene::play`], but one play after another.
    #[track_caller]
    pub fn play_singly(mut self, stories: &[Story], reactions: &[&'static str]) {
        let rehearsed = self.rehearse(stories);
        for reaction in reactions {
            for (story, (events, _)) in stories.iter().zip(&rehearsed) {
                for nth in 1..=*events {
                    self.all_at_once(vec![(story, nth, reaction)]);
                    if !self.wrong.is_empty() {
                        return self.end();
                    }
                }
            }
        }
        self.end();
    }

    /// How many events each story has when nobody interferes, and what its waiters are told.
    #[track_caller]
    fn rehearse(&mut self, stories: &[Story]) -> Vec<(usize, Vec<String>)> {
        let plays = self.all_at_once(stories.iter().map(|story| (story, NEVER, "PING")).collect());
        let rehearsed: Vec<_> = plays.iter().map(|play| (self.seen(play.number).len(), play.told())).collect();
        assert!(rehearsed.iter().all(|(events, _)| *events > 0), "every story has events");
        rehearsed
    }

    #[track_caller]
    fn all_at_once<'a>(&mut self, plays: Vec<(&'a Story, usize, &'a str)>) -> Vec<Play<'a>> {
        let mut plays: Vec<Play> =
            plays.into_iter().map(|(story, nth, reaction)| self.begin(story, nth, reaction)).collect();
        self.comes_to_an_end(&mut plays);
        for play in &mut plays {
            self.judge(play);
        }
        plays
    }

    #[track_caller]
    fn begin<'a>(&mut self, story: &'a Story, nth: usize, reaction: &'a str) -> Play<'a> {
        self.plays += 1;
        let number = self.plays;
        let call = |text: &str| text.replace('#', &number.to_string());
        let mut actor = self.server.client();
        for before in story.before {
            actor.expect(call(before), ANY);
        }
        let mut line = Line::at(&self.server);
        let waiters: Vec<Client> = story.waiting.iter().map(|request| line.join(call(request))).collect();
        self.eyes[0].expect(call(&format!("LISTENER.ON -# {} {nth} {reaction}", self.class)), OK);
        let replies = waiters.iter().map(|_| None).collect();
        let mut play = Play { story, number, nth, reaction, waiters, replies, reply: None };
        match story.act {
            Act::Call(request, want) => {
                let reply = actor.cmd(call(request));
                if !want().fits(&reply) {
                    play.reply = Some(reply);
                }
                actor.expect("ECHO mark", "mark");
                self.look(&play);
            }
            Act::HangUp => drop(actor),
            Act::Lease => {}
        }
        play
    }

    /// No two tokens hold together.
    #[track_caller]
    fn look(&mut self, play: &Play) {
        for db in [0, 1] {
            for lock in LOCKS.map(|name| format!("{name}-{}", play.number)) {
                let info = self.eyes[db].cmd(["LOCK.INFO", &lock]);
                if let Reply::Nil(_) | Reply::Error(_) = info {
                    continue;
                }
                if info.field("mode").text() == "exclusive" && info.field("holders").items().len() != 1 {
                    self.wrong(play, &format!("{lock} in {db}: {info:?}"));
                }
            }
        }
    }

    /// Every waiter is answered, and every lock and hold of a sale ends by itself.
    #[track_caller]
    fn comes_to_an_end(&mut self, plays: &mut [Play]) {
        let mut left = String::new();
        let ended = patiently(|| {
            for play in plays.iter_mut() {
                play.listen();
            }
            let locks = self.held();
            for play in plays.iter().filter(|play| locks.iter().any(|lock| play.has(lock))) {
                self.look(play);
            }
            let waiting: Vec<&Play> = plays.iter().filter(|play| play.replies.iter().any(Option::is_none)).collect();
            left = format!("{locks:?}, {:?}", waiting.iter().map(|play| play.title()).collect::<Vec<_>>());
            let over = locks.is_empty() && waiting.is_empty();
            (over && plays.iter().all(|play| play.nth == NEVER || self.has_reacted(play))).then_some(())
        });
        if ended.is_none() {
            let locks = self.held();
            for play in plays.iter() {
                let stuck: Vec<&String> = locks.iter().filter(|lock| play.has(lock)).collect();
                let waits = play.replies.iter().filter(|reply| reply.is_none()).count();
                if !stuck.is_empty() || waits > 0 || !self.has_reacted(play) {
                    let events = self.seen(play.number);
                    self.wrong(
                        play,
                        &format!("held for ever: {stuck:?}; waiters without a reply: {waits}; {events:#?}"),
                    );
                }
            }
            self.eyes[0].expect("FLUSHALL", OK);
            // Every waiter is granted then, and its hold ends.
            eventually(&format!("what was left ends with FLUSHALL: {left}"), || self.held().is_empty());
        }
        for play in plays.iter_mut() {
            for waiter in
                play.waiters.iter_mut().zip(&play.replies).filter_map(|(waiter, reply)| reply.as_ref().map(|_| waiter))
            {
                waiter.expect("ECHO mark", "mark");
            }
        }
        self.replica_has_the_same(plays);
        for (section, field) in
            [("lockstock", "locks_held"), ("lockstock", "lock_waiters"), ("clients", "blocked_clients")]
        {
            let name = if section == "lockstock" { format!("lockstock_{field}") } else { field.into() };
            let mut count = 0;
            let none = patiently(|| {
                count = self.server.info_int(section, &name);
                (count == 0).then_some(())
            });
            if none.is_none() {
                self.wrong(&plays[0], &format!("and others: {name} is {count}"));
            }
        }
    }

    /// Whether the listener has done what it should.
    #[track_caller]
    fn has_reacted(&mut self, play: &Play) -> bool {
        self.seen(play.number).iter().any(|event| event.contains(" -> "))
    }

    #[track_caller]
    fn replica_has_the_same(&mut self, plays: &[Play]) {
        let mut digests = [String::new(), String::new()];
        let same = patiently(|| {
            digests = [self.server.digest(), self.replica.digest()];
            (digests[0] == digests[1]).then_some(())
        });
        if same.is_none() {
            self.wrong(&plays[0], "and others: the replica has something else");
        }
    }

    /// The replies to the acting client, to the waiters and to the listener; and what is left in the end.
    #[track_caller]
    fn judge(&mut self, play: &Play) {
        let fence = |reply: &Reply| match reply {
            Reply::Array(grant) => Some(grant[1].int()),
            _ => None,
        };
        let fences: Vec<i64> = play.replies.iter().flatten().filter_map(fence).collect();
        if fences.iter().collect::<BTreeSet<_>>().len() != fences.len() {
            self.wrong(play, &format!("a fence was given twice: {fences:?}"));
        }
        let events = self.seen(play.number);
        // Of a new key the server tells in the middle of its making, when lockstock does not take further commands.
        let refused = |event: &&String| {
            let unknown = event.contains("could not carry this out") && !event.starts_with("new ");
            unknown || event.contains("Bad data format")
        };
        for event in events.iter().filter(refused) {
            self.wrong(play, event);
        }
        // While an event is appended its change is not made yet, and a change of another client can come first; else nothing is undone.
        let first = events.iter().any(|event| event.starts_with("xadd ") && event.contains(" -> "));
        if let Some(reply) = play.reply.as_ref().filter(|_| !first) {
            self.wrong(play, &format!("the reply is {reply:?}; {events:#?}"));
        }
        for (db, sale) in
            [(0, "s"), (0, "t"), (0, "o"), (1, "s")].map(|(db, name)| (db, format!("{name}-{}", play.number)))
        {
            if self.eyes[db].cmd(["TYPE", &sale]) == Reply::Simple("lockstk-s".into())
                && let Err(why) = panic::catch_unwind(AssertUnwindSafe(|| self.judge_sale(play, db, &sale)))
            {
                let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
                self.wrong(play, &format!("{sale}: {why}; {events:#?}"));
            }
        }
    }

    /// The units of the sale are in one place each, and its stream, if nobody else has changed that, tells the same story.
    #[track_caller]
    fn judge_sale(&mut self, play: &Play, db: usize, sale: &str) {
        let letter = if sale.starts_with('t') { "f" } else { "e" };
        let (eye, stream) = (&mut self.eyes[db], format!("{letter}-{}", play.number));
        let (books, orders) = (books(eye, sale), orders(eye, sale));
        let sum = |state: &str| orders.values().filter(|order| order.state == state).map(|order| order.units).sum();
        assert_eq!((books.held, books.sold), (sum("held"), sum("sold")), "{orders:?}");
        if db == 0 && !play.reaction.contains("e-#") && !play.reaction.contains('@') {
            let told = match self.eyes[0].cmd(["TYPE", &stream]) {
                Reply::Simple(kind) if kind == "stream" => events(&mut self.eyes[0], &stream),
                _ => return,
            };
            let adjusted: i64 = told.iter().filter(|event| event.event == "adjust").map(|event| event.units).sum();
            Replay::of(books.total - adjusted, &told).agrees_with(&mut self.eyes[0], sale);
        }
    }

    /// The events of a play, with the reaction's reply behind that which it came upon.
    #[track_caller]
    fn seen(&mut self, number: usize) -> Vec<String> {
        self.eyes[0].expect(["LISTENER.SEEN", &format!("-{number}")], ANY).items().iter().map(Reply::text).collect()
    }

    /// Every lock, and every sale that holds units.
    #[track_caller]
    fn held(&mut self) -> Vec<String> {
        let mut found = vec![];
        for eye in &mut self.eyes {
            let page = eye.cmd("SCAN 0 COUNT 1000000 TYPE lockstk-l");
            found.extend(page.at(1).items().iter().map(Reply::text));
            let page = eye.cmd("SCAN 0 COUNT 1000000 TYPE lockstk-s");
            let sales: Vec<String> = page.at(1).items().iter().map(Reply::text).collect();
            // By now the listener may have put something else there.
            let held = |sale: &String| match eye.cmd(["STOCK.ORDERS", sale, "0", "STATE", "held"]) {
                Reply::Array(page) => !page[1].items().is_empty(),
                _ => true,
            };
            found.extend(sales.into_iter().filter(held));
        }
        found
    }

    fn wrong(&mut self, play: &Play, what: &str) {
        self.wrong.insert(format!("{}: {what}", play.title()));
    }

    /// The file says the same, and nothing was wrong.
    #[track_caller]
    fn end(mut self) {
        let plays = self.plays;
        let wrong: Vec<&str> = self.wrong.iter().map(String::as_str).collect();
        assert!(wrong.is_empty(), "{} of {plays} plays:\n{}", wrong.len(), wrong.join("\n"));
        self.eyes[0].expect("LISTENER.FORGET", OK);
        let before = (self.server.digest(), self.server.keys());
        self.eyes[0].expect("DEBUG LOADAOF", OK);
        // What is appended in the middle of an append is in the file before it, and then the server does not take the other. That is
        // taken out again anyhow, but a stream counts such entries.
        if self.class != "SERVER" {
            self.server.keys().are(&before.1);
        }
        assert_eq!(self.server.digest(), before.0);
    }
}

impl Play<'_> {
    fn title(&self) -> String {
        format!("{}, {} at event {}", self.story.name, self.reaction, self.nth)
    }

    fn has(&self, key: &str) -> bool {
        key.split_once('-').is_some_and(|(_, number)| number == self.number.to_string())
    }

    /// Reads what came for the waiters.
    fn listen(&mut self) {
        for (waiter, reply) in self.waiters.iter_mut().zip(&mut self.replies).filter(|(_, reply)| reply.is_none()) {
            *reply = waiter.try_read(Duration::from_micros(1));
        }
    }

    /// The waiters that were granted and those that were not.
    fn told(&self) -> Vec<String> {
        let told = |reply: &Reply| match reply {
            Reply::Array(grant) => format!("granted to {:?}", grant[0]),
            other => format!("{other:?}"),
        };
        self.replies.iter().flatten().map(told).collect()
    }
}
