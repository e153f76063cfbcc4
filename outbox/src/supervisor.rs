//! Finds the sales, starts a follower for each, and ends in order.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstock::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::follower::{End, Follower, World};
use crate::metrics::{self, Metrics};
use crate::name::{shown, stored};
use crate::options::Options;
use crate::report::{Absences, Progress, say};
use crate::source;
use crate::store::Store;
use crate::trouble::{Failure, Place, REFUSED, Trouble, USAGE};

/// How often new sales are looked for.
const SEARCH: Duration = Duration::from_secs(4);
/// How often a sale is looked at again that was left alone.
const AGAIN: Duration = Duration::from_mins(1);
/// How often the log tells the progress.
const REPORT: Duration = Duration::from_mins(1);
/// How long to wait before a failed step is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How many sales are named when they are found.
const FEW: usize = 10;
/// How long the batches in hand have after TERM.
const LAST: Duration = Duration::from_secs(25);

/// Which sale writes to which stream.
#[derive(Debug, Default)]
pub struct Streams {
    of: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Streams {
    /// Notes that `sale` is followed by `stream`.
    ///
    /// # Errors
    /// Another sale is, this one: nothing in an event tells which sale it is of.
    pub fn enter(&self, stream: &[u8], sale: &[u8]) -> Result<(), Vec<u8>> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = of.get(stream).filter(|other| *other != sale) {
            return Err(other.clone());
        }
        of.retain(|_, other| other != sale);
        of.insert(stream.to_vec(), sale.to_vec());
        Ok(())
    }

    pub fn leave(&self, sale: &[u8]) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, other| other != sale);
    }

    pub fn count(&self) -> usize {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

pub fn run(options: Options) -> Result<ExitCode, Failure> {
    let client = Client::open(&options.redis).map_err(|error| Failure::new(USAGE, format!("--redis: {error}")))?;
    let store = Store::new(&options.to, &options.prefix, options.events);
    let store = store.map_err(|error| Failure::new(USAGE, format!("--to: {error}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(REFUSED, error))?;
    let outcome = runtime.block_on(supervise(options, client, store));
    // A task that still waits for a silent server or database is dropped.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn supervise(options: Options, client: Client, store: Store) -> Result<ExitCode, Failure> {
    let (tell, stop) = watch::channel(false);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signal = signal(kind).map_err(|error| Failure::new(REFUSED, error))?;
        let tell = tell.clone();
        tokio::spawn(async move {
            if signal.recv().await.is_some() {
                tell.send_replace(true);
            }
        });
    }
    let metrics = Arc::new(Metrics::default());
    if let Some(address) = &options.metrics {
        let address = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.clone() };
        let listener = TcpListener::bind(&address).await;
        let listener = listener.map_err(|error| Failure::new(REFUSED, format!("--metrics {address}: {error}")))?;
        tokio::spawn(metrics::serve(listener, metrics.clone()));
    }
    let _progress = options.once.then(Progress::begin);
    let (absences, streams) = (Absences::default(), Streams::default());
    let world = Arc::new(World { client, store, options, metrics, absences, streams, stop });
    let mut supervisor =
        Supervisor { world, followers: JoinSet::new(), followed: HashSet::new(), left: HashMap::new(), stopped: false };
    let outcome = supervisor.run().await;
    tell.send_replace(true);
    // Each follower releases its lock. A follower that waits for a silent server or database is dropped.
    let _ = timeout(LAST, supervisor.empty()).await;
    outcome
}

/// A sale that is not followed now.
struct Left {
    since: Instant,
    why: String,
}

struct Supervisor {
    world: Arc<World>,
    /// The followers; each names its sale when it ends.
    followers: JoinSet<(Vec<u8>, End)>,
    followed: HashSet<Vec<u8>>,
    left: HashMap<Vec<u8>, Left>,
    /// Whether a sale was stopped.
    stopped: bool,
}

impl Supervisor {
    async fn run(&mut self) -> Result<ExitCode, Failure> {
        let world = self.world.clone();
        let mut stop = world.stop.clone();
        if !self.patiently(|| world.store.prepare()).await? {
            return Ok(ExitCode::SUCCESS);
        }
        world.absences.back(Place::Database);
        let patterns: Vec<Vec<u8>> = world.options.sales.iter().map(|sale| sale.as_bytes().to_vec()).collect();
        let (mut searched, mut reported) = (false, 0);
        let (mut search, mut report) = (interval(SEARCH), interval(REPORT));
        for times in [&mut search, &mut report] {
            times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        report.tick().await;
        loop {
            if world.options.once && searched && self.followers.is_empty() {
                return Ok(if self.stopped { ExitCode::FAILURE } else { ExitCode::SUCCESS });
            }
            tokio::select! {
                Some(ended) = self.followers.join_next() => self.ended(ended.map_err(|error| Failure::new(REFUSED, error))?)?,
                _ = search.tick(), if !(world.options.once && searched) => {
                    let mut found = Vec::new();
                    if self.patiently(async || { found = source::matching(&world.client, &patterns).await?; Ok(()) }).await? {
                        // Else a follower says so, which asks for more.
                        if self.followed.is_empty() {
                            world.absences.back(Place::Server);
                        }
                        self.follow(found, searched);
                        searched = true;
                    }
                }
                _ = report.tick() => {
                    reported = self.report(reported);
                }
                _ = stop.wait_for(|stop| *stop) => return Ok(ExitCode::SUCCESS),
            }
        }
    }

    /// Tries until it is done; `false` if it is time to end.
    async fn patiently(&self, mut work: impl AsyncFnMut() -> Result<(), Trouble>) -> Result<bool, Failure> {
        let mut stop = self.world.stop.clone();
        loop {
            let outcome = tokio::select! {
                outcome = work() => outcome,
                _ = stop.wait_for(|stop| *stop) => return Ok(false),
            };
            match outcome {
                Ok(()) => return Ok(true),
                Err(Trouble::Refused(why) | Trouble::Stopped(why)) => return Err(Failure::new(REFUSED, why)),
                Err(Trouble::Away(place, why)) => {
                    self.world.metrics.error(place);
                    self.world.absences.away(place, &why);
                }
                Err(Trouble::Lost) => {}
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = stop.wait_for(|stop| *stop) => return Ok(false),
            }
        }
    }

    /// Starts a follower for each sale that has none.
    fn follow(&mut self, found: Vec<Vec<u8>>, before: bool) {
        let mut new = Vec::new();
        // Of a sale that was left alone and is gone, nothing is to be said any more.
        for (sale, _) in self.left.extract_if(|sale, _| !found.contains(sale)) {
            self.world.metrics.forget(&stored(&sale));
        }
        for sale in found {
            let left = self.left.get(&sale);
            if self.followed.contains(&sale) || left.is_some_and(|left| left.since.elapsed() < AGAIN) {
                continue;
            }
            if left.is_none() {
                new.push(shown(&sale));
            }
            self.followed.insert(sale.clone());
            let follower = Follower::new(self.world.clone(), sale.clone());
            self.followers.spawn(async move { (sale, follower.run().await) });
        }
        match new.as_slice() {
            [] if before || !self.followed.is_empty() => {}
            [] => say("no sale matches"),
            few if few.len() <= FEW => say(format!("follows {}", few.join(", "))),
            many => say(format!("follows {} more sales", many.len())),
        }
    }

    fn ended(&mut self, (sale, end): (Vec<u8>, End)) -> Result<(), Failure> {
        self.followed.remove(&sale);
        let why = match end {
            End::Done => return Ok(()),
            End::Gone => {
                self.left.remove(&sale);
                return Ok(());
            }
            End::Refused(why) => return Err(Failure::new(REFUSED, why)),
            End::Streamless => "it has no stream, so nobody tells what happens to it; left alone".to_owned(),
            End::Stopped(why) => {
                self.stopped = true;
                format!("stopped: {why}")
            }
        };
        let known = self.left.get(&sale).is_some_and(|left| left.why == why);
        if !known {
            say(format!("{}: {why}", shown(&sale)));
        }
        self.left.insert(sale, Left { since: Instant::now(), why });
        Ok(())
    }

    /// Logs the events that were written since the last time, if there are any.
    fn report(&self, before: u64) -> u64 {
        let (sales, written, behind, lag) = self.world.metrics.sums();
        let new = written.saturating_sub(before);
        if new > 0 || behind > 0 {
            let lag = lag.as_secs_f64();
            say(format!(
                "{new} events of {sales} sales written within a minute; at most {behind} events ({lag:.1} s) behind"
            ));
        }
        written
    }

    async fn empty(&mut self) {
        while self.followers.join_next().await.is_some() {}
    }
}
