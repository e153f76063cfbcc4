//! A server that is left in peace, and connections that are not: they leave replies unread, are cut off with a grant on its way, are
//! unblocked in the packet that grants, and wait although they are subscribed.

use std::slice::from_mut;

use harness::{ANY, Server};

use super::{Nemesis, Scene, ready};
use crate::work::{Crew, LARGE, Trade};

struct Unread(Server);

/// Sets it up.
pub fn unread() -> Result<Box<dyn Scene>, String> {
    let server = Server::start();
    server.expect(format!("SETRANGE {} {} x", LARGE.0, LARGE.1 - 1), ANY);
    ready(Unread(server))
}

impl Scene for Unread {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.0)
    }

    fn crew(&self) -> Crew {
        &[(Trade::Unread, 1), (Trade::Pulse, 1)]
    }

    /// The clients do it themselves.
    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        nemesis.rest(100, 500);
    }
}
