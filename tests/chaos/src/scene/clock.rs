//! A server whose wall clock is set, ahead and back.

use std::slice::from_mut;

use harness::clock::{obeys, set, with_own_clock};
use harness::{Server, eventually, unix_ms};
use tempfile::TempDir;

use super::{Nemesis, Scene, ready};
use crate::history::Step;

/// How far the clock is off at most.
const MOST_MS: i64 = 3_000;

struct Stepped {
    server: Server,
    /// The library, and the file that says how far the clock is off.
    dir: TempDir,
    off_ms: i64,
    turn: usize,
}

/// Sets it up, if there is a C compiler.
pub fn clock() -> Result<Box<dyn Scene>, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_own_clock(Server::plain().aof("always"), &dir, 0)?.start();
    if !obeys(&server, &dir) {
        return Err("what is put between this server and the system does not reach the module".into());
    }
    ready(Stepped { server, dir, off_ms: 0, turn: 0 })
}

impl Scene for Stepped {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        let from = nemesis.now();
        if self.turn.is_multiple_of(4) {
            // What it knows by its file alone must do as well.
            self.server.kill9();
            self.server.start_again();
            nemesis.did("kill -9 with the clock off", from);
            return;
        }
        let off_ms = nemesis.random.i64(-MOST_MS..=MOST_MS);
        set(&self.dir, off_ms);
        let by_ms = off_ms - self.off_ms;
        self.off_ms = off_ms;
        // Some servers read the clock only once in a millisecond; and a command that had begun goes on with the time it knew.
        eventually("the server's clock is what it was set to", || {
            let told = self.server.cmd("TIME").at(0).text().parse::<i64>().expect("seconds");
            (told - (unix_ms() + off_ms) / 1_000).abs() <= 1
        });
        nemesis.rest(20, 20);
        nemesis.set_clock(Step { from, to: nemesis.now(), by_ms });
        nemesis.did(if by_ms < 0 { "clock set back" } else { "clock set ahead" }, from);
    }
}
