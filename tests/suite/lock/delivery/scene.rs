//! A grant to a client that may not have read it, and the ends of its connection.

use harness::{ANY, Builder, Client, INT, OK, Server, Words, eventually};

use crate::support::line::Line;

/// More than what the buffers of a connection take between a server and a client that does not read.
pub const LARGE: usize = 48 << 20;

/// How the connection of a client ends that has not read what it was sent.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The client hangs up.
    Closed,
    /// It hangs up the hard way.
    Reset,
    /// `CLIENT KILL`.
    Killed,
    /// The server gives up on it, because too much is unsent.
    Limit,
}

pub const ENDS: [End; 4] = [End::Closed, End::Reset, End::Killed, End::Limit];

/// A lock with a holder and two waiters, on a server with a large value, where nobody says anything to the module unless the test
/// does.
pub struct Scene<'a> {
    pub server: &'a Server,
    pub line: Line<'a>,
    pub admin: Client,
    pub holder: Client,
    pub waiter: Client,
    pub waiter_id: i64,
    pub next: Client,
}

pub fn server() -> Server {
    with_large_value(Server::builder())
}

pub fn with_large_value(builder: Builder) -> Server {
    let server = builder.start();
    server.expect(format!("SETRANGE large {} x", LARGE - 1), INT);
    server
}

impl<'a> Scene<'a> {
    /// `before` is what the first waiter does before it asks for the lock; `behind` what it sends after that, before it has heard.
    pub fn set(server: &'a Server, before: impl FnOnce(&mut Client, &mut Client), behind: &[&str]) -> Self {
        Self::asking(server, before, "LOCK.ACQUIRE lock TOKEN waiter", behind)
    }

    /// The first waiter sends these commands and its request in one packet.
    pub fn with_packet(server: &'a Server, in_front: &[&str]) -> Self {
        let send = |waiter: &mut Client, _: &mut Client, request: &str| {
            let packet: Vec<Words> = in_front.iter().chain([&request]).map(|words| Words::from(*words)).collect();
            waiter.try_send(&packet).expect("it is connected");
        };
        Self::sending(server, send, "LOCK.ACQUIRE lock TOKEN waiter", &[])
    }

    /// The first waiter asks by `request`.
    pub fn asking(
        server: &'a Server,
        before: impl FnOnce(&mut Client, &mut Client),
        request: &str,
        behind: &[&str],
    ) -> Self {
        let send = |waiter: &mut Client, admin: &mut Client, request: &str| {
            before(waiter, admin);
            waiter.send(request);
        };
        Self::sending(server, send, request, behind)
    }

    fn sending(
        server: &'a Server,
        send: impl FnOnce(&mut Client, &mut Client, &str),
        request: &str,
        behind: &[&str],
    ) -> Self {
        let (mut line, mut holder, mut waiter, mut admin) =
            (Line::at(server), server.client(), server.client(), server.client());
        let waiter_id = waiter.id();
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ANY);
        let waits = line.count("lock_waits");
        send(&mut waiter, &mut admin, &format!("{request} PX 60000 WAIT 0"));
        line.until("lock_waits", waits + 1);
        for words in behind {
            waiter.send(*words);
        }
        let next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
        // It has waited for a while, as waiters do.
        eventually("some milliseconds have passed", || {
            let info = admin.cmd("LOCK.INFO lock");
            info.field("waiters").items().iter().all(|row| row.field("waited-ms").int() > 20)
        });
        Self { server, line, admin, holder, waiter, waiter_id, next }
    }

    /// The lock goes to the first waiter.
    pub fn pass_on(&mut self) {
        self.holder.expect("LOCK.RELEASE lock holder", 1);
    }

    /// The lock goes to the first waiter, which reads its reply.
    pub fn pass_on_and_read(&mut self) {
        self.pass_on();
        self.waiter.read().is(("waiter", INT, 60_000));
    }

    /// Ends the waiter's connection and returns when the server has noticed, without a word to the module.
    pub fn end(&mut self, end: End) {
        let waiter = std::mem::replace(&mut self.waiter, self.server.client());
        match end {
            End::Closed => waiter.close(),
            End::Reset => waiter.reset(),
            End::Killed => {
                self.admin.expect(format!("CLIENT KILL ID {}", self.waiter_id), 1);
                drop(waiter);
            }
            End::Limit => {
                // What is unsent is looked at when there is more to send, or once in a while.
                self.admin.expect(["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"], OK);
                self.gone();
                self.admin.expect(["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"], OK);
                drop(waiter);
            }
        }
        self.gone();
    }

    /// Returns when the waiter's connection has ended.
    pub fn gone(&mut self) {
        let line = format!("id={} ", self.waiter_id);
        eventually("the connection ends", || !self.admin.cmd("CLIENT LIST").text().contains(&line));
    }

    /// The waiter was granted the lock and nobody takes that back.
    pub fn stays(mut self, how: &str) {
        // What the module does about the end of a connection, it has done by now.
        for _ in 0..3 {
            self.admin.expect("PING", ANY);
        }
        assert_eq!(self.line.holders("lock"), ["waiter"], "{how}");
        assert_eq!(self.line.waiters("lock"), ["next"], "{how}");
        self.holder.expect("LOCK.RELEASE lock waiter", 1);
        self.next.read().is(("next", INT, 30_000));
        self.next.expect("LOCK.RELEASE lock next", 1);
    }

    /// The grant to the waiter has been taken back, and the next one has the lock.
    pub fn goes_on(mut self, how: &str) {
        eventually(&format!("the next one has the lock: {how}"), || self.line.holders("lock") == ["next"]);
        self.next.read().is(("next", INT, 30_000));
        self.next.expect("LOCK.RELEASE lock next", 1);
    }
}

/// A reply that servers keep in the client's buffers, byte for byte. For `GET` some only note which value it is.
pub const ASK: &str = "GETRANGE large 0 -1";

/// Asks for the large value in both ways and returns when the server has answered, which nobody reads.
pub fn jam(client: &mut Client, admin: &mut Client) {
    jam_with(client, admin, &[("GET large", "cmdstat_get:calls="), (ASK, "cmdstat_getrange:calls=")]);
}

/// The same with `GET` alone: the value may be sent from where it lies.
pub fn jam_uncopied(client: &mut Client, admin: &mut Client) {
    jam_with(client, admin, &[("GET large", "cmdstat_get:calls=")]);
}

fn jam_with(client: &mut Client, admin: &mut Client, asks: &[(&str, &str)]) {
    for &(ask, stat) in asks {
        let mut calls = || {
            let stats = admin.cmd("INFO commandstats").text();
            let calls = stats.lines().find_map(|line| line.strip_prefix(stat)?.split(',').next()?.parse().ok());
            calls.unwrap_or(0_u32)
        };
        let before = calls();
        client.send(ask);
        eventually("the large value is on its way", || calls() == before + 1);
    }
}
