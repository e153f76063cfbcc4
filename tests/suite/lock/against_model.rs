//! Random commands on the locks of a real server, by several connections, some of them parked; every reply compared with the
//! model's. `LOCKSTOCK_STEPS` makes it longer, `make fuzz` does so.

mod compare;

use std::collections::{BTreeMap, BTreeSet};

use harness::{Client, NULL, OK, Server, err, eventually, random, unix_ms};

use crate::support::edges::edges;
use crate::support::models::lock::{Hold, Lock, Mode, Outcome, Waiter, ask_all};
use crate::support::models::{pass, steps, timed};

const HOUR: i64 = 3_600_000;
/// The longest wait, and the most permits.
const EXACT: i64 = (1 << 53) - 1;
/// Longer than a test lasts, and shorter than most leases here.
const DEFAULT_LEASE: i64 = HOUR - 60_000;
const KEYS: [&str; 3] = ["a", "b", "c"];
const TOKENS: [&str; 6] = ["t1", "t2", "t3", "67e55044-10b1-426f-9247-bb680e5fe0c8", "t5", "%s\\0"];
const CONNECTIONS: usize = 7;

struct Trial {
    server: Server,
    /// Looks, and does what an administrator does.
    eye: Client,
    connections: Vec<Client>,
    /// What the server calls them.
    ids: Vec<i64>,
    locks: BTreeMap<&'static str, Lock>,
    /// Every fence that was given.
    fences: BTreeSet<i64>,
    /// The highest one before this step's waiters got theirs, which have no order from lock to lock.
    newest: i64,
    waited: i64,
    /// When the step began that is being done.
    began: i64,
    random: fastrand::Rng,
}

impl Trial {
    fn key(&mut self) -> &'static str {
        KEYS[self.random.usize(..KEYS.len())]
    }

    fn token(&mut self) -> &'static str {
        TOKENS[self.random.usize(..TOKENS.len())]
    }

    fn lock(&mut self, key: &'static str) -> &mut Lock {
        self.locks.entry(key).or_default()
    }

    fn parked(&self, connection: usize) -> bool {
        self.locks.values().flat_map(|lock| &lock.line).any(|waiter| waiter.connection == connection)
    }

    /// A connection that is not parked.
    fn connection(&mut self) -> usize {
        let free: Vec<usize> = (0..CONNECTIONS).filter(|connection| !self.parked(*connection)).collect();
        free[self.random.usize(..free.len())]
    }

    /// Short, long, or as long as at an edge.
    fn lease(&mut self) -> i64 {
        let edge = self.edge(|edge| (HOUR..i64::MAX - unix_ms() - HOUR).contains(&edge));
        [1, 3, HOUR, HOUR, edge][self.random.usize(..5)]
    }

    /// A number at an edge.
    fn edge(&mut self, fits: impl Fn(i64) -> bool) -> i64 {
        let edges: Vec<i64> = edges(unix_ms()).into_iter().filter(|edge| fits(*edge)).collect();
        edges[self.random.usize(..edges.len())]
    }

    /// One random command, and whatever else happens to a server.
    fn step(&mut self) {
        self.began = unix_ms();
        match self.random.u8(..40) {
            0..15 => self.acquire(),
            15..23 => self.release(),
            23..26 => self.extend(),
            26..29 => self.acquire_all(),
            29..32 => self.release_all(),
            32 => {
                let key = self.key();
                let there = i64::from(self.lock(key).foreign || !self.lock(key).holds.is_empty());
                self.eye.expect(["DEL", key], there);
                let lock = self.lock(key);
                (lock.holds, lock.foreign) = (vec![], false);
            }
            33 => {
                let key = self.key();
                self.eye.expect(["SET", key, "text"], OK);
                let lock = self.lock(key);
                (lock.holds, lock.foreign) = (vec![], true);
            }
            34..37 => self.hang_up(),
            37 => self.out_of_range(),
            _ => drop(self.eye.expect("LOCK.INFO nothing", NULL)),
        }
        self.let_the_short_ones_lapse();
        self.newest = self.fences.last().copied().unwrap_or_default();
        self.hand_over();
        self.newest = self.fences.last().copied().unwrap_or_default();
        for key in KEYS {
            self.looks_like_the_model(key);
        }
    }

    /// A number that is none of its range changes nothing, whatever else the request may be.
    fn out_of_range(&mut self) {
        let (key, token, connection) = (self.key(), self.token(), self.connection());
        let (call, option) = [
            ("LOCK.ACQUIRE # TOKEN %", "PX"),
            ("LOCK.ACQUIRE # TOKEN %", "EX"),
            ("LOCK.ACQUIRE # TOKEN %", "LIMIT"),
            ("LOCK.ACQUIRE # TOKEN %", "WAIT"),
            ("LOCK.MACQUIRE 1 # TOKEN %", "WAIT"),
            ("LOCK.EXTEND # %", "PX"),
        ][self.random.usize(..6)];
        // A moment from now, what is left is less.
        let most = match option {
            "PX" => i64::MAX - unix_ms() + HOUR,
            "EX" => (i64::MAX - unix_ms()) / 1_000 + HOUR,
            _ => EXACT,
        };
        let edge = self.edge(|edge| edge > most || edge < 0);
        let call = call.replace('#', key).replace('%', token);
        let range = format!("ERR {option} must be an integer from ");
        self.connections[connection].expect(format!("{call} {option} {edge}"), err(&range));
    }

    fn acquire(&mut self) {
        let (key, token, connection, lease) = (self.key(), self.token(), self.connection(), self.lease());
        let mode = [Mode::Exclusive, Mode::Exclusive, Mode::Shared, Mode::Limit(self.random.i64(1..4))];
        let mode = mode[self.random.usize(..4)];
        let session = self.random.u8(..3) == 0;
        let mut options = vec![format!("TOKEN {token}"), format!("PX {lease}")];
        match mode {
            Mode::Exclusive => {}
            Mode::Shared => options.push("SHARED".into()),
            Mode::Limit(permits) => options.push(format!("LIMIT {permits}")),
        }
        options.extend(session.then(|| "SESSION".into()));
        let lock = self.locks.entry(key).or_default();
        let outcome = lock.ask(token, mode);
        let stands = lock.hold(token).is_some() || lock.line.iter().any(|waiter| waiter.token == token);
        // A token that holds or waits already would wait differently; the core's own model knows how.
        let idle = (0..CONNECTIONS).filter(|connection| !self.parked(*connection)).count();
        let waits = outcome == Outcome::Refused && !stands && idle > 2 && self.random.bool();
        // Without limit, or for longer than this test.
        let wait = if self.random.bool() { 0 } else { self.edge(|edge| (HOUR..=EXACT).contains(&edge)) };
        options.extend(waits.then(|| format!("WAIT {wait}")));
        self.random.shuffle(&mut options);
        let call = format!("LOCK.ACQUIRE {key} {}", options.join(" "));
        if waits {
            let ((), since) = timed(|| {
                self.connections[connection].send(call);
                self.waited += 1;
                let (server, waited) = (&self.server, self.waited);
                eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waits") == waited);
            });
            self.lock(key).line.push(Waiter { token, mode, lease, wait, session, connection, since });
            return;
        }
        let (reply, when) = timed(|| self.connections[connection].cmd(&call));
        self.was_answered(&call, reply, outcome, |trial, fence| {
            let before = trial.lock(key).hold(token).and_then(|hold| hold.session);
            let session = if session { Some(connection) } else { before };
            trial.lock(key).set(Hold { token, fence, end: end(&when, lease), mode, session });
            (token, lease)
        });
    }

    fn release(&mut self) {
        let (key, token, connection) = (self.key(), self.token(), self.connection());
        let call = format!("LOCK.RELEASE {key} {token}");
        let lock = self.lock(key);
        if lock.foreign {
            self.connections[connection].expect(call, err("WRONGTYPE"));
            return;
        }
        let held = i64::from(lock.hold(token).is_some());
        lock.end(|hold| hold.token == token);
        self.connections[connection].expect(call, held);
        self.cancel(key, token);
    }

    /// What `token` waited for at `key` has ended with its release.
    fn cancel(&mut self, key: &'static str, token: &str) {
        for waiter in self.lock(key).line.extract_if(.., |waiter| waiter.token == token).collect::<Vec<_>>() {
            self.connections[waiter.connection].read().is(NULL);
        }
    }

    /// Extends one hold or several, all or none; without a lease of its own none of them to end sooner.
    fn extend(&mut self) {
        let (mut keys, token, connection) = (self.some_keys(), self.token(), self.connection());
        let lease = self.random.bool().then(|| self.lease());
        let call = if self.random.bool() {
            keys.truncate(1);
            format!("LOCK.EXTEND {} {token}", keys[0])
        } else {
            format!("LOCK.MEXTEND {token} {} {}", keys.len(), keys.join(" "))
        };
        let call = call + &lease.map(|lease| format!(" PX {lease}")).unwrap_or_default();
        let (reply, when) = timed(|| self.connections[connection].cmd(&call));
        let locks: Vec<&Lock> = keys.iter().map(|key| &self.locks[key]).collect();
        if locks.iter().any(|lock| lock.foreign) {
            reply.is(err("WRONGTYPE"));
            return;
        }
        let held = locks.iter().all(|lock| lock.hold(token).is_some());
        reply.is(i64::from(held));
        for key in keys.into_iter().filter(|_| held) {
            let hold = self.lock(key).hold(token).cloned().expect("a hold");
            let end = lease.map_or_else(
                || {
                    let end = end(&when, DEFAULT_LEASE);
                    *end.start().max(hold.end.start())..=*end.end().max(hold.end.end())
                },
                |lease| end(&when, lease),
            );
            self.lock(key).set(Hold { end, ..hold });
        }
    }

    fn some_keys(&mut self) -> Vec<&'static str> {
        let mut keys: Vec<&'static str> = (0..self.random.usize(1..5)).map(|_| self.key()).collect();
        for key in &keys {
            self.lock(key);
        }
        self.random.shuffle(&mut keys);
        keys
    }

    fn acquire_all(&mut self) {
        let (keys, token, connection, lease) = (self.some_keys(), self.token(), self.connection(), self.lease());
        let session = self.random.u8(..3) == 0;
        let options = if session { "SESSION" } else { "" };
        let call = format!("LOCK.MACQUIRE {} {} TOKEN {token} PX {lease} {options}", keys.len(), keys.join(" "));
        // A request for one key is like any other.
        let is_one = keys.iter().all(|key| *key == keys[0]);
        let alone = |trial: &Self| trial.locks[keys[0]].ask(token, Mode::Exclusive);
        let outcome = if is_one { alone(self) } else { ask_all(&self.locks, &keys, token) };
        let (reply, when) = timed(|| self.connections[connection].cmd(&call));
        self.was_answered(&call, reply, outcome, |trial, fence| {
            let renewed = matches!(outcome, Outcome::Granted { fence: Some(_) });
            for key in keys {
                let lock = trial.lock(key);
                // An upgrade keeps its session, too.
                let before = lock.hold(token).filter(|_| renewed || is_one).and_then(|hold| hold.session);
                let session = if session { Some(connection) } else { before };
                lock.set(Hold { token, fence, end: end(&when, lease), mode: Mode::Exclusive, session });
            }
            (token, lease)
        });
    }

    fn release_all(&mut self) {
        let (keys, token, connection) = (self.some_keys(), self.token(), self.connection());
        let call = format!("LOCK.MRELEASE {token} {} {}", keys.len(), keys.join(" "));
        if keys.iter().any(|key| self.locks[key].foreign) {
            self.connections[connection].expect(call, err("WRONGTYPE"));
            return;
        }
        let mut released = 0;
        for key in &keys {
            released += i64::from(self.lock(key).hold(token).is_some());
            self.lock(key).end(|hold| hold.token == token);
        }
        self.connections[connection].expect(call, released);
        for key in keys {
            self.cancel(key, token);
        }
    }

    /// A connection ends, with its sessions and its place in line, and another one takes its number.
    fn hang_up(&mut self) {
        let connection = self.random.usize(..CONNECTIONS);
        let mut fresh = self.server.client();
        self.ids[connection] = fresh.cmd("CLIENT ID").int();
        let gone = std::mem::replace(&mut self.connections[connection], fresh);
        if self.random.bool() {
            gone.reset();
        } else {
            gone.close();
        }
        for lock in self.locks.values_mut() {
            lock.end(|hold| hold.session == Some(connection));
            lock.line.retain(|waiter| waiter.connection != connection);
        }
        // The server has to notice it first: the waiters are as many as the connections, or fewer by this one and the observer.
        let Self { server, .. } = self;
        let all = i64::try_from(CONNECTIONS).expect("few") + 2;
        eventually("the connection is gone", || server.info_int("clients", "connected_clients") == all);
    }

    /// Nothing is compared near a deadline: leases that end soon have ended before the next command.
    fn let_the_short_ones_lapse(&mut self) {
        let soon = unix_ms() + HOUR / 2;
        let ends = self.locks.values().flat_map(|lock| &lock.holds).map(|hold| *hold.end.end());
        if let Some(last) = ends.filter(|end| *end < soon).max() {
            pass(last);
            self.locks.values_mut().for_each(|lock| lock.end(|hold| *hold.end.end() < soon));
        }
    }
}

/// When a lease ends that began within `when`.
fn end(when: &std::ops::RangeInclusive<i64>, lease: i64) -> std::ops::RangeInclusive<i64> {
    when.start() + lease..=when.end() + lease
}

#[test]
fn every_reply_is_the_models() {
    // The core's own model knows which token waits for which, and whose place is kept.
    let settings = format!("default-lease-ms {DEFAULT_LEASE} detect-deadlocks no place-grace-ms 0");
    let server = Server::builder().module_args(&settings).start();
    let mut random = random();
    let mut connections: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    let ids = connections.iter_mut().map(|client| client.cmd("CLIENT ID").int()).collect();
    let mut eye = server.client();
    if random.bool() {
        eye.hello3();
    }
    let mut trial = Trial {
        server,
        eye,
        connections,
        ids,
        locks: BTreeMap::new(),
        fences: BTreeSet::new(),
        newest: 0,
        waited: 0,
        began: 0,
        random,
    };
    for _ in 0..steps(2_000) {
        trial.step();
    }
    for number in 0..CONNECTIONS {
        trial.connections[number] = trial.server.client();
    }
    // Before the keys go: a waiter whose connection has ended without the server having seen it yet would be granted one of them.
    eventually("nobody waits any more", || trial.server.info_int("lockstock", "lockstock_lock_waiters") == 0);
    for key in KEYS {
        trial.eye.cmd(["DEL", key]);
    }
    let Trial { server, waited, .. } = trial;
    eventually("nothing is left", || server.info_int("lockstock", "lockstock_locks_held") == 0);
    assert_eq!(server.info_int("lockstock", "lockstock_lock_waiters"), 0);
    assert!(waited > 20, "hardly anybody waited: {waited}");
    server.expect("DBSIZE", 0);
}
