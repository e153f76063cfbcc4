//! A server that loads are put on, and the readings of its meters.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::available_parallelism;

use harness::listener::compile;
use harness::{Client, OK, Reply, Server, Words, eventually};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// More clients than the largest crowd has, and a queue for the clients that are just being accepted.
const ROOM: [&str; 2] = ["maxclients 15000", "tcp-backlog 1024"];

/// Where the server sends its writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feeds {
    Nobody,
    File,
    Replica,
}

impl Feeds {
    pub const ALL: [Self; 3] = [Self::Nobody, Self::File, Self::Replica];

    /// The description in the title of a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nobody => "",
            Self::File => ", with an append-only file",
            Self::Replica => ", with a replica",
        }
    }
}

/// With the module or without.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Ours,
    /// With a module that decides nothing.
    Floor,
    Plain,
    /// Without it once more: how far two equal servers are apart.
    Control,
}

/// A server that is measured.
pub struct Stand {
    pub server: Server,
    admin: Client,
    /// On the core of the clients.
    replica: Option<Server>,
}

/// The readings of the meters.
#[derive(Clone, Copy)]
pub struct Reading {
    /// Microseconds of the main thread.
    pub cpu: f64,
    /// Commands that were carried out, those of scripts among them.
    pub executed: f64,
}

impl Reading {
    /// The server's `INFO all`.
    pub fn of(text: &str) -> Self {
        let field = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {name}"))
        };
        Self {
            cpu: (field("used_cpu_user_main_thread") + field("used_cpu_sys_main_thread")) * 1e6,
            executed: field("total_commands_processed"),
        }
    }
}

impl Stand {
    pub fn start(side: Side, feeds: Feeds) -> Self {
        Self::start_with(side, feeds, &[], &[])
    }

    /// Starts a server with some more lines of configuration, perhaps under another program.
    pub fn start_with(side: Side, feeds: Feeds, lines: &[&str], under: &[&str]) -> Self {
        let builder = || match side {
            Side::Ours => Server::builder(),
            Side::Floor => Server::plain().config(&format!("loadmodule {}", floor().display())),
            Side::Plain | Side::Control => Server::plain(),
        };
        let file: &[&str] = if feeds == Feeds::File { &["appendonly yes"] } else { &[] };
        let lines = ROOM.iter().chain(file).chain(lines);
        let server = lines.fold(builder(), |builder, line| builder.config(line)).under(under).start();
        keep_to(Pid::from_raw(i32::try_from(server.pid()).expect("a process id")), cores() - 1);
        let mut stand = Self { admin: server.client(), server, replica: None };
        if feeds == Feeds::Replica {
            let replica = builder().start();
            replica.expect(format!("REPLICAOF 127.0.0.1 {}", stand.server.port()), OK);
            eventually("the replica follows", || {
                stand.cmd("INFO replication").text().contains("state=online")
                    && replica.cmd("INFO replication").text().contains("master_link_status:up")
            });
            stand.replica = Some(replica);
        }
        stand
    }

    /// Starts the server again, after it was killed or shut down.
    pub fn start_again(&mut self) {
        self.server.start_again();
        self.admin = self.server.client();
    }

    pub fn cmd(&mut self, words: impl Into<Words>) -> Reply {
        let words = words.into();
        let reply = self.admin.cmd(&words);
        assert!(!reply.is_error(), "{words:?}: {reply:?}");
        reply
    }

    /// The SHA by which a script is called from now on.
    pub fn script(&mut self, lua: &str) -> String {
        self.cmd(["SCRIPT", "LOAD", lua]).text()
    }

    /// Whether this server has a command.
    pub fn knows(&mut self, command: &str) -> bool {
        !matches!(self.cmd(["COMMAND", "INFO", command]).at(0), Reply::Nil(_))
    }

    /// How many words a command takes, with its name; of those that take more, how many at least, below zero.
    pub fn arity(&mut self, command: &str) -> i64 {
        self.cmd(["COMMAND", "INFO", command]).at(0).at(1).int()
    }

    pub fn reading(&mut self) -> Reading {
        Reading::of(&self.cmd("INFO all").text())
    }

    pub fn info(&self, section: &str, field: &str) -> i64 {
        self.server.info_int(section, field)
    }

    /// Waits until all clients are gone but the one that asks.
    pub fn settle(&mut self) {
        let Self { admin, .. } = self;
        eventually("the crowd has left", || admin.cmd("INFO clients").text().contains("connected_clients:1\r"));
    }

    /// Its name in a table's heading.
    pub fn name(&self) -> String {
        let [major, minor, patch] = self.server.version();
        format!("{}-{major}.{minor}.{patch}", if self.server.is_valkey() { "valkey" } else { "redis" })
    }
}

/// The module that decides nothing.
fn floor() -> &'static Path {
    static FLOOR: OnceLock<PathBuf> = OnceLock::new();
    FLOOR.get_or_init(|| compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/floor.c")))
}

/// The machine's cores. Counted once, for a thread that is kept to one of them would count no other.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Keeps a thread (`None`: this one) to one core, so that no run has the server beside its clients and the next one apart.
pub fn keep_to(thread: Option<Pid>, core: usize) {
    assert!(core < cores(), "there is no core {core}");
    let mut set = CpuSet::new();
    set.set(core);
    // A system that forbids it measures with a little more noise.
    let _ = sched_setaffinity(thread, &set);
}
