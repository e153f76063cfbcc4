//! A server whose append-only file is on a disk that gets full: a small tmpfs of its own.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice::from_mut;

use harness::{OK, Server, err, eventually};

use super::janitor::Janitor;
use super::{Nemesis, Scene, ask, ready};

/// The size of the disk.
const MIB: usize = 48;

struct Full {
    server: Server,
    /// Dropped after the server that is on it.
    disk: Disk,
    turn: usize,
}

/// A file system that is unmounted when it is dropped.
struct Disk {
    path: PathBuf,
    _janitor: Janitor,
}

impl Disk {
    fn mount() -> Result<Self, String> {
        let path = tempfile::tempdir().expect("a directory").keep();
        let name = path.display();
        // The server may need a moment to be gone.
        let script = format!("for n in $(seq 50); do umount {name} && break; sleep 0.1; done; rmdir {name}");
        let disk = Self { _janitor: Janitor::hire(&script), path: path.clone() };
        let size = format!("size={MIB}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(disk),
            Ok(output) => Err(format!("no tmpfs may be mounted: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("no tmpfs may be mounted: {error}")),
        }
    }

    fn path(&self) -> &Path {
        &self.path
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

/// Sets it up, if file systems may be mounted.
pub fn disk() -> Result<Box<dyn Scene>, String> {
    let disk = Disk::mount()?;
    let server = Server::builder().aof("everysec").config(&format!("dir {}", disk.path().display())).start();
    ready(Full { server, disk, turn: 0 })
}

impl Scene for Full {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
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
            self.server.expect("LOCK.RELEASE mutex-0 nobody", err("MISCONF "));
            nemesis.rest(100, 1_500);
            self.disk.free();
            eventually("the server goes on", || self.last_write() == "ok");
            nemesis.did("disk full", from);
        }
    }
}

impl Full {
    fn last_write(&self) -> String {
        self.server.info("persistence")["aof_last_write_status"].clone()
    }

    /// With `appendfsync always` a server that cannot write ends itself rather than break its word.
    fn give_up(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        self.server.expect("CONFIG SET appendfsync always", OK);
        self.disk.fill();
        eventually("the server gives up", || ask(&self.server, "PING").is_none());
        self.disk.free();
        self.server.kill9();
        self.server.start_again();
        nemesis.did("disk full, the server gave up", from);
    }
}
