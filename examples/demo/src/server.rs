//! The demo's own server: a real one, in a directory and on a port of its own, gone when the demo is gone.
//!
//! A process that is killed cannot clean up after itself. So the server is started by a *guardian*: this program once
//! more, in a process group of its own that ctrl-C does not reach. Its standard input is a pipe from the demo; when the
//! demo ends, for whatever reason, the pipe ends too, and the guardian takes the server and its directory away.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::{find_module, free_port, server_path};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::client::Client;

/// How long a server may take to answer its first PING.
const START: Duration = Duration::from_secs(20);
/// Between two attempts to reach it.
const POLL: Duration = Duration::from_millis(5);
/// Ports to try: another process may take one between our asking for it and the server's binding it.
const PORTS: usize = 5;
/// Lines of the server's log worth showing.
const TAIL: usize = 15;

/// The running server, as the demo sees it.
pub struct Server {
    guardian: Child,
    // Dropping this is what ends the server.
    leash: Option<ChildStdin>,
    open: Open,
}

/// What the guardian tells once the server answers, or why it does not.
#[derive(Serialize, Deserialize)]
enum Start {
    Opened(Open),
    Failed(String),
}

#[derive(Serialize, Deserialize)]
struct Open {
    address: String,
    name: String,
    log: PathBuf,
}

impl Server {
    /// Starts a server with the module and waits until it answers.
    pub fn start() -> Result<Self> {
        let module = find_module()?;
        let mut guardian = Command::new(std::env::current_exe().context("find this program")?)
            .arg("guardian")
            .arg(server_path())
            .arg(&module)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("start the server's guardian")?;
        let leash = guardian.stdin.take();
        let mut told = String::new();
        let stdout = guardian.stdout.take().context("the guardian has no output")?;
        BufReader::new(stdout).read_line(&mut told).context("read from the guardian")?;
        match serde_json::from_str(&told).context("the guardian ended without a word")? {
            Start::Opened(open) => Ok(Self { guardian, leash, open }),
            Start::Failed(why) => bail!("{why}"),
        }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.open.address
    }

    /// Which server it is, with its version.
    pub fn name(&self) -> &str {
        &self.open.name
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.open.log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.leash.take());
        // Nothing is left to do about a guardian that cannot be waited for.
        let _ = self.guardian.wait();
    }
}

/// The guardian process: starts the server, tells where it is, and ends it when standard input ends.
pub fn guard(binary: &Path, module: &Path) -> Result<()> {
    let dir = TempDir::with_prefix("lockstock-demo-").context("make a directory for the server")?;
    let started = launch(binary, module, dir.path());
    let (server, start) = match started {
        Ok((server, open)) => (Some(server), Start::Opened(open)),
        Err(why) => (None, Start::Failed(format!("{why:#}"))),
    };
    println!("{}", serde_json::to_string(&start)?);
    if let Some(mut server) = server {
        io::copy(&mut io::stdin(), &mut io::sink()).context("wait for the demo to end")?;
        server.kill().context("end the server")?;
        server.wait().context("wait for the server's end")?;
    }
    dir.close().context("remove the server's directory")
}

fn launch(binary: &Path, module: &Path, dir: &Path) -> Result<(Child, Open)> {
    let log = dir.join("server.log");
    let mut why = String::new();
    for _ in 0..PORTS {
        let port = free_port();
        let mut server = spawn(binary, module, dir, &log, port)?;
        match wait_for_ping(&mut server, dir, port) {
            Ok(name) => return Ok((server, Open { address: format!("127.0.0.1:{port}"), name, log })),
            Err(error) => {
                // It may have ended already, which is what we want of it.
                let _ = server.kill();
                server.wait().context("wait for the server's end")?;
                let log = tail(&log);
                why = format!("{error:#}; the end of its log:\n{log}");
                if !log.contains("Address already in use") {
                    break;
                }
            }
        }
    }
    bail!("{} did not start with {}: {why}", binary.display(), module.display())
}

fn spawn(binary: &Path, module: &Path, dir: &Path, log: &Path, port: u16) -> Result<Child> {
    let config = dir.join("server.conf");
    // Nothing is saved: the demo's data is worth nothing after it.
    let settings = format!(
        "bind 127.0.0.1\nport {port}\ndir \"{}\"\nsave \"\"\nappendonly no\nloadmodule \"{}\"\n",
        dir.display(),
        module.display()
    );
    fs::write(&config, settings).context("write the server's configuration")?;
    let log = fs::File::create(log).context("create the server's log")?;
    Command::new(binary)
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("share the server's log")?)
        .stderr(log)
        .spawn()
        .with_context(|| {
            format!("cannot run {}: install Redis or Valkey, or name a server: make demo SERVER=path", binary.display())
        })
}

/// Waits until the server answers on `port`, makes sure that it is ours, and returns its name and version.
fn wait_for_ping(server: &mut Child, dir: &Path, port: u16) -> Result<String> {
    let until = Instant::now() + START;
    loop {
        if let Some(status) = server.try_wait().context("look after the server")? {
            bail!("the server ended at once ({status})");
        }
        match greet(dir, port) {
            Ok(name) => return Ok(name),
            Err(error) => ensure!(Instant::now() < until, "no answer in {START:?}: {error:#}"),
        }
        std::thread::sleep(POLL);
    }
}

fn greet(dir: &Path, port: u16) -> Result<String> {
    let mut client = Client::connect(&format!("127.0.0.1:{port}"))?;
    client.ask::<String>(&redis::cmd("PING"))?;
    let (_, theirs): (String, String) = client.ask(redis::cmd("CONFIG").arg("GET").arg("dir"))?;
    ensure!(Path::new(&theirs) == dir.canonicalize()?, "another server has taken port {port}");
    let info: String = client.ask(redis::cmd("INFO").arg("server"))?;
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    let valkey = field("valkey_version").map(|version| format!("Valkey {version}"));
    let redis = || field("redis_version").map(|version| format!("Redis {version}"));
    valkey.or_else(redis).context("INFO server names no version")
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_else(|error| format!("(no log: {error})"));
    let lines: Vec<_> = text.lines().collect();
    let skipped = lines.len().saturating_sub(TAIL);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
