//! How long a server keeps others waiting, in its own time: what the machine does meanwhile does not count.

use harness::{ANY, Client, Reply, Server, eventually, unix_ms};

use super::{Nemesis, processor_time};

/// How much of a server's own time a `PING` may wait for, and the next waiter when a lease ends, in microseconds. The goals are a
/// turn of a millisecond and 20 ms; the rest is for the servers' own work (a slot that is trimmed, a client table that is walked).
const MOST: u64 = 60_000;

/// A lock whose lease is about to end, and the next waiter.
pub struct Edge {
    heir: Client,
    ends: i64,
}

impl Edge {
    /// The lease of `key` ends in so many milliseconds.
    pub fn set(server: &Server, key: &str, lease: i64) -> Self {
        let mut heir = server.client();
        server.expect(format!("LOCK.ACQUIRE {key} TOKEN holder PX {lease}"), ANY);
        let ends = unix_ms() + lease;
        heir.send(format!("LOCK.ACQUIRE {key} TOKEN heir PX 50 WAIT 20000"));
        // On a slow machine its turn may have come and gone by then.
        let waits = |info: Reply| matches!(info, Reply::Nil(_)) || info.field("waiting").int() == 1;
        eventually("the heir waits", || waits(server.cmd(["LOCK.INFO", key])) || unix_ms() > ends);
        Self { heir, ends }
    }

    /// Asks for signs of life until the lease is over, and measures both.
    pub fn pass(mut self, server: &Server, nemesis: &mut Nemesis<'_>, while_: &str) {
        while unix_ms() < self.ends {
            ping(server, nemesis, while_);
        }
        let before = processor_time(server);
        self.heir.read();
        let late = processor_time(server).saturating_sub(before);
        nemesis.measured(
            format!("µs of the server's time after a lease's end until the next one heard, {while_}"),
            late,
            MOST,
        );
    }
}

/// How long a `PING` takes.
pub fn ping(server: &Server, nemesis: &mut Nemesis<'_>, while_: &str) {
    let mut client = server.client();
    let before = processor_time(server);
    client.expect("PING", ANY);
    let late = processor_time(server).saturating_sub(before);
    nemesis.measured(format!("µs of the server's time for a PING, {while_}"), late, MOST);
}

/// How much of a core a server takes that has nothing to do, measured for a second: in percent.
pub fn at_rest(server: &Server, nemesis: &mut Nemesis<'_>, what: &str, most: u64) {
    let (from, before) = (nemesis.now(), processor_time(server));
    nemesis.rest(1_000, 1_000);
    let percent = (processor_time(server).saturating_sub(before)) * 100 / (nemesis.now() - from);
    nemesis.measured(format!("% of a core, {what}"), percent, most);
}
