//! How a client finds the server that serves a key, and asks it once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Client, Reply, Words};

use crate::history::{Clock, Op, Outcome, Time, millis};

/// How long a request that does not wait for a lock may take before its client gives up.
pub const PATIENCE: Time = millis(2_000);

/// The state that the clients of a run share.
pub struct Route {
    pub clock: Clock,
    /// The servers to try; the first is the one in charge, unless one of them says otherwise.
    servers: Mutex<Vec<SocketAddr>>,
    /// The run is over.
    stop: AtomicBool,
    /// The number of the next connection.
    lines: AtomicU64,
}

impl Route {
    /// To `servers`, of which the first is in charge. The process with this number is the only one with it.
    pub fn to(clock: Clock, servers: Vec<SocketAddr>, process: usize) -> Self {
        let first = (u64::try_from(process).expect("a few") << 32) + 1;
        Self { clock, servers: Mutex::new(servers), stop: AtomicBool::new(false), lines: AtomicU64::new(first) }
    }

    /// From now on this server is in charge.
    pub fn lead_to(&self, server: SocketAddr) {
        let mut servers = self.servers.lock().expect("no thread panicked");
        servers.retain(|other| *other != server);
        servers.insert(0, server);
    }

    /// A connection of its own to the server in charge, and its number.
    pub fn open(&self) -> Option<(u64, Client)> {
        let client = Client::try_reach(self.leader(), Duration::from_micros(PATIENCE)).ok()?;
        Some((self.lines.fetch_add(1, Ordering::Relaxed), client))
    }

    /// The server in charge.
    pub fn leader(&self) -> SocketAddr {
        self.servers.lock().expect("no thread panicked")[0]
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run is over.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One client's connections, one for each server it was sent to.
pub struct Line<'a> {
    pub route: &'a Route,
    client: usize,
    open: BTreeMap<SocketAddr, (u64, Client)>,
    /// Where a key was found, in a cluster.
    homes: BTreeMap<String, SocketAddr>,
    random: fastrand::Rng,
}

impl<'a> Line<'a> {
    /// Of a client with this number.
    pub fn new(route: &'a Route, client: usize, random: fastrand::Rng) -> Self {
        Self { route, client, open: BTreeMap::new(), homes: BTreeMap::new(), random }
    }

    /// Asks once, following redirections, and notes the times and the outcome.
    pub fn ask<C>(&mut self, about: C, key: &str, words: &Words, patience: Time) -> Op<C, Reply> {
        let invoked = self.route.clock.now();
        let (mut line, mut server, mut redirected, mut asking) = (0, self.home(key), false, false);
        let outcome = loop {
            let left = self.route.clock.until(invoked + patience).max(Duration::from_millis(1));
            match self.once(server, asking, words, left, &mut line) {
                Outcome::Refused(text) if self.route.clock.now() < invoked + patience => match redirection(&text) {
                    Some(Redirection::Moved(to)) => {
                        self.homes.insert(key.to_owned(), to);
                        (server, redirected, asking) = (to, true, false);
                    }
                    Some(Redirection::Ask(to)) => (server, redirected, asking) = (to, true, true),
                    Some(Redirection::Later) => {
                        thread::sleep(Duration::from_millis(5));
                        (server, asking) = (self.home(key), false);
                    }
                    None => {
                        self.wander(key, &text);
                        break Outcome::Refused(text);
                    }
                },
                outcome => break outcome,
            }
        };
        let returned = self.route.clock.now();
        Op { client: self.client, line, server: server.port(), redirected, invoked, returned, call: about, outcome }
    }

    /// Where to ask for `key`.
    fn home(&mut self, key: &str) -> SocketAddr {
        let leader = self.route.leader();
        *self.homes.get(key).unwrap_or(&leader)
    }

    /// After a refusal: another server may know better, a little later.
    fn wander(&mut self, key: &str, text: &str) {
        if self.homes.remove(key).is_some() || text.starts_with("CLUSTERDOWN") {
            let servers = self.route.servers.lock().expect("no thread panicked").clone();
            if let Some(server) = self.random.choice(servers) {
                self.homes.insert(key.to_owned(), server);
            }
        }
        thread::sleep(Duration::from_millis(self.random.u64(5..30)));
    }

    fn once(
        &mut self,
        server: SocketAddr,
        asking: bool,
        words: &Words,
        patience: Duration,
        line: &mut u64,
    ) -> Outcome<Reply> {
        if !self.open.contains_key(&server) {
            match Client::try_reach(server, patience) {
                Ok(client) => {
                    let number = self.route.lines.fetch_add(1, Ordering::Relaxed);
                    self.open.insert(server, (number, client));
                }
                Err(error) => return Outcome::Refused(format!("no connection: {error}")),
            }
        }
        let Some((number, client)) = self.open.get_mut(&server) else {
            return Outcome::Refused("no connection".into());
        };
        *line = *number;
        let answer = if asking { client.ask_within("ASKING", patience) } else { Ok(Reply::Int(0)) };
        match answer.and_then(|_| client.ask_within(words, patience)) {
            Ok(Reply::Error(text)) => Outcome::Refused(text),
            Ok(reply) => Outcome::Done(reply),
            Err(nothing) => {
                self.open.remove(&server);
                Outcome::Unknown(nothing)
            }
        }
    }

    /// Ends all connections, politely or as a host that crashed does.
    pub fn hang_up(&mut self, hard: bool) {
        for (_, client) in std::mem::take(&mut self.open).into_values() {
            if hard {
                client.reset();
            } else {
                client.close();
            }
        }
    }
}

enum Redirection {
    Moved(SocketAddr),
    Ask(SocketAddr),
    Later,
}

/// Where a cluster sends the client on with this error.
fn redirection(text: &str) -> Option<Redirection> {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["MOVED", _, address] => address.parse().ok().map(Redirection::Moved),
        ["ASK", _, address] => address.parse().ok().map(Redirection::Ask),
        ["TRYAGAIN", ..] => Some(Redirection::Later),
        _ => None,
    }
}
