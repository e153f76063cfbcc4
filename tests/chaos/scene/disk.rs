//! A server whose append-only file is on a disk that gets full: a small tmpfs of its own.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{Nemesis, Scene, ask, ready, version};
use crate::harness::{OK, Server, err, eventually};

/// The size of the disk.
const MIB: usize = 48;

struct Full {
    /// `None` only while it is dropped: the server goes before its disk.
    server: Option<Server>,
    disk: Disk,
    turn: usize,
}

/// A file system that is unmounted when it is dropped.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let size = format!("size={MIB}m");
        let path = dir.path().to_string_lossy().into_owned();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs", &path]).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self(dir)),
            Ok(output) => Err(format!("no tmpfs may be mounted: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("no tmpfs may be mounted: {error}")),
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("filler")).expect("a file");
        for size in [1 << 20, 1 << 12, 1] {
            let block = vec![0; size];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("filling the disk: {error}"),
                }
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.path().join("filler")).expect("the filler");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If that fails, the directory stays behind as well, for somebody to see.
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        self.server = None;
    }
}

/// Sets it up, if file systems may be mounted.
pub fn disk() -> Result<Box<dyn Scene>, String> {
    let disk = Disk::mount()?;
    let server = Server::builder().aof("everysec").config(&format!("dir {}", disk.path().display())).start();
    ready(Full { server: Some(server), disk, turn: 0 })
}

impl Full {
    fn server(&self) -> &Server {
        self.server.as_ref().expect("present until the drop")
    }
}

impl Scene for Full {
    fn servers(&self) -> Vec<SocketAddr> {
        vec![self.server().address()]
    }

    fn keep(&mut self) {
        if let Some(server) = &mut self.server {
            server.keep();
        }
    }

    fn version(&self) -> String {
        version(self.server())
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        let from = nemesis.now();
        if self.turn.is_multiple_of(2) {
            self.give_up(nemesis);
        } else {
            // It refuses to write until it can again.
            self.disk.fill();
            eventually("the server notices", || self.last_write() == "err");
            // Even what only gives back.
            self.server().expect("LOCK.RELEASE mutex-0 nobody", err("MISCONF "));
            nemesis.rest(100, 1_500);
            self.disk.free();
            eventually("the server goes on", || self.last_write() == "ok");
            nemesis.did("disk full", from);
        }
    }
}

impl Full {
    fn last_write(&self) -> String {
        self.server().info("persistence")["aof_last_write_status"].clone()
    }

    /// With `appendfsync always` a server that cannot write ends itself rather than break its word.
    fn give_up(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        self.server().expect("CONFIG SET appendfsync always", OK);
        self.disk.fill();
        let server = self.server.as_mut().expect("present until the drop");
        eventually("the server gives up", || ask(server, "PING").is_none());
        self.disk.free();
        server.kill9();
        server.start_again();
        nemesis.did("disk full, the server gave up", from);
    }
}
