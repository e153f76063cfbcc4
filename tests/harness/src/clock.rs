//! A server whose wall clock is set, ahead and back, by a library that is put between it and the system (`clock.c`).
//!
//! The library depends on the module, and is also what the server is told to load as the module. So the module is there from the
//! start of the program and finds the clock where the program does: a module that Valkey loads by itself looks past what was put
//! in front of the server.

use std::fs::File;
use std::io::Write as _;
use std::process::Command;

use tempfile::TempDir;

use crate::{ANY, Builder, Server, module_path};

/// A server with the library before it, if there is a C compiler: it is off by what the file in the directory says, and each look at
/// it by up to `tremble` microseconds more.
pub fn with_own_clock(builder: Builder, dir: &TempDir, tremble: u32) -> Result<Builder, String> {
    let library = dir.path().join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
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

/// Whether the module's clock is the one that is set here: a lease gets shorter when it is set ahead.
pub fn obeys(server: &Server, dir: &TempDir) -> bool {
    server.expect("LOCK.ACQUIRE probe TOKEN probe PX 60000", ANY);
    set(dir, 10_000);
    let info = server.cmd("LOCK.INFO probe");
    let left = info.field("holders").at(0).field("lease-ms").int();
    set(dir, 0);
    server.expect("LOCK.RELEASE probe probe", 1);
    left < 55_000
}

/// Says how far the clock is off, in one step: the file is mapped, and eight bytes are written at once.
pub fn set(dir: &TempDir, off_ms: i64) {
    let file = File::options().create(true).write(true).truncate(false).open(dir.path().join("off"));
    file.and_then(|mut file| file.write_all(&off_ms.to_ne_bytes())).expect("a file");
}
