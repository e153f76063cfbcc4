//! A server that is killed again and again while processes buy from several sales at once, and are killed, too.

use std::collections::BTreeMap;

use harness::Server;

use super::{Nemesis, Scene, alone, clients, ready};
use crate::work::{Crew, Doing, SHELVES, Trade};

/// How many clients are processes.
const PROCESSES: usize = 8;

struct Carts {
    server: alone::Alone,
    turn: usize,
}

/// Sets it up.
pub fn carts() -> Result<Box<dyn Scene>, String> {
    ready(Carts { server: alone::killed_and_cut_off(), turn: 0 })
}

impl Scene for Carts {
    fn servers(&mut self) -> &mut [Server] {
        self.server.servers()
    }

    fn crew(&self) -> Crew {
        &[(Trade::Cart, 2), (Trade::Pulse, 1)]
    }

    fn processes(&self) -> usize {
        PROCESSES
    }

    fn trade(&self) -> Trade {
        Trade::Cart
    }

    fn shelves(&self) -> usize {
        SHELVES
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        if self.turn.is_multiple_of(3) {
            self.server.strike(nemesis);
        } else {
            clients::kill(nemesis, Doing::Shops, &BTreeMap::new());
        }
    }
}
