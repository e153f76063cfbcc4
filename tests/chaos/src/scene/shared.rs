//! A server that is left in peace, and clients as they are: they give up reading before their wait is over, ask again or cancel, and let
//! all their tasks share one connection.

use std::slice::from_mut;

use harness::Server;

use super::{Nemesis, Scene, ready};
use crate::work::{Crew, Trade};

struct Shared(Server);

/// Sets it up.
pub fn shared() -> Result<Box<dyn Scene>, String> {
    ready(Shared(Server::start()))
}

impl Scene for Shared {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.0)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Impatient, 5), (Trade::Notified, 2), (Trade::Look, 1), (Trade::Pulse, 1)]
    }

    /// The clients do it themselves.
    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        nemesis.rest(100, 500);
    }
}
