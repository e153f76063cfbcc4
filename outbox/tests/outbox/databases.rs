//! Databases as processes of the tests.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use harness::{PATIENCE, eventually, free_port, kill, spawn};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::any::{AnyConnectOptions, AnyRow};
use sqlx::{AnyConnection, AssertSqlSafe, ConnectOptions, Connection, Row};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// A database of its own; its process is killed when this is dropped.
pub struct Database {
    pub kind: Kind,
    dir: TempDir,
    port: u16,
    process: Option<Child>,
    /// Whether it waits for its disk at each commit, as one that lives through power cuts must.
    durable: bool,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        sqlx::any::install_default_drivers();
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    })
}

impl Database {
    #[track_caller]
    pub fn start(kind: Kind) -> Self {
        Self::begin(kind, false)
    }

    #[track_caller]
    pub fn durable(kind: Kind) -> Self {
        Self::begin(kind, true)
    }

    fn begin(kind: Kind, durable: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut database = Self { kind, dir, port: free_port(), process: None, durable };
        match kind {
            Kind::Sqlite => return database,
            Kind::Postgres => database.init_postgres(),
            Kind::MariaDb => database.init_mariadb(),
        }
        database.start_again();
        if kind == Kind::MariaDb {
            database.ask_at("mysql", "CREATE DATABASE shop");
        }
        database
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn init_postgres(&self) {
        if let Some((uid, gid)) = postgres_user() {
            chown(self.dir.path(), Some(uid), Some(gid)).expect("root");
        }
        let mut init = self.as_postgres(postgres("initdb"));
        run(init
            .args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(self.data()));
    }

    fn init_mariadb(&self) {
        let mut init = Command::new("mariadb-install-db");
        init.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        // One that starts removes the temporary tables of others.
        init.arg(format!("--tmpdir={}", self.dir.path().display()));
        run(init.arg(format!("--datadir={}", self.data().display())).arg(format!("--user={}", me())));
    }

    /// Starts its process, and waits until it answers.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let (data, port) = (self.data(), self.port);
        let command = || {
            let mut command = match self.kind {
                Kind::Sqlite => return None,
                Kind::Postgres => {
                    let mut command = self.as_postgres(postgres("postgres"));
                    command.arg("-D").arg(&data).args(["-c", "listen_addresses=127.0.0.1", "-p"]);
                    command.arg(port.to_string()).arg("-k").arg(self.dir.path());
                    if !self.durable {
                        command.args(["-c", "fsync=off"]);
                    }
                    command
                }
                Kind::MariaDb => {
                    let mut command = Command::new("mariadbd");
                    command.args(["--no-defaults", "--bind-address=127.0.0.1"]).arg(format!("--user={}", me()));
                    command.arg(format!("--tmpdir={}", self.dir.path().display()));
                    command.arg(format!("--datadir={}", data.display())).arg(format!("--port={port}"));
                    command.arg(format!("--socket={}", self.dir.path().join("socket").display()));
                    command
                }
            };
            let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).expect("a log");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            Some(command)
        };
        let Some(first) = command() else { return };
        let mut process = spawn(first).expect("the database starts");
        let url = self.url_of(if self.kind == Kind::MariaDb { "mysql" } else { "postgres" });
        eventually("the database answers", || {
            // What the killed one has left may take a moment to go.
            if process.try_wait().expect("a child").is_some()
                && let Some(again) = command()
            {
                std::thread::sleep(std::time::Duration::from_millis(100));
                process = spawn(again).expect("the database starts");
            }
            runtime().block_on(connect(&url)).is_ok()
        });
        self.process = Some(process);
    }

    /// Kills it as a power cut does.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            kill(&mut process);
        }
    }

    /// Sends a signal to all of its processes.
    pub fn signal(&self, signal: Signal) {
        let Some(process) = &self.process else { return };
        let first = i32::try_from(process.id()).expect("a number");
        let mut all = vec![first];
        for entry in fs::read_dir("/proc").expect("Linux").flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            if parent == Some(first) {
                all.extend(entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
            }
        }
        for process in all {
            // One that has just ended is none to be frozen.
            let _ = kill_process(Pid::from_raw(process).expect("a number"), signal);
        }
    }

    /// For `--to`.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Sqlite => format!("sqlite:{}", self.dir.path().join("orders.db").display()),
            Kind::Postgres => self.url_of("postgres"),
            Kind::MariaDb => self.url_of("shop"),
        }
    }

    pub fn url_of(&self, name: &str) -> String {
        match self.kind {
            Kind::Sqlite => self.url(),
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{}/{name}", self.port),
            Kind::MariaDb => format!("mysql://root@127.0.0.1:{}/{name}", self.port),
        }
    }

    /// The rows of a query, its columns as text. `«»` around a column of names reads it as text in every database.
    #[track_caller]
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        self.try_rows(query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// The same; the error is for a table that is not there yet, say.
    pub fn try_rows(&self, query: &str) -> Result<Vec<Vec<String>>, sqlx::Error> {
        let query = self.worded(query);
        runtime().block_on(async {
            let mut connection = connect(&self.url()).await?;
            let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(&mut connection).await?;
            connection.close().await?;
            Ok(rows.iter().map(texts).collect())
        })
    }

    /// Carries out a statement.
    #[track_caller]
    pub fn change(&self, statement: &str) {
        let name = if self.kind == Kind::MariaDb { "shop" } else { "postgres" };
        self.ask_at(name, statement);
    }

    #[track_caller]
    fn ask_at(&self, name: &str, statement: &str) {
        let (url, statement) = (self.url_of(name), self.worded(statement));
        let done = runtime().block_on(async {
            let mut connection = connect(&url).await?;
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
            connection.close().await
        });
        done.expect("a statement");
    }

    fn worded(&self, query: &str) -> String {
        if self.kind == Kind::MariaDb {
            query.replace('«', "CONVERT(").replace('»', " USING utf8mb4)")
        } else {
            query.replace(['«', '»'], "")
        }
    }

    fn as_postgres(&self, mut command: Command) -> Command {
        if let Some((uid, gid)) = postgres_user() {
            command.uid(uid).gid(gid);
        }
        command.current_dir(self.dir.path());
        command
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A frozen process does not hear that its parent is dead.
        self.signal(Signal::CONT);
        self.kill9();
        if std::thread::panicking() && !self.log().is_empty() {
            let mut end = String::new();
            for line in self.log().lines().rev().take(10) {
                let _ = writeln!(end, "{line}");
            }
            eprintln!("the end of the database's log, backwards:\n{end}");
        }
    }
}

async fn connect(url: &str) -> Result<AnyConnection, sqlx::Error> {
    let url = if url.starts_with("sqlite:") { format!("{url}?mode=rwc") } else { url.to_owned() };
    let options: AnyConnectOptions = url.parse()?;
    tokio::time::timeout(PATIENCE, options.disable_statement_logging().connect()).await.expect("in time")
}

fn texts(row: &AnyRow) -> Vec<String> {
    let text = |column: usize| {
        let number = || row.try_get::<Option<i64>, _>(column).map(|number| number.map(|number| number.to_string()));
        let text = row.try_get::<Option<String>, _>(column).or_else(|_| number()).expect("text or a number");
        text.unwrap_or_else(|| "NULL".to_owned())
    };
    (0..row.len()).map(text).collect()
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; `make test-outbox` installs it"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A program of the newest PostgreSQL; Debian keeps them beside the path.
pub fn postgres(program: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin").join(program)).filter(|path| path.exists()).collect();
    found.sort_by_key(|path| version(path));
    Command::new(found.pop().unwrap_or_else(|| program.into()))
}

fn version(path: &Path) -> Option<u32> {
    path.iter().find_map(|part| part.to_str()?.parse().ok())
}

/// PostgreSQL does not run as root; its package has a user for it.
fn postgres_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let user = users.lines().find(|line| line.starts_with("postgres:")).expect("the user postgres");
    let mut fields = user.split(':').skip(2).map(|field| field.parse().expect("a number"));
    Some((fields.next()?, fields.next()?))
}

fn me() -> String {
    std::env::var("USER").ok().filter(|_| !rustix::process::geteuid().is_root()).unwrap_or_else(|| "root".into())
}
