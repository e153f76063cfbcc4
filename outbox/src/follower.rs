//! Follows one sale: holds its lock, reads its stream, and writes the orders.

use std::sync::Arc;
use std::time::Duration;

use lockstock::{Client, Hold};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::event::{self, EntryId, Event};
use crate::metrics::{Lag, Metrics, SaleMetrics};
use crate::name::{noted, shown, stored};
use crate::options::Options;
use crate::past;
use crate::reconcile::reconcile;
use crate::report::{Absences, done, more_to_do, say};
use crate::source::{self, Info};
use crate::store::{LONGEST_SALE, Position, Store, Writer};
use crate::supervisor::Streams;
use crate::trouble::{Place, Trouble};

/// How long the lock of a sale outlasts a process that is frozen. One that dies loses it with its connection.
const LEASE: Duration = Duration::from_secs(10);
/// How long to stand in line before looking round.
const STAND: Duration = Duration::from_secs(5);
/// The first and the last pause of a sale that nothing happens to, and how much longer the last is for each sale.
const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_millis(50);
const FOR_EACH: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(2);
/// How long to wait before a failed step is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// How often a sale is reconciled that does not get on.
const MENDS: u32 = 3;
/// How often a stream is trimmed.
const TRIMS: Duration = Duration::from_secs(5);

/// The state that all followers share.
pub struct World {
    pub client: Client,
    pub store: Store,
    pub options: Options,
    pub metrics: Arc<Metrics>,
    pub absences: Absences,
    pub streams: Streams,
    /// Whether it is time to end.
    pub stop: watch::Receiver<bool>,
}

/// How following a sale has ended.
#[derive(Debug)]
pub enum End {
    /// It is time to end, or `--once` has written all.
    Done,
    /// There is no such sale any more.
    Gone,
    /// The sale has no stream.
    Streamless,
    /// Only an administrator can say how to go on with the sale.
    Stopped(String),
    /// Only an administrator can say how to go on at all.
    Refused(String),
}

/// Follows one sale.
pub struct Follower {
    pub world: Arc<World>,
    pub sale: Vec<u8>,
    name: String,
    metrics: Arc<SaleMetrics>,
    /// The token that holds its lock. Of two sales with one token, the server would take each for the other's holder.
    token: String,
    /// The stream of the sale; empty: not known yet. It outlives the sale.
    stream: Vec<u8>,
    reconciled: bool,
    /// How often it was to be reconciled again since an event was written.
    mends: u32,
    /// Up to which change `--once` writes; known once the sale has been asked.
    goal: Option<i64>,
    told_line: bool,
    trimmed: Option<Instant>,
}

/// The result of a look at the sale and its stream.
struct Look {
    info: Option<Info>,
    events: Vec<Event>,
}

impl Follower {
    pub fn new(world: Arc<World>, sale: Vec<u8>) -> Self {
        let name = stored(&sale);
        let metrics = world.metrics.sale(&name);
        Self {
            world,
            sale,
            name,
            metrics,
            token: uuid::Uuid::new_v4().to_string(),
            stream: Vec::new(),
            reconciled: false,
            mends: 0,
            goal: None,
            told_line: false,
            trimmed: None,
        }
    }

    /// Follows the sale until there is a reason to end.
    pub async fn run(mut self) -> End {
        let end = self.persist().await;
        if matches!(end, End::Stopped(_)) {
            self.metrics.stops(true);
        }
        if matches!(end, End::Gone | End::Streamless) {
            self.world.metrics.forget(&self.name);
        }
        self.world.streams.leave(&self.sale);
        end
    }

    async fn persist(&mut self) -> End {
        if self.name.len() > LONGEST_SALE {
            return End::Stopped("its name is longer than a table takes".into());
        }
        loop {
            let trouble = match self.attempt().await {
                Ok(end) => return end,
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Refused(why) => return End::Refused(why),
                // What comes up while it runs is mended as what was there before.
                Trouble::Stopped(why) if self.world.options.reconcile && self.mends < MENDS => {
                    self.say(&why);
                    self.mends = self.mends.saturating_add(1);
                    (self.reconciled, self.goal) = (false, None);
                }
                Trouble::Stopped(why) => return End::Stopped(why),
                Trouble::Away(place, why) => {
                    self.world.metrics.error(place);
                    self.world.absences.away(place, &why);
                    // While the database is away, the lag grows. Else nothing is known of it.
                    if place != Place::Database {
                        self.metrics.lags(|_| None);
                    }
                }
                Trouble::Lost => self.metrics.lags(|_| None),
            }
            if self.rest(RETRY).await {
                return End::Done;
            }
        }
    }

    /// Takes the lock and follows the sale until something comes in between.
    async fn attempt(&mut self) -> Result<End, Trouble> {
        let info = self.info().await?;
        if let Some(info) = &info {
            if info.stream.is_empty() {
                return Ok(End::Streamless);
            }
            self.enter(&info.stream).await?;
            self.stream.clone_from(&info.stream);
        } else if self.stream.is_empty() {
            return Ok(End::Gone);
        }
        let Some(hold) = self.acquire().await? else { return Ok(End::Done) };
        let outcome = self.follow(&hold, info.as_ref()).await;
        // Whether or not the server can be told, the connection of the session ends with it.
        let _ = hold.release().await;
        outcome
    }

    /// Enters the stream for the sale.
    async fn enter(&self, stream: &[u8]) -> Result<(), Trouble> {
        let Err(other) = self.world.streams.enter(stream, &self.sale) else { return Ok(()) };
        let info = source::info(&self.world.client, &other).await?;
        if info.is_none_or(|info| info.stream != stream) {
            // The other sale was renamed or deleted. Its follower leaves the stream when all is written.
            return Err(Trouble::Lost);
        }
        let mut both = [shown(&other), shown(&self.sale)];
        both.sort();
        let [first, second] = both;
        Err(Trouble::Refused(format!(
            "the sales {first} and {second} have one stream, {}; events of two sales cannot be told apart",
            shown(stream)
        )))
    }

    /// The lock of the sale; `None` if it is time to end.
    async fn acquire(&mut self) -> Result<Option<Hold>, Trouble> {
        let key = [b"lockstock-outbox:", self.sale.as_slice()].concat();
        let lock = self.world.client.lock(key).lease(LEASE).session().token(self.token.clone());
        match lock.acquire().await {
            Err(lockstock::Error::NotGranted) => {}
            answer => return Ok(Some(answer?)),
        }
        self.world.absences.back(Place::Server);
        self.metrics.lags(|_| None);
        if !self.told_line {
            self.told_line = true;
            self.say("another outbox is at work on it; this one stands in line");
        }
        let lock = lock.wait(STAND);
        let mut stop = self.world.stop.clone();
        tokio::select! {
            answer = lock.acquire() => Ok(Some(answer?)),
            _ = stop.wait_for(|stop| *stop) => Ok(None),
        }
    }

    async fn follow(&mut self, hold: &Hold, info: Option<&Info>) -> Result<End, Trouble> {
        self.told_line = false;
        let stream = self.stream.clone();
        let (mut at, mut ours) = match self.world.store.claim(&self.name, hold.fence(), &noted(&stream)).await {
            Err(Trouble::Lost) => {
                let why = "an outbox with a later fence has written to these tables: another server, or one whose clock went back";
                return Err(Trouble::Away(Place::Fence, format!("{}: {why}", shown(&self.sale))));
            }
            claimed => claimed?,
        };
        if info.is_some() && self.world.options.reconcile && !self.reconciled {
            at = reconcile(&self.world, &self.sale, &self.name, &stream, hold.fence(), at).await?;
            (self.reconciled, ours) = (true, true);
        }
        let last = info.map_or(at.seq, |info| info.seq);
        // If it stops at the first look, this is known.
        self.metrics.begins(at.seq, last);
        if !ours {
            return Err(past::other(at, last));
        }
        let mut pause = SHORT;
        let mut look = self.look(&stream, at).await?;
        past::check_stream(&self.world.client, &self.sale, &stream, at).await?;
        loop {
            if !hold.is_held() {
                return Err(Trouble::Lost);
            }
            self.set_goal(look.info.as_ref(), at);
            self.tell_lag(&look, at);
            let next = if look.events.is_empty() {
                if look.info.is_none() {
                    self.say("the sale was deleted, and all that its stream tells is written");
                    return Ok(End::Gone);
                }
                at = self.settle(hold, &look, at).await?;
                None
            } else {
                let to = after(&look, at);
                // The next events are read while these are written.
                let (written, next) = tokio::join!(self.write(hold, &look.events, at, to), self.look(&stream, to));
                written?;
                self.count(look.events.len());
                (at, pause) = (to, SHORT);
                Some(next)
            };
            // Only now both have done all that is asked of them: what answers reads may refuse writes.
            for place in [Place::Server, Place::Database, Place::Fence] {
                self.world.absences.back(place);
            }
            let ends = self.goal.is_some_and(|goal| goal <= at.seq) || *self.world.stop.borrow();
            self.trim(&stream, at, ends).await?;
            if ends {
                return Ok(End::Done);
            }
            look = if let Some(next) = next {
                next?
            } else {
                if self.rest(pause).await {
                    return Ok(End::Done);
                }
                let sales = u32::try_from(self.world.streams.count()).unwrap_or(u32::MAX);
                pause = pause.saturating_mul(2).min(LONG.saturating_add(FOR_EACH.saturating_mul(sales)).min(LONGEST));
                self.look(&stream, at).await?
            };
            if look.info.as_ref().is_some_and(|info| info.stream != stream) {
                // The sale was created anew with another stream.
                return Err(Trouble::Lost);
            }
        }
    }

    /// The values of the sale, if it is there.
    async fn info(&self) -> Result<Option<Info>, Trouble> {
        let info = source::info(&self.world.client, &self.sale).await?;
        if let Some(info) = &info {
            self.metrics.lags(|lag| lag.map(|lag| Lag { last: info.seq, ..lag }));
        }
        Ok(info)
    }

    /// Looks at the sale and reads the events after `at`; the result is certain.
    async fn look(&self, stream: &[u8], at: Position) -> Result<Look, Trouble> {
        let client = &self.world.client;
        let (info, read) = tokio::join!(self.info(), source::read(client, stream, at.first(), self.count_of_read()));
        let (info, events) = (info?, read?);
        match past::next(client, stream, at, info.as_ref(), events).await {
            // One answer may be older than the other. This time they come one after the other.
            Err(Trouble::Stopped(_)) => {
                let info = self.info().await?;
                let events = source::read(client, stream, at.first(), self.count_of_read()).await?;
                let events = past::next(client, stream, at, info.as_ref(), events).await?;
                Ok(Look { info, events })
            }
            events => Ok(Look { info, events: events? }),
        }
    }

    /// One more than a batch: the first is the one that was written last.
    fn count_of_read(&self) -> u32 {
        self.world.options.batch.saturating_add(1)
    }

    /// Writes events and the position behind them.
    async fn write(&self, hold: &Hold, events: &[Event], at: Position, to: Position) -> Result<(), Trouble> {
        let silent: Vec<Vec<u8>> =
            events.iter().filter(|event| event.is_silent()).map(|event| event.id.clone()).collect();
        let known = source::known(&self.world.client, &self.sale, silent).await?;
        let orders = event::rows(events, &known);
        let kept = if self.world.options.events { events.iter().map(Event::event_row).collect() } else { Vec::new() };
        let writer = Writer { sale: &self.name, fence: hold.fence(), from: at };
        self.world.store.write(writer, to, &orders, &kept).await?;
        self.world.metrics.transaction();
        Ok(())
    }

    /// Where nothing is to be read, what the table says of the whole sale is made what the sale says.
    async fn settle(&self, hold: &Hold, look: &Look, at: Position) -> Result<Position, Trouble> {
        let Some(info) = look.info.as_ref().filter(|info| info.seq == at.seq) else { return Ok(at) };
        let to = Position { total: info.total, remaining: info.remaining, ..at };
        if to != at {
            self.write(hold, &[], at, to).await?;
        }
        Ok(to)
    }

    async fn trim(&mut self, stream: &[u8], at: Position, last: bool) -> Result<(), Trouble> {
        let Some(keep) = self.world.options.keep else { return Ok(()) };
        if at.entry == EntryId::default() || !last && self.trimmed.is_some_and(|before| before.elapsed() < TRIMS) {
            return Ok(());
        }
        self.trimmed = Some(Instant::now());
        source::trim(&self.world.client, stream, at.entry.next(), keep).await
    }

    fn set_goal(&mut self, info: Option<&Info>, at: Position) {
        if self.world.options.once
            && self.goal.is_none()
            && let Some(info) = info
        {
            self.goal = Some(info.seq);
            more_to_do(info.seq.saturating_sub(at.seq).try_into().unwrap_or(0));
        }
    }

    fn tell_lag(&self, look: &Look, at: Position) {
        let last = look.events.last().map_or(at.seq, |event| event.seq);
        let last = look.info.as_ref().map_or(last, |info| info.seq.max(last));
        let oldest = look.events.first().map_or(0, |event| event.entry.ms);
        self.metrics.lags(|_| Some(Lag { written: at.seq, last, oldest }));
        self.metrics.stops(false);
    }

    fn count(&mut self, events: usize) {
        self.mends = 0;
        let events = u64::try_from(events).unwrap_or(0);
        self.metrics.wrote(events);
        done(events);
    }

    /// Rests; `true` if it is time to end.
    async fn rest(&self, pause: Duration) -> bool {
        let mut stop = self.world.stop.clone();
        tokio::select! {
            () = sleep(pause) => *self.world.stop.borrow(),
            _ = stop.wait_for(|stop| *stop) => true,
        }
    }

    fn say(&self, text: &str) {
        say(format!("{}: {text}", shown(&self.sale)));
    }
}

/// The position behind the events of this look.
fn after(look: &Look, at: Position) -> Position {
    let Some(last) = look.events.last() else { return at };
    let (total, remaining) = look.info.as_ref().map_or((at.total, at.remaining), |info| (info.total, info.remaining));
    Position { seq: last.seq, entry: last.entry, foreign: false, total, remaining }
}
