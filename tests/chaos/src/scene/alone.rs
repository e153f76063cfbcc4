//! One server, with each kind of persistence.

use std::fs::{self, File};
use std::path::PathBuf;
use std::slice::from_mut;

use harness::{ANY, OK, Reply, Server, eventually};

use super::{Nemesis, Scene, freeze, ready, thaw};
use crate::history::{Loss, Time};

/// Something that can happen to one server.
#[derive(Clone, Copy)]
enum Strike {
    /// SIGKILL, and a restart.
    Kill,
    /// SIGKILL, and a restart from a file without what had not reached the disk yet.
    PowerCut,
    /// A snapshot in the background.
    Save,
    /// A rewrite of the append-only file in the background.
    Rewrite,
    Freeze,
    KillClients,
    PauseWrites,
    PauseAll,
    OutOfMemory,
}

use Strike::{Freeze, Kill, KillClients, OutOfMemory, PauseAll, PauseWrites, PowerCut, Rewrite, Save};

/// A server that keeps what it has by itself.
pub struct Alone {
    server: Server,
    strikes: &'static [Strike],
    turn: usize,
    /// Only snapshots: what was acknowledged before this time is in the last one.
    saved: Option<Time>,
}

/// Every write is on the disk before it is answered.
pub fn kill_always() -> Result<Box<dyn Scene>, String> {
    scene(Server::builder().aof("always").start(), &[Kill, Rewrite, Kill], None)
}

/// The same; and connections are cut off.
pub fn killed_and_cut_off() -> Alone {
    let server = Server::builder().aof("always").start();
    Alone { server, strikes: &[Kill, KillClients, Rewrite, Kill], turn: 0, saved: None }
}

/// The disk is a second behind.
pub fn power_everysec() -> Result<Box<dyn Scene>, String> {
    scene(Server::builder().aof("everysec").start(), &[PowerCut, PowerCut, Rewrite], None)
}

/// Nothing but snapshots.
pub fn kill_rdb() -> Result<Box<dyn Scene>, String> {
    scene(Server::start(), &[Save, Kill], Some(0))
}

/// Nothing is lost, and everything is late.
pub fn nuisance() -> Result<Box<dyn Scene>, String> {
    scene(
        Server::builder().aof("always").start(),
        &[Freeze, KillClients, PauseWrites, OutOfMemory, PauseAll, Rewrite],
        None,
    )
}

fn scene(server: Server, strikes: &'static [Strike], saved: Option<Time>) -> Result<Box<dyn Scene>, String> {
    ready(Alone { server, strikes, turn: 0, saved })
}

impl Scene for Alone {
    fn servers(&mut self) -> &mut [Server] {
        from_mut(&mut self.server)
    }

    fn open(&mut self, nemesis: &mut Nemesis<'_>) {
        if self.saved.is_some() {
            self.save(nemesis);
        }
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        let strike = self.strikes[self.turn % self.strikes.len()];
        self.turn += 1;
        match strike {
            Kill => self.kill(nemesis),
            PowerCut => self.power_cut(nemesis),
            Save => self.save(nemesis),
            Rewrite => self.rewrite(nemesis),
            Freeze => {
                let from = nemesis.now();
                freeze(&self.server);
                nemesis.rest(300, 1_800);
                thaw(&self.server);
                nemesis.did("server frozen", from);
            }
            KillClients => self.kill_clients(nemesis),
            PauseWrites => self.pause(nemesis, "WRITE", "writes paused"),
            PauseAll => self.pause(nemesis, "ALL", "clients paused"),
            OutOfMemory => {
                let from = nemesis.now();
                self.server.expect("CONFIG SET maxmemory 1", OK);
                nemesis.rest(300, 1_500);
                self.server.expect("CONFIG SET maxmemory 0", OK);
                nemesis.did("out of memory", from);
            }
        }
    }
}

impl Alone {
    fn kill(&mut self, nemesis: &mut Nemesis<'_>) {
        if self.saved.is_none() && nemesis.random.bool() {
            // Now and then in the middle of a rewrite.
            self.server.cmd("BGREWRITEAOF");
            nemesis.rest(0, 20);
        }
        let at = nemesis.now();
        self.server.kill9();
        let until = nemesis.now();
        self.server.start_again();
        nemesis.did("kill -9", at);
        if let Some(since) = self.saved {
            let server = self.server.port();
            nemesis.forgot(Loss { server, since, at, until, spares_replicated: false });
        }
    }

    /// What the file had some time ago was on the disk; of what was appended since, a part.
    fn power_cut(&mut self, nemesis: &mut Nemesis<'_>) {
        self.server.wait_for_rewrite();
        let since = nemesis.now();
        let file = self.appended_file();
        let synced = size(&file);
        nemesis.rest(50, 900);
        let at = nemesis.now();
        self.server.kill9();
        let until = nemesis.now();
        let kept = nemesis.random.u64(synced..=size(&file));
        let cut = File::options().write(true).open(&file).and_then(|file| file.set_len(kept));
        cut.expect("the append-only file");
        self.server.start_again();
        // A file that was cut within a command of a transaction is mended by leaving the transaction open, and what is appended
        // then ends it at the next start. A rewritten file is free of that.
        self.server.rewrite_aof(true);
        nemesis.did("power cut", at);
        let server = self.server.port();
        nemesis.forgot(Loss { server, since, at, until, spares_replicated: false });
    }

    /// The file that is appended to: the newest one.
    fn appended_file(&self) -> PathBuf {
        let files = fs::read_dir(self.server.dir().join("appendonlydir")).expect("the append-only directory");
        let files = files.filter_map(|file| Some(file.ok()?.path()));
        let files = files.filter(|file| file.to_string_lossy().ends_with(".incr.aof"));
        let number = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.split('.').find_map(|part| part.parse::<u64>().ok())
        };
        files.max_by_key(number).expect("an append-only file")
    }

    fn save(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        self.server.save_in_background();
        if self.saved.is_some() {
            self.saved = Some(from);
        }
    }

    fn rewrite(&mut self, nemesis: &mut Nemesis<'_>) {
        let preamble = nemesis.random.bool();
        self.server.rewrite_aof(preamble);
    }

    /// Cuts off about half of the clients.
    fn kill_clients(&mut self, nemesis: &mut Nemesis<'_>) {
        let from = nemesis.now();
        let mut admin = self.server.client();
        let own = admin.id();
        let list = admin.cmd("CLIENT LIST TYPE normal").text();
        let ids = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse::<i64>().ok());
        for id in ids.filter(|id| *id != own) {
            if nemesis.random.bool() {
                // It may have left already.
                admin.expect(format!("CLIENT KILL ID {id}"), ANY);
            }
        }
        nemesis.did("CLIENT KILL", from);
    }

    fn pause(&mut self, nemesis: &mut Nemesis<'_>, what: &str, kind: &'static str) {
        let from = nemesis.now();
        let span = nemesis.random.u64(300..1_500);
        let mut admin = self.server.client();
        admin.expect(format!("CLIENT PAUSE {span} {what}"), OK);
        let paused = self.server.cmd("PING");
        assert_eq!(paused, Reply::Simple("PONG".into()));
        eventually("the pause is over", || nemesis.now() > from + span * 1_000);
        nemesis.did(kind, from);
    }
}

fn size(file: &PathBuf) -> u64 {
    fs::metadata(file).expect("the append-only file").len()
}
