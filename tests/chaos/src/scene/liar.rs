//! A server that breaks its word: locks are taken from their holders and orders undone, and nobody is told. What the judge
//! must see, and would not if the clients' record or the judge were good for nothing.

use std::slice::from_mut;

use harness::{ANY, Reply, Server};

use super::{Nemesis, Plan, Scene, plan, ready};
use crate::work::{Crew, Trade};

/// The scene; none of those that should go well.
pub const LIAR: Plan = plan("liar", "locks are taken away and orders undone behind everybody's back", liar);

/// A scene in which the server dies of a fault of its own, as far as the checks can tell.
pub const MORTAL: Plan = plan("mortal", "the server crashes", mortal);

/// A scene in which holders write without asking whether they still are.
pub const CARELESS: Plan = plan("careless", "a value is written under a lock, but without LOCK.GUARD", careless);

/// What must not go well, with the rules that are broken there, whatever else.
pub const BROKEN: [(&Plan, &[&str]); 3] =
    [(&LIAR, &["hold kept", "orders"]), (&MORTAL, &["the server lives"]), (&CARELESS, &["no late write"])];

struct Liar(Server);

fn liar() -> Result<Box<dyn Scene>, String> {
    ready(Liar(Server::start()))
}

impl Scene for Liar {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.0)
    }

    /// That it broke its word is no news here.
    fn keep(&mut self) {}

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let mut client = self.0.client();
        for _ in 0..20 {
            client.expect("DEL mutex-0 mutex-1 readers permits", ANY);
            nemesis.rest(1, 10);
        }
        let sold = client.cmd("STOCK.ORDERS {sale}many 0 COUNT 20 STATE sold");
        for id in sold.at(1).items().iter().map(|row| row.at(0)).map(Reply::text) {
            client.expect(["STOCK.CANCEL", "{sale}many", &id], ANY);
        }
    }
}

struct Mortal(Server);

fn mortal() -> Result<Box<dyn Scene>, String> {
    ready(Mortal(Server::start()))
}

impl Scene for Mortal {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.0)
    }

    /// The server has crashed on purpose, so its files need not be kept.
    fn keep(&mut self) {}

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        nemesis.rest(300, 500);
        self.0.client().send("DEBUG SEGFAULT");
        nemesis.rest(300, 500);
    }
}

struct Careless(Server);

fn careless() -> Result<Box<dyn Scene>, String> {
    ready(Careless(Server::start()))
}

impl Scene for Careless {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.0)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Careless, 3)]
    }

    /// Nor is it that holders were late.
    fn keep(&mut self) {}

    /// Nothing is done to the server. Its holders are slow enough.
    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        nemesis.rest(300, 500);
    }
}
