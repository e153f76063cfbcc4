//! The process that has the lock. It outlives the front for as long as the command's group lives, and ends that group in time: it is in a
//! session of its own, so signals to the front's group, and typed keys, do not reach it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pipe;
use std::sync::Arc;
use std::time::Duration;

use lockstock::{Client, Error, Hold, Lock};
use redis::{ErrorKind, ServerErrorKind, cmd};
use rustix::process::{Pid, Signal, getppid, kill_process, setsid};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::group::Group;
use super::talk::{Task, ToFront, ToGuardian, line};
use crate::fail::{Failure, NOT_GRANTED, NOT_REPLICATED, UNAVAILABLE, USAGE};
use crate::inherited::Signals;
use crate::options::Wait;

/// How long a server may be out of reach before anything was heard of it.
const FIRST: Duration = Duration::from_secs(2);
/// How long taking a request back may take.
const FAREWELL: Duration = Duration::from_millis(800);
/// The longest sleep: timers stand still while the machine sleeps, leases do not.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks at a group that is to end.
const SOON: Duration = Duration::from_millis(10);

/// Serves the front at standard input.
pub fn main() -> Result<i32, Failure> {
    let broken = |error: io::Error| Failure::new(USAGE, format!("only `lockstock run` starts a guardian: {error}"));
    let front = getppid();
    setsid().map_err(|error| broken(error.into()))?;
    // Nothing but KILL ends it before its time.
    let _signals = Signals::begin().map_err(broken)?;
    let _ = rustix::thread::set_name(c"lockstock-guard");
    let socket = rustix::io::dup(rustix::stdio::stdin()).map_err(|error| broken(error.into()))?;
    // One for the clock, one for the server.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(broken)?;
    let outcome = runtime.block_on(guard(socket, front));
    // A look-up of a name may take as long as it likes.
    runtime.shutdown_background();
    outcome.map(|()| 0).map_err(broken)
}

async fn guard(socket: OwnedFd, front: Option<Pid>) -> io::Result<()> {
    let socket = Pipe::from(socket);
    socket.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(socket)?.into_split();
    let mut front = Front { process: front, lines: BufReader::new(reader).lines(), writer, stopped: false };
    let task: Task = serde_json::from_str(&front.lines.next_line().await?.unwrap_or_default())?;
    match ask(&task, &mut front).await {
        Err(failure) => front.tell(&failure).await,
        Ok(None) => {}
        Ok(Some(hold)) => {
            front.tell(&ToFront::Granted { fence: hold.fence() }).await;
            Guard::new(task, front, hold).watch().await;
        }
    }
    Ok(())
}

/// The lock; `None` if the front does not want it any more.
async fn ask(task: &Task, front: &mut Front) -> Result<Option<Hold>, ToFront> {
    let refused = |status, reason: String| ToFront::Refused { status, reason };
    let client = Client::open(&task.url).map_err(|error| refused(USAGE, error.to_string()))?;
    let key = task.keys.first().cloned().unwrap_or_default();
    let asked = async {
        if !task.wait.is_none() {
            reach(&client, &key).await?;
        }
        task.lock(&client).acquire().await
    };
    tokio::pin!(asked);
    let outcome = loop {
        tokio::select! {
            outcome = &mut asked => break Some(outcome),
            heard = front.hear() => match heard {
                None | Some(ToGuardian::Cancel) => break None,
                Some(_) => {}
            },
        }
    };
    let name = task.name();
    match outcome {
        Some(Ok(hold)) => {
            if task.verbose {
                front
                    .say(format!("granted {name}, token {}, fence {}", hold.token().escape_ascii(), hold.fence()))
                    .await;
            }
            Ok(Some(hold))
        }
        Some(Err(error)) => {
            let status = match &error {
                Error::NotGranted => NOT_GRANTED,
                Error::NotReplicated { .. } => NOT_REPLICATED,
                Error::Invalid(_) => USAGE,
                Error::Refused(error) if error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot) => USAGE,
                _ => UNAVAILABLE,
            };
            let reason = match &error {
                Error::NotGranted if task.wait.is_none() => format!("{name} is taken"),
                Error::NotReplicated { replicas } => {
                    format!("{name} was granted, but {replicas} of {} replicas had it within a second", task.replicas)
                }
                Error::NoModule => format!("the server has not loaded the lockstock module ({})", place(&task.url)),
                Error::Unreachable(_) => format!("{error} ({})", place(&task.url)),
                error => format!("{name}: {error}"),
            };
            Err(refused(status, reason))
        }
        None => {
            let mut words = if task.keys.len() == 1 { cmd("LOCK.RELEASE") } else { cmd("LOCK.MRELEASE") };
            if task.keys.len() == 1 {
                words.arg(&key).arg(&task.token);
            } else {
                words.arg(&task.token).arg(task.keys.len()).arg(&task.keys);
            }
            // Out of reach: the place goes with the connection.
            let _ = timeout(FAREWELL, client.query::<redis::Value>(&key, &words)).await;
            Ok(None)
        }
    }
}

/// A wrong address is reported at once, also with a wait of minutes.
async fn reach(client: &Client, key: &[u8]) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match client.query::<redis::Value>(key, &cmd("PING")).await {
            Err(Error::Unreachable(error)) if begun.elapsed() > FIRST => return Err(Error::Unreachable(error)),
            Err(Error::Unreachable(_)) => sleep(LOOK).await,
            // An answer, whatever it says.
            _ => return Ok(()),
        }
    }
}

/// The URL without its secrets.
fn place(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.rsplit_once('@').map_or(rest, |(_, place)| place)
}

impl Task {
    fn lock(&self, client: &Client) -> Lock {
        let lock = client.locks(self.keys.clone()).token(self.token.clone()).lease(self.lease).unattended();
        let lock = match self.wait {
            Wait::For(time) => lock.wait(time),
            Wait::Forever => lock.wait_forever(),
        };
        let lock = lock.replicas(usize::try_from(self.replicas).unwrap_or(usize::MAX));
        let lock = if self.session { lock.session() } else { lock };
        match self.limit {
            Some(limit) => lock.limit(limit),
            None if self.shared => lock.shared(),
            None => lock,
        }
    }

    fn name(&self) -> String {
        let names: Vec<String> = self.keys.iter().map(|key| key.escape_ascii().to_string()).collect();
        names.join(", ")
    }

    /// Between TERM and KILL.
    fn grace(&self) -> Duration {
        let third = self.lease.checked_div(3).unwrap_or_default();
        if self.session { Duration::ZERO } else { self.grace.min(third) }
    }
}

/// The process that the shell knows.
struct Front {
    process: Option<Pid>,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    /// The user has stopped it.
    stopped: bool,
}

impl Front {
    /// What it says next; `None` at its end.
    async fn hear(&mut self) -> Option<ToGuardian> {
        let line = self.lines.next_line().await.ok().flatten()?;
        let heard = serde_json::from_str(&line).ok();
        match &heard {
            Some(ToGuardian::Stopping) => self.stopped = true,
            Some(ToGuardian::Continued) => self.stopped = false,
            _ => {}
        }
        heard
    }

    async fn tell(&mut self, message: &ToFront) {
        // One that has stopped reads later, and one that is gone is noticed elsewhere.
        let _ = timeout(LOOK, self.writer.write_all(&line(message))).await;
    }

    async fn say(&mut self, text: String) {
        self.tell(&ToFront::Say(text)).await;
    }
}

/// The time by a clock that goes on while the machine sleeps.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The lock is held.
struct Guard {
    task: Task,
    front: Front,
    hold: Arc<Hold>,
    granted: Duration,
    /// The time until which the lock is ours at least, if no client takes it from us.
    until: Duration,
    /// When to ask the front whether it is alive, and then to extend.
    next: Duration,
    extension: Option<JoinHandle<Result<(), Error>>>,
    group: Option<Group>,
    ending: Option<Ending>,
    /// It is not extended any more.
    lost: bool,
}

/// Why the group has to end, and by when.
struct Ending {
    cause: Cause,
    /// KILL is due.
    kill: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The command has ended, or did not run.
    Over { ran: bool },
    /// The front has died.
    Orphaned,
    /// The lock is lost, or will be before it can be extended.
    Lost,
}

impl Guard {
    fn new(task: Task, front: Front, hold: Hold) -> Self {
        let (granted, left) = (now(), hold.left());
        let next = granted.saturating_add(left).saturating_sub(task.lease).saturating_add(pace(&task));
        let until = granted.saturating_add(left);
        Self {
            task,
            front,
            hold: Arc::new(hold),
            granted,
            until,
            next,
            extension: None,
            group: None,
            ending: None,
            lost: false,
        }
    }

    async fn watch(mut self) {
        let lost = self.hold.lost();
        tokio::pin!(lost);
        let mut gone = false;
        loop {
            let wake = self.look().await;
            let Some(wake) = wake else { break };
            let mut extended = None;
            let orphaned = matches!(self.ending, Some(Ending { cause: Cause::Orphaned, .. }));
            tokio::select! {
                heard = self.front.hear(), if !orphaned => self.heard(heard.as_ref()),
                done = async { match &mut self.extension { Some(task) => task.await, None => std::future::pending().await } } => {
                    extended = Some(done.unwrap_or(Err(Error::Lost)));
                }
                () = &mut lost, if !gone => gone = true,
                () = sleep(wake) => {}
            }
            if let Some(outcome) = extended {
                self.extension = None;
                self.extended(outcome).await;
            }
            if gone && !self.lost {
                // Without a session that is the end of the lease, or an answer that said so.
                let kill = if self.task.session { now() } else { self.latest_kill() };
                self.lose(kill, "the lock was lost").await;
            }
        }
        self.leave().await;
    }

    /// Does the due work; how long there is nothing to do, or `None`: the group is gone.
    async fn look(&mut self) -> Option<Duration> {
        let now = now();
        if !self.lost && now >= self.term_due() {
            self.lose(self.latest_kill(), "the lock could not be extended").await;
        }
        if let Some(ending) = &self.ending {
            let group = self.group.filter(|group| group.is_alive());
            let group = group?;
            if now >= ending.kill.min(self.latest_kill()) {
                group.kill();
            }
        }
        if !self.lost && self.extension.is_none() && now >= self.next {
            self.next = now.saturating_add(self.task.lease.checked_div(20).unwrap_or_default());
            // One that has been frozen is as good as dead to its lock; one that was stopped by its user is not.
            if self.front.stopped || self.ending.is_some() {
                self.extend();
            }
            if !self.front.stopped {
                self.front.tell(&ToFront::Ping).await;
            }
        }
        let wake = if self.ending.is_some() { SOON } else { LOOK };
        let due = self.next.min(self.term_due()).saturating_sub(now);
        Some(if self.lost { wake } else { wake.min(due.max(Duration::from_millis(1))) })
    }

    fn heard(&mut self, heard: Option<&ToGuardian>) {
        match heard {
            None => self.end(Cause::Orphaned, Duration::ZERO),
            Some(ToGuardian::Pong) => self.extend(),
            Some(ToGuardian::Group(number)) => self.group = Pid::from_raw(*number).map(Group),
            Some(ToGuardian::Ended { ran }) if self.ending.is_none() => {
                // The processes that the command has left behind.
                self.end(Cause::Over { ran: *ran }, self.task.grace.min(third(&self.task)));
                if let Some(group) = self.group.filter(|group| group.is_alive()) {
                    group.term();
                }
            }
            Some(ToGuardian::Cancel) if self.group.is_none() => self.end(Cause::Over { ran: false }, Duration::ZERO),
            Some(ToGuardian::Ended { .. } | ToGuardian::Cancel | ToGuardian::Stopping | ToGuardian::Continued) => {}
        }
    }

    fn end(&mut self, cause: Cause, grace: Duration) {
        self.ending = Some(Ending { cause, kill: now().saturating_add(grace) });
    }

    fn extend(&mut self) {
        if self.extension.is_some() || self.lost {
            return;
        }
        let hold = self.hold.clone();
        let patience = self.task.lease.checked_div(4).unwrap_or_default().min(Duration::from_secs(2));
        self.extension = Some(tokio::spawn(async move { hold.extend_within(patience).await }));
    }

    async fn extended(&mut self, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) if self.lost => {}
            Ok(()) => {
                self.until = now().saturating_add(self.hold.left());
                self.next = self.until.saturating_sub(self.task.lease).saturating_add(pace(&self.task));
                if self.task.verbose {
                    self.front.say(format!("extended {}", self.task.name())).await;
                }
            }
            Err(Error::Lost) if !self.lost => {
                self.lose(self.latest_kill(), "the lock was lost").await;
            }
            // No answer says nothing; the clock does.
            Err(_) => {}
        }
    }

    /// Has the group end by `kill`.
    async fn lose(&mut self, kill: Duration, why: &str) {
        self.lost = true;
        let kill = kill.min(now().saturating_add(self.task.grace()));
        if let Some(ending) = &mut self.ending {
            // It ends already; now it has to hurry.
            ending.kill = ending.kill.min(kill);
            return;
        }
        self.ending = Some(Ending { cause: Cause::Lost, kill });
        if let Some(group) = self.group {
            if self.task.session { group.kill() } else { group.term() }
        }
        self.front.tell(&ToFront::Lost { reason: format!("{}: {why}, the command is ended", self.task.name()) }).await;
    }

    /// No process of the group is to be alive after this.
    fn latest_kill(&self) -> Duration {
        self.until.saturating_sub(margin(self.task.lease))
    }

    fn term_due(&self) -> Duration {
        self.latest_kill().saturating_sub(self.task.grace())
    }

    /// The group is gone: the lock may go.
    async fn leave(mut self) {
        let cause = self.ending.as_ref().map_or(Cause::Orphaned, |ending| ending.cause);
        if let Some(extension) = self.extension.take() {
            extension.abort();
            let _ = extension.await;
        }
        let Some(hold) = Arc::into_inner(self.hold) else { return };
        if cause == Cause::Lost {
            self.front.tell(&ToFront::Done).await;
            if self.front.stopped
                && let Some(process) = self.front.process
            {
                // So that its user hears of it.
                let _ = kill_process(process, Signal::CONT);
            }
        }
        let name = self.task.name();
        let rest = self.task.at_least.saturating_sub(now().saturating_sub(self.granted));
        let ran = self.group.is_some() && cause != Cause::Over { ran: false };
        let released = if !hold.is_held() {
            Err(Error::Lost)
        } else if ran && !rest.is_zero() {
            hold.release_after(rest).await
        } else {
            hold.release().await
        };
        let verbose = self.task.verbose;
        let said = match released {
            Ok(()) => verbose.then(|| format!("released {name}")),
            Err(Error::Lost) => verbose.then(|| format!("{name}: the lock had ended before it was released")),
            Err(error @ Error::NotReleased) => verbose.then(|| format!("{name}: {error}")),
            Err(error) => matches!(cause, Cause::Over { .. })
                .then(|| format!("{name}: not released, the lease will end it: {error}")),
        };
        if let Some(said) = said {
            self.front.say(said).await;
        }
        if cause != Cause::Lost {
            self.front.tell(&ToFront::Done).await;
        }
    }
}

/// How long after an extension the next one begins: as long before the third of the lease as the answers of the front and of a busy server
/// may take.
fn pace(task: &Task) -> Duration {
    let lead = task.lease.checked_div(12).unwrap_or_default().min(Duration::from_millis(250));
    third(task).saturating_sub(lead)
}

/// Between KILL and the end of the lease.
pub fn margin(lease: Duration) -> Duration {
    Duration::from_millis(500).min(lease.checked_div(6).unwrap_or_default())
}

fn third(task: &Task) -> Duration {
    task.lease.checked_div(3).unwrap_or_default()
}
