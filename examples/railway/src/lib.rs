//! A train in miniature: seats for journeys over several legs, and waitlists for passengers who come too late.
//!
//! ```text
//! cargo run -p lockstock-railway -- redis://127.0.0.1:6379
//! ```
//!
//! Ten stops make nine legs, and each leg is a sale of as many units as the train has seats. A journey needs a seat on each of its
//! legs: `STOCK.MDECR_ONCE` gets all of them or none. All sales of a train lie in one slot.
//!
//! If a leg is full, the journey waits: it takes its legs one after the other, from the first on, and joins the waitlist of each that
//! is full. When another journey is cancelled, the server gives its seats to the waiting journeys, in the same step and strictly in order,
//! and a journey that was served goes on to the next leg. All journeys take legs in the order of travel, so no two journeys can wait for each
//! other. What a journey has of a train is held for a while only ([`HOLD`]), and renewed as long as its passenger cares for it.
//!
//! Whether a journey was passed over can be told from the streams of the legs alone: [`passed_over`].

use std::collections::{BTreeMap, VecDeque};

use redis::{Cmd, ConnectionLike, FromRedisValue, RedisResult, Value, cmd, from_redis_value};

/// How long a seat is held for a journey that is not complete, in milliseconds.
pub const HOLD: u64 = 3_600_000;

/// A train with `stops` stops, and so one leg less.
#[derive(Clone, Debug)]
pub struct Train {
    /// Its name.
    pub name: String,
    /// How many stops it has.
    pub stops: usize,
}

/// A passenger's way from one stop to a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The id of the order.
    pub id: String,
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
}

/// How a journey stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a seat on each of its legs, for good.
    Booked,
    /// It waits for a seat on this leg, and holds one on each before it.
    Waits(usize),
}

/// What is left of a leg, and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Seats of the train.
    pub seats: u64,
    /// Seats that can be sold.
    pub free: u64,
    /// Seats that are held for journeys that are not complete.
    pub held: u64,
    /// Seats that are sold.
    pub sold: u64,
    /// Journeys that wait for a seat.
    pub waiting: u64,
}

/// The answer of one sale: status, units, remaining, deadline, reference.
type Five = (String, u64, u64, i64, String);

impl Journey {
    fn legs(&self) -> impl Iterator<Item = usize> {
        self.from..self.to
    }
}

impl Train {
    /// All legs.
    pub fn legs(&self) -> impl Iterator<Item = usize> {
        1..self.stops
    }

    /// The sale of a leg: the one that begins at the stop with this number, the first of which is 1.
    #[must_use]
    pub fn leg(&self, leg: usize) -> String {
        format!("{{{}}}:leg-{leg}", self.name)
    }

    /// The stream of a leg.
    #[must_use]
    pub fn events(&self, leg: usize) -> String {
        format!("{}:events", self.leg(leg))
    }

    /// Puts all seats on sale. A passenger that has cancelled may book again.
    ///
    /// # Errors
    ///
    /// When the server fails, or the train is on sale already.
    pub fn open(&self, redis: &mut impl ConnectionLike, seats: u64) -> RedisResult<()> {
        self.legs().try_for_each(|leg| {
            let mut create = cmd("STOCK.CREATE");
            create.arg(self.leg(leg)).arg(seats).arg("REBUY").arg("STREAM").arg(self.events(leg)).exec(redis)
        })
    }

    /// Takes the train off sale, with its bookings and its events.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn withdraw(&self, redis: &mut impl ConnectionLike) -> RedisResult<()> {
        self.legs().try_for_each(|leg| cmd("DEL").arg(self.leg(leg)).arg(self.events(leg)).exec(redis))
    }

    /// Books a journey, or has it wait where the train is full. Called again it goes on from where it was, so it may be repeated at any
    /// time, by any process: when a reply was lost, and when a journey was served.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn book(&self, redis: &mut impl ConnectionLike, journey: &Journey) -> RedisResult<Standing> {
        let mut all = cmd("STOCK.MDECR_ONCE");
        all.arg(&journey.id).arg(journey.legs().count());
        for leg in journey.legs() {
            all.arg(self.leg(leg)).arg(1);
        }
        all.arg("HOLD").arg(HOLD);
        let (mut status, _) = several(&all, redis)?;
        if !is_there(&status) {
            // Not all at once, so one after the other.
            for leg in journey.legs() {
                let mut one = cmd("STOCK.DECR_ONCE");
                one.arg(self.leg(leg)).arg(&journey.id).arg("HOLD").arg(HOLD).arg("WAITLIST");
                let (stands, ..): Five = one.query(redis)?;
                if !is_there(&stands) {
                    return Ok(Standing::Waits(leg));
                }
                status = stands;
                // It may have been here for a while.
                let mut renew = cmd("STOCK.EXTEND");
                renew.arg(self.leg(leg)).arg(&journey.id).arg("PX").arg(HOLD).exec(redis)?;
            }
        }
        debug_assert!(is_there(&status), "every leg is held");
        // All are held, so this is refused only if the clock has passed an hour meanwhile; then nothing is lost but the place.
        let (status, _) = several(&self.about("STOCK.MCONFIRM", journey), redis)?;
        if is_there(&status) { Ok(Standing::Booked) } else { self.book(redis, journey) }
    }

    /// Gives all seats of a journey back and leaves all lines. Waiting journeys get the seats in the same step.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn cancel(&self, redis: &mut impl ConnectionLike, journey: &Journey) -> RedisResult<()> {
        several(&self.about("STOCK.MCANCEL", journey), redis).map(drop)
    }

    /// What is left of a leg.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn look(&self, redis: &mut impl ConnectionLike, leg: usize) -> RedisResult<Leg> {
        let info: BTreeMap<String, Value> = cmd("STOCK.INFO").arg(self.leg(leg)).query(redis)?;
        let number =
            |name: &str| -> RedisResult<u64> { Ok(from_redis_value(info.get(name).cloned().unwrap_or(Value::Nil))?) };
        Ok(Leg {
            seats: number("total")?,
            free: number("remaining")?,
            held: number("held")?,
            sold: number("sold")?,
            waiting: number("waiting")?,
        })
    }

    /// The events of a leg, each as its kind and the journey's id.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn story(&self, redis: &mut impl ConnectionLike, leg: usize) -> RedisResult<Vec<(String, String)>> {
        let entries: Vec<(String, BTreeMap<String, String>)> =
            cmd("XRANGE").arg(self.events(leg)).arg("-").arg("+").query(redis)?;
        let field = |entry: &BTreeMap<String, String>, name: &str| entry.get(name).cloned().unwrap_or_default();
        Ok(entries.iter().map(|(_, entry)| (field(entry, "event"), field(entry, "id"))).collect())
    }

    fn about(&self, command: &str, journey: &Journey) -> Cmd {
        let mut call = cmd(command);
        call.arg(&journey.id).arg(journey.legs().count());
        call.arg(journey.legs().map(|leg| self.leg(leg)).collect::<Vec<_>>());
        call
    }
}

/// The first journey that got a seat on a leg while another one was before it in line, if there is one. `story` is all that the stream of the leg
/// tells.
#[must_use]
pub fn passed_over(story: &[(String, String)]) -> Option<String> {
    let mut line: VecDeque<&str> = VecDeque::new();
    for (event, id) in story {
        match event.as_str() {
            "wait" => line.push_back(id),
            "ok" if line.front().is_none_or(|first| first == id) => drop(line.pop_front()),
            "ok" => return Some(id.clone()),
            "cancel" => line.retain(|waits| waits != id),
            _ => {}
        }
    }
    None
}

fn is_there(status: &str) -> bool {
    matches!(status, "OK" | "DUPLICATE")
}

/// The status of a request to several sales, and the answer of each.
fn several(call: &Cmd, redis: &mut impl ConnectionLike) -> RedisResult<(String, Vec<Five>)> {
    let mut reply = Vec::<Value>::from_redis_value(call.query(redis)?)?.into_iter();
    let status = from_redis_value(reply.next().unwrap_or(Value::Nil))?;
    Ok((status, reply.map(from_redis_value).collect::<Result<_, _>>()?))
}
