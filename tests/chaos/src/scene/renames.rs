//! A server with very many other keys, on which locks and sales that nobody touches are renamed and moved to another database, and which
//! goes into import mode where there is one: how late do leases and holds end?

use std::slice::from_mut;

use harness::{ANY, OK, Server, patiently, unix_ms};

use super::edge::at_rest;
use super::{Nemesis, Scene, ready, starved_time};
use crate::work::{Crew, Trade};

/// How many other keys there are.
const KEYS: u64 = 500_000;

/// How late a lease may end then, in milliseconds in which the server was not waiting for a processor: a second for a million keys, and one
/// for the machine.
const LATE: u64 = KEYS / 1_000 + 1_000;

struct Renames {
    server: Server,
    turn: usize,
}

/// Sets it up.
pub fn renames() -> Result<Box<dyn Scene>, String> {
    let server = Server::start();
    server.expect(format!("DEBUG POPULATE {KEYS} other 8"), OK);
    ready(Renames { server, turn: 0 })
}

impl Scene for Renames {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Mutex, 2), (Trade::Pulse, 1)]
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        let from = nemesis.now();
        if self.turn.is_multiple_of(3) {
            if self.import(nemesis) {
                nemesis.did("import mode", from);
            }
        } else {
            self.rename(nemesis);
            nemesis.did("renamed and moved", from);
        }
    }
}

impl Renames {
    /// Several locks and a sale, one after the other.
    fn rename(&mut self, nemesis: &mut Nemesis<'_>) {
        let (server, turn) = (&self.server, self.turn);
        let mut client = server.client();
        let (end, starved) = (unix_ms() + 300, starved_time(server));
        for n in 0..4 {
            let (key, left) = (format!("named-{turn}-{n}"), (end - unix_ms()).max(1));
            client.expect(format!("LOCK.ACQUIRE {key} TOKEN t PX {left}"), ANY);
            if n % 2 == 0 {
                client.expect(format!("RENAME {key} renamed-{turn}-{n}"), OK);
            } else {
                client.expect(format!("MOVE {key} 1"), 1);
            }
            nemesis.rest(10, 30);
        }
        client.expect(format!("STOCK.CREATE sold-{turn} 5 STREAM sold-{turn}:events"), OK);
        let left = (end - unix_ms()).max(1);
        client.expect(format!("STOCK.DECR_ONCE sold-{turn} a HOLD {left}"), ANY);
        client.expect(format!("RENAME sold-{turn} resold-{turn}"), OK);
        let mut other = server.client();
        other.expect("SELECT 1", OK);
        let there = patiently(|| {
            let one = client.cmd(format!("EXISTS renamed-{turn}-0 renamed-{turn}-2")).int();
            let two = other.cmd(format!("EXISTS named-{turn}-1 named-{turn}-3")).int();
            let lapsed = client.cmd(format!("XLEN sold-{turn}:events")).int() == 2;
            (one + two == 0 && lapsed).then_some(())
        });
        let late = if there.is_some() { u64::try_from(unix_ms() - end).unwrap_or(0) } else { 99_999 };
        let starved = (starved_time(server) - starved) / 1_000;
        nemesis.measured(
            "ms after their end until renamed locks and a sale were free",
            late.saturating_sub(starved),
            LATE,
        );
        client.expect(format!("DEL resold-{turn} sold-{turn}:events"), 2);
        at_rest(server, nemesis, "after a search", 25);
    }

    /// While data is imported, nothing ends by itself; whether this server can.
    fn import(&mut self, nemesis: &mut Nemesis<'_>) -> bool {
        let (server, turn) = (&self.server, self.turn);
        let mut client = server.client();
        if client.cmd("CONFIG SET import-mode yes").is_error() {
            return false;
        }
        client.expect("CONFIG SET import-mode no", OK);
        client.expect(format!("STOCK.CREATE import-{turn} 5 STREAM import-{turn}:events"), OK);
        client.expect(format!("STOCK.DECR_ONCE import-{turn} a HOLD 300"), ANY);
        client.expect(format!("LOCK.ACQUIRE imported-{turn} TOKEN t PX 300"), ANY);
        client.expect("CONFIG SET import-mode yes", OK);
        nemesis.rest(700, 700);
        let events = client.cmd(format!("XLEN import-{turn}:events")).int();
        // As a source would see it: other clients are shown nothing that is over.
        client.expect("CLIENT IMPORT-SOURCE ON", OK);
        let there = client.cmd(format!("EXISTS imported-{turn}")).int();
        client.expect("CLIENT IMPORT-SOURCE OFF", OK);
        client.expect("CONFIG SET import-mode no", OK);
        nemesis.measured(
            "leases and holds that an importing server ended by itself",
            events.abs_diff(1) + there.abs_diff(1),
            0,
        );
        let ended = patiently(|| {
            let one = client.cmd(format!("EXISTS imported-{turn}")).int();
            let lapsed = client.cmd(format!("XLEN import-{turn}:events")).int() == 2;
            (one == 0 && lapsed).then_some(())
        });
        nemesis.measured("servers that did not make good for an import", u64::from(ended.is_none()), 0);
        client.expect(format!("DEL import-{turn} import-{turn}:events"), 2);
        true
    }
}
