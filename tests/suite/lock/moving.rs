//! Locks whose slot moves key by key, or as a whole, while commands come to both nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::{ANY, Client, Cluster, INT, NULL, OK, Reply, err, eventually, random};

use crate::support::line::Line;

const KEYS: [&str; 4] = ["{x}0", "{x}1", "{x}2", "{x}3"];

/// Runs `command` on `{x}0` at the source, while `{x}1` has moved and "both" waits for the two of them, with "behind" behind it for `{x}1`.
#[track_caller]
fn grants_neither(command: &str, answer: i64) {
    for notify in ["", " NOTIFY news"] {
        let cluster = Cluster::start(2);
        let from = cluster.owner("{x}");
        let (source, target) = (cluster.node(from), cluster.node(1 - from));
        let mut line = Line::at(source);
        let (mut admin, mut news) = (source.client(), source.client());
        news.expect("SUBSCRIBE news", ANY);
        admin.expect("LOCK.ACQUIRE {x}0 TOKEN holder PX 60000", ANY);
        admin.expect("LOCK.ACQUIRE {x}1 TOKEN other PX 60000", ANY);
        let both = format!("LOCK.MACQUIRE 2 {{x}}0 {{x}}1 TOKEN both WAIT 0{notify}");
        let behind = format!("LOCK.ACQUIRE {{x}}1 TOKEN behind WAIT 0{notify}");
        let (mut both, mut behind) = (line.join(both), line.join(behind));
        for waiter in [&mut both, &mut behind].into_iter().filter(|_| !notify.is_empty()) {
            waiter.read().is(INT);
        }
        cluster.begin_move("{x}", from, 1 - from);
        cluster.move_key("{x}1", from, 1 - from);
        admin.expect(command, answer);
        // Whatever the source grants, it grants within the command or in the next turn of its timer.
        line.until("lock_waiters", if command.ends_with("both") { 1 } else { 2 });
        assert_eq!(line.count("lock_grants"), 2, "{command}{notify}");
        assert!(news.try_read(Duration::from_millis(50)).is_none_or(|told| told.at(2).text().contains("CANCELLED")));
        let mut asking = target.client();
        asking.expect("ASKING", OK);
        asking.expect("LOCK.ACQUIRE {x}1 TOKEN third", NULL);
    }
}

#[test]
fn no_command_grants_a_key_that_has_moved() {
    grants_neither("LOCK.RELEASE {x}0 holder", 1);
    grants_neither("LOCK.MRELEASE holder 1 {x}0", 1);
}

#[test]
fn nor_does_one_that_ends_a_wait_over_another_key() {
    grants_neither("LOCK.RELEASE {x}0 both", 0);
}

/// Two nodes, a slot that moves between them, and tokens that use its locks as the client of a cluster does.
struct Stage {
    cluster: Cluster,
    owner: usize,
    moving: bool,
    tokens: Vec<Token>,
    /// The largest fence granted for each key so far.
    fences: BTreeMap<&'static str, i64>,
    granted: usize,
    moves: usize,
}

#[derive(Default)]
struct Token {
    /// A connection to each node.
    lines: [Option<Client>; 2],
    /// The request that waits: at which node, for which keys, and since when it has had no answer.
    waits: Option<(usize, Vec<&'static str>, Instant, u64)>,
    /// The locks that the token holds, and until when they are certainly its own.
    holds: BTreeMap<&'static str, Instant>,
}

impl Stage {
    fn set(tokens: usize) -> Self {
        let cluster = Cluster::start(2);
        let owner = cluster.owner("{x}");
        // The last one asks for nothing: its connections are never parked.
        let tokens = (0..=tokens).map(|_| Token::default()).collect();
        Self { cluster, owner, moving: false, tokens, fences: BTreeMap::new(), granted: 0, moves: 0 }
    }

    fn line(&mut self, token: usize, node: usize) -> &mut Client {
        let server = self.cluster.node(node);
        self.tokens[token].lines[node].get_or_insert_with(|| server.client())
    }

    /// Returns when `node` has dealt with all that was sent to it before.
    fn sync(&self, node: usize) {
        let mut eye = self.cluster.node(node).client();
        for _ in 0..2 {
            eye.expect("PING", ANY);
        }
    }

    /// Sends a command as the client of a cluster does; the node that it came to in the end, and its answer unless it waits.
    fn say(&mut self, token: usize, words: &str) -> (usize, Option<Reply>) {
        let mut node = self.owner;
        let mut asking = false;
        loop {
            if asking {
                self.line(token, node).expect("ASKING", OK);
            }
            self.line(token, node).send(words);
            self.sync(node);
            match self.line(token, node).try_read(Duration::from_millis(2)) {
                Some(Reply::Error(error)) if error.starts_with("ASK ") && !asking => (node, asking) = (1 - node, true),
                // The other node does not know yet that the slot is its own.
                Some(Reply::Error(error)) if error.starts_with("MOVED") && !asking => node = 1 - node,
                reply => return (node, reply),
            }
        }
    }

    fn acquire(&mut self, token: usize, keys: &[&'static str], wait: &str, lease: u64) {
        let begun = Instant::now();
        let words = match keys {
            [key] => format!("LOCK.ACQUIRE {key} TOKEN t{token} PX {lease} {wait}"),
            _ => format!("LOCK.MACQUIRE {} {} TOKEN t{token} PX {lease} {wait}", keys.len(), keys.join(" ")),
        };
        let (node, reply) = self.say(token, &words);
        if let Some(reply) = reply {
            return self.answered(token, keys, begun, lease, &reply);
        }
        // The grant may shorten the lease of what the token holds already, before the token hears of it.
        let certain = begun + Duration::from_millis(lease.saturating_sub(20));
        let Token { waits, holds, .. } = &mut self.tokens[token];
        holds.iter_mut().filter(|(key, _)| keys.contains(key)).for_each(|(_, until)| *until = certain.min(*until));
        *waits = Some((node, keys.to_vec(), begun, lease));
    }

    /// A request has its answer. No other token may certainly hold what was granted, and no fence comes twice.
    #[track_caller]
    fn answered(&mut self, token: usize, keys: &[&'static str], since: Instant, lease: u64, reply: &Reply) {
        if !matches!(reply, Reply::Array(_)) {
            return;
        }
        self.granted += 1;
        let (fence, now) = (reply.at(1).int(), Instant::now());
        // The server counts whole milliseconds, and its clock may be some behind.
        let until = since + Duration::from_millis(lease.saturating_sub(20));
        for key in keys {
            for (other, state) in self.tokens.iter().enumerate().filter(|(other, _)| *other != token) {
                let held = state.holds.get(key).is_some_and(|until| now < *until);
                assert!(!held, "{key} was granted to t{token} while t{other} held it");
            }
            let renewed = self.tokens[token].holds.contains_key(key);
            let last = self.fences.entry(key).or_default();
            assert!(fence > *last || renewed, "{key}: {fence} after {last}");
            *last = fence.max(*last);
            self.tokens[token].holds.insert(key, until);
        }
    }

    /// Reads what has come for the requests that wait, the earliest grant first.
    fn hear(&mut self) {
        let mut heard = vec![];
        for token in 0..self.tokens.len() {
            let Some((node, keys, since, lease)) = self.tokens[token].waits.take() else { continue };
            match self.line(token, node).try_read(Duration::from_millis(1)) {
                Some(reply) => heard.push((token, keys, since, lease, reply)),
                None => self.tokens[token].waits = Some((node, keys, Instant::now(), lease)),
            }
        }
        heard.sort_by_key(|(.., reply)| if matches!(reply, Reply::Array(_)) { reply.at(1).int() } else { 0 });
        for (token, keys, since, lease, reply) in heard {
            self.answered(token, &keys, since, lease, &reply);
        }
    }

    /// Ends what the token holds, and its wait.
    fn release(&mut self, token: usize, keys: &[&'static str]) {
        // Whatever the answer, from here on another token may have the locks.
        self.tokens[token].holds.retain(|key, _| !keys.contains(key));
        for key in keys {
            eventually("the release is done", || {
                matches!(
                    self.say(self.tokens.len() - 1, &format!("LOCK.RELEASE {key} t{token}")).1,
                    Some(Reply::Int(_))
                )
            });
        }
        // The wait may have been granted before the release, which has ended that hold, too.
        self.hear();
        self.tokens[token].holds.retain(|key, _| !keys.contains(key));
    }

    /// One end of each connection of a token goes. What it was granted and has not read is released.
    fn leave(&mut self, token: usize) {
        let gone = std::mem::take(&mut self.tokens[token]);
        gone.lines.into_iter().flatten().for_each(Client::reset);
        self.tokens[token].holds = gone.holds;
        if let Some((node, keys, ..)) = gone.waits {
            self.sync(node);
            self.release(token, &keys);
        }
    }

    fn move_on(&mut self, random: &mut fastrand::Rng) {
        let (from, to) = (self.owner, 1 - self.owner);
        match (self.moving, random.u8(..6)) {
            (false, 0) => {
                if self.cluster.move_whole_slot("{x}", from, to).is_some_and(|begun| !begun.is_error()) {
                    let mut eye = self.cluster.node(from).client();
                    eventually("the slot has moved", || {
                        self.hear();
                        matches!(eye.cmd("LOCK.INFO {x}0"), Reply::Error(text) if text.starts_with("MOVED"))
                    });
                    (self.owner, self.moves) = (to, self.moves + 1);
                    self.cluster.agree();
                }
            }
            (false, _) => {
                self.cluster.begin_move("{x}", from, to);
                self.moving = true;
            }
            (true, 0..4) => {
                let key = KEYS[random.usize(..KEYS.len())];
                self.cluster
                    .node(from)
                    .expect(format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.cluster.node(to).port()), ANY);
            }
            (true, _) => {
                for key in KEYS {
                    let port = self.cluster.node(to).port();
                    self.cluster.node(from).expect(format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"), ANY);
                }
                self.cluster.end_move("{x}", from, to);
                self.cluster.agree();
                (self.owner, self.moving, self.moves) = (to, false, self.moves + 1);
            }
        }
    }
}

#[test]
fn a_release_that_is_sent_after_the_key_leaves_the_wait_where_it_was() {
    let cluster = Cluster::start(2);
    let from = cluster.owner("{x}");
    let (source, target) = (cluster.node(from), cluster.node(1 - from));
    let (mut line, mut admin) = (Line::at(source), source.client());
    admin.expect("LOCK.ACQUIRE {x}0 TOKEN holder PX 60000", ANY);
    let mut waiter = line.join("LOCK.ACQUIRE {x}0 TOKEN waiter WAIT 0");
    cluster.begin_move("{x}", from, 1 - from);
    cluster.move_key("{x}0", from, 1 - from);
    admin.expect("LOCK.RELEASE {x}0 waiter", err("ASK "));
    let mut asking = target.client();
    for (call, answer) in [("LOCK.RELEASE {x}0 waiter", 0), ("LOCK.RELEASE {x}0 holder", 1)] {
        asking.expect("ASKING", OK);
        asking.expect(call, answer);
    }
    // Neither is granted what the other node gives away.
    asking.expect("ASKING", OK);
    asking.expect("LOCK.ACQUIRE {x}0 TOKEN other", ("other", INT, 30_000));
    assert_eq!(waiter.try_read(Duration::from_millis(300)), None);
    line.until("lock_waiters", 1);
    cluster.end_move("{x}", from, 1 - from);
    waiter.read().is(err("MOVED "));
    line.until("lock_waiters", 0);
    target.expect("LOCK.ACQUIRE {x}0 TOKEN waiter", NULL);
}

#[test]
fn whatever_moves_when_a_lock_has_one_holder() {
    let mut random = random();
    let mut stage = Stage::set(5);
    let (end, limit) = (Instant::now() + Duration::from_secs(4), Instant::now() + Duration::from_secs(40));
    let enough = |stage: &Stage| stage.granted > 20 && stage.moves > 2;
    while Instant::now() < end || (!enough(&stage) && Instant::now() < limit) {
        stage.hear();
        let token = random.usize(..stage.tokens.len() - 1);
        let mut keys = KEYS;
        random.shuffle(&mut keys);
        let keys = &keys[..random.usize(1..=3)];
        let waits = stage.tokens[token].waits.is_some();
        match random.u8(..20) {
            0..9 if !waits => {
                let wait = ["", "WAIT 0", "WAIT 0", "WAIT 40"][random.usize(..4)];
                let lease = [60_000, 60_000, 60][random.usize(..3)];
                stage.acquire(token, keys, wait, lease);
            }
            9..14 => stage.release(token, keys),
            14 => drop(stage.say(stage.tokens.len() - 1, &format!("LOCK.EXTEND {} t9 PX 60000", keys[0]))),
            15 => stage.leave(token),
            _ => stage.move_on(&mut random),
        }
    }
    // In the end the slot is at rest, and each wait comes to an end.
    while stage.moving {
        stage.move_on(&mut random);
    }
    eventually("no request waits", || {
        for token in 0..stage.tokens.len() {
            if stage.tokens[token].waits.is_none() {
                stage.release(token, &KEYS);
            }
        }
        stage.hear();
        stage.tokens.iter().all(|token| token.waits.is_none())
    });
    assert!(enough(&stage), "{} grants, {} moves", stage.granted, stage.moves);
}
