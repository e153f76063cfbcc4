//! A real server as a child process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::panicking;
use std::time::Instant;

use tempfile::TempDir;

use super::paths::server_path;
use super::process::{end, free_port, kill, spawn};
use super::{Builder, Client, PATIENCE, Reply, Want, Words, log, wait};

/// A running server in a directory of its own, gone with everything it wrote when this value is dropped.
///
/// A test fails if its server crashed, even where the test itself noticed nothing. When a test fails for whatever reason,
/// the directory stays and its path is printed.
pub struct Server {
    wanted: Builder,
    port: u16,
    cluster_port: Option<u16>,
    /// `Some` until the drop.
    dir: Option<TempDir>,
    /// `None` while stopped.
    child: Option<Child>,
    version: [u32; 3],
    valkey: bool,
    kept: bool,
    /// A caller has asked for the end of a server that crashed, and has reported it.
    crash_told: bool,
}

const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

/// Why a start failed.
enum Failure {
    PortTaken,
    Refused,
    Other(String),
}

impl Server {
    /// Starts a server with the module and default settings.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with the module, to be described further.
    pub fn builder() -> Builder {
        Builder { module: true, ..Builder::default() }
    }

    /// A server without the module, to be described further.
    pub fn plain() -> Builder {
        Builder::default()
    }

    #[track_caller]
    pub(super) fn launch(wanted: Builder) -> Self {
        let mut server = Self::prepared(wanted);
        for _ in 0..10 {
            match server.try_start() {
                Ok(()) => return server,
                Err(Failure::PortTaken) if server.wanted.port.is_none() => server.take_new_ports(),
                Err(failure) => server.did_not_start(failure),
            }
        }
        server.did_not_start(Failure::PortTaken);
    }

    #[track_caller]
    pub(super) fn launch_refused(wanted: Builder) -> String {
        Self::prepared(wanted).start_again_refused()
    }

    fn prepared(wanted: Builder) -> Self {
        let dir = tempfile::Builder::new().prefix("lockstock-test-").tempdir().expect("a directory for the server");
        let mut server = Self {
            wanted,
            port: 0,
            cluster_port: None,
            dir: Some(dir),
            child: None,
            version: [0; 3],
            valkey: false,
            kept: false,
            crash_told: false,
        };
        server.take_new_ports();
        server
    }

    fn take_new_ports(&mut self) {
        self.port = self.wanted.port.unwrap_or_else(free_port);
        self.cluster_port = self.wanted.cluster.then(free_port);
    }

    /// Starts a stopped server again, on the same port and with what it left in its directory.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "the server is still running");
        if let Err(failure) = self.try_start() {
            self.did_not_start(failure);
        }
    }

    /// Fails the test unless the stopped server refuses to start; returns what this start wrote to the log.
    #[track_caller]
    pub fn start_again_refused(mut self) -> String {
        assert!(self.child.is_none(), "the server is still running");
        let before = self.log().len();
        match self.try_start() {
            Ok(()) => panic!("the server started, which it should have refused\n{}", log::tail(&self.log_path())),
            Err(Failure::Refused) => self.log().split_off(before),
            Err(failure) => self.did_not_start(failure),
        }
    }

    /// Saves an RDB file, shuts down in order and starts again.
    #[track_caller]
    pub fn restart(&mut self) {
        self.shutdown();
        self.start_again();
    }

    /// Saves an RDB file and shuts down in order.
    #[track_caller]
    pub fn shutdown(&mut self) {
        let mut client = self.client();
        client.send("SHUTDOWN SAVE");
        if let Some(refusal) = client.read_to_end().pop() {
            panic!("the server did not shut down: {refusal:?}");
        }
        let mut child = self.child.take().expect("a running server");
        let status = child.wait().expect("a child can be waited for");
        assert!(status.success(), "the server's shutdown ended with {status}\n{}", log::tail(&self.log_path()));
    }

    /// Kills the server as a power cut does (SIGKILL).
    pub fn kill9(&mut self) {
        kill(&mut self.child.take().expect("a running server"));
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        let address = self.address();
        Client::try_reach(address, PATIENCE).unwrap_or_else(|error| panic!("no connection to {address}: {error}"))
    }

    /// Carries out one command on a connection of its own.
    #[track_caller]
    pub fn cmd(&self, words: impl Into<Words>) -> Reply {
        self.client().cmd(words)
    }

    /// Carries out one command on a connection of its own; fails the test unless the reply looks as wanted.
    #[track_caller]
    pub fn expect(&self, words: impl Into<Words>, want: impl Into<Want>) -> Reply {
        self.client().expect(words, want)
    }

    /// A section of INFO as field and value.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        info(&self.cmd(["INFO", section]))
    }

    /// One number of INFO.
    #[track_caller]
    pub fn info_int(&self, section: &str, field: &str) -> i64 {
        let info = self.info(section);
        let value = info.get(field).unwrap_or_else(|| panic!("no {field} in INFO {section}: {info:?}"));
        value.parse().unwrap_or_else(|_| panic!("{field} is no number: {value}"))
    }

    /// Lets the directory stay when this value is dropped, as after a failure.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// What this server left behind if it crashed, in any of its starts; the caller then reports it, and the drop does not.
    pub fn crash(&mut self) -> Option<String> {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        // A test that kills it on purpose takes it out of here.
        let died = ended.filter(|status| status.signal().is_some());
        let log = self.log();
        let mark = log::crash(&log);
        if died.is_none() && mark.is_none() {
            return None;
        }
        self.crash_told = true;
        let reason = died.map_or_else(String::new, |status| format!("the server died ({status}); "));
        Some(format!("{reason}{}\n{}", mark.unwrap_or_default(), log::from_crash(&self.log_path())))
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        (self.wanted.listens_on(), self.port).into()
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the cluster bus, if this is a cluster node.
    pub fn cluster_port(&self) -> Option<u16> {
        self.cluster_port
    }

    /// The server's process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// The directory with the server's data, configuration and log.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("present until the drop").path()
    }

    /// The configuration file, rewritten at every start.
    pub fn conf_path(&self) -> PathBuf {
        self.dir().join("redis.conf")
    }

    /// Everything the server wrote to its log so far, over all starts.
    pub fn log(&self) -> String {
        log::read(&self.log_path())
    }

    /// The server's own version, in Redis's or Valkey's numbering: `[7, 0, 15]`.
    pub fn version(&self) -> [u32; 3] {
        self.version
    }

    /// Whether this is a Valkey rather than a Redis.
    pub fn is_valkey(&self) -> bool {
        self.valkey
    }

    fn log_path(&self) -> PathBuf {
        self.dir().join("server.log")
    }

    fn try_start(&mut self) -> Result<(), Failure> {
        let broken = |error: std::io::Error| Failure::Other(error.to_string());
        fs::write(self.conf_path(), self.wanted.conf(self.port, self.cluster_port)).map_err(broken)?;
        let output = File::options().create(true).append(true).open(self.log_path()).map_err(broken)?;
        let before = self.log().len();
        let mut words = self.wanted.under.iter().map(OsString::from).chain([server_path().into_os_string()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg("redis.conf");
        if self.wanted.sentinel {
            command.arg("--sentinel");
        }
        command.current_dir(self.dir()).stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(broken)?).stderr(output);
        let child = spawn(command)
            .map_err(|error| Failure::Other(format!("cannot run {}: {error}", server_path().display())))?;
        self.child = Some(child);

        let deadline = Instant::now() + PATIENCE;
        let mut served = None;
        while served.is_none() {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait().map_err(broken)?
            {
                self.child = None;
                if status.signal().is_some() {
                    return Err(Failure::Other(format!("it died ({status})")));
                }
                let log = self.log().split_off(before);
                return Err(if log.contains("Address already in use") { Failure::PortTaken } else { Failure::Refused });
            }
            if Instant::now() > deadline {
                return Err(Failure::Other(format!("it did not serve within {PATIENCE:?}")));
            }
            served = self.served();
            wait::pause();
        }
        let facts = served.unwrap_or_default();
        self.valkey = facts.contains_key("valkey_version");
        let version = facts.get("valkey_version").or(facts.get("redis_version")).cloned().unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or_default());
        self.version = [(); 3].map(|()| parts.next().unwrap_or_default());
        Ok(())
    }

    /// What INFO says, once it is this process that answers and its data is loaded.
    fn served(&self) -> Option<HashMap<String, String>> {
        let mut client = Client::try_reach(self.address(), PATIENCE).ok()?;
        let facts = info(&client.ask("INFO")?);
        // While one server gives up on a port that was taken, another may be the one that answers there.
        let own = facts.get("process_id")? == &self.pid().to_string();
        // A Sentinel has nothing to load.
        let loaded = facts.get("loading").is_none_or(|loading| loading == "0");
        (own && loaded && !client.ask("PING")?.is_error()).then_some(facts)
    }

    #[track_caller]
    fn did_not_start(&mut self, failure: Failure) -> ! {
        let reason = match failure {
            Failure::PortTaken => format!("port {} is taken", self.port),
            Failure::Refused => "it ended".into(),
            Failure::Other(reason) => reason,
        };
        panic!("the server did not start: {reason}\n{}", log::tail(&self.log_path()));
    }
}

/// The fields of an INFO reply.
fn info(reply: &Reply) -> HashMap<String, String> {
    let text = reply.text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.take().map(|mut child| end(&mut child));
        let died = ended.filter(|status| status.signal() != Some(SIGKILL) && !status.success());
        let log = self.log();
        let crash = log::crash(&log);
        let Some(dir) = self.dir.take() else { return };
        let untold = (died.is_some() || crash.is_some()) && !self.crash_told;
        if panicking() || self.kept || untold {
            let kept = dir.keep();
            eprintln!("the server's directory is kept: {}", kept.display());
            if untold {
                let reason = died.map_or_else(String::new, |status| format!("the server died ({status}); "));
                let story =
                    format!("{reason}{}\n{}", crash.unwrap_or_default(), log::from_crash(&kept.join("server.log")));
                // The test may be in the middle of a panic because of it.
                if panicking() {
                    eprintln!("{story}");
                } else {
                    panic!("{story}");
                }
            }
        }
    }
}
