//! A server whose wall clock is set, ahead and back, by a library that is put between it and the system (`clock.c`).
//!
//! The library depends on the module, and is also what the server is told to load as the module. So the module is there from the
//! start of the program and finds the clock where the program does: a module that Valkey loads by itself looks past what was put
//! in front of the server.

use std::fs::File;
use std::io::Write as _;
use std::process::Command;
use std::slice::from_mut;

use harness::{ANY, Builder, Server, eventually, module_path, unix_ms};
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

/// A server with the library before it, if there is a C compiler: it is off by what the file in the directory says, and each look at
/// it by up to `tremble` microseconds more.
pub fn with_own_clock(builder: Builder, dir: &TempDir, tremble: u32) -> Result<Builder, String> {
    let library = dir.path().join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scene/clock.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]).arg(&library).arg(source);
    compiler.arg("-Wl,--no-as-needed").arg(module_path());
    match compiler.output() {
        Err(error) => return Err(format!("no C compiler: {error}")),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    set(dir, 0);
    let preload = format!("LD_PRELOAD={}", library.display());
    let file = format!("CHAOS_CLOCK={}", dir.path().join("off").display());
    let tremble = format!("CHAOS_TREMBLE={tremble}");
    let module = format!("loadmodule {}", library.display());
    Ok(builder.config(&module).under(&["env", &preload, &file, &tremble]))
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

/// Whether the module's clock is the one that is set here: a lease gets shorter when it is set ahead.
fn obeys(server: &Server, dir: &TempDir) -> bool {
    server.expect("LOCK.ACQUIRE probe TOKEN probe PX 60000", ANY);
    set(dir, 10_000);
    let info = server.cmd("LOCK.INFO probe");
    let left = info.field("holders").at(0).field("lease-ms").int();
    set(dir, 0);
    server.expect("LOCK.RELEASE probe probe", 1);
    left < 55_000
}

/// Says how far the clock is off, in one step: the file is mapped, and eight bytes are written at once.
fn set(dir: &TempDir, off_ms: i64) {
    let file = File::options().create(true).write(true).truncate(false).open(dir.path().join("off"));
    file.and_then(|mut file| file.write_all(&off_ms.to_ne_bytes())).expect("a file");
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
