//! What sales answer.

use std::collections::HashMap;
use std::fmt;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

/// The outcome of a request. No status is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was decided.
    pub status: Status,
    /// The units that this id holds or has bought now.
    pub units: u64,
    /// The units that may be sold now.
    pub remaining: u64,
    /// When a hold ends, in Unix milliseconds; for [`Status::NotStarted`] when the sale starts.
    pub deadline: Option<u64>,
    /// The reference that was stored with the order.
    pub reference: Vec<u8>,
}

/// The status in a sale's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Done by this request.
    Ok,
    /// Already so, by an earlier request of this id.
    Duplicate,
    /// Nothing is left.
    SoldOut,
    /// Fewer are left than asked for.
    Insufficient,
    /// The buyer would pass the sale's limit.
    Limit,
    /// The sale has not started.
    NotStarted,
    /// The sale has ended.
    Ended,
    /// The hold has lapsed.
    Expired,
    /// The order was cancelled.
    Cancelled,
    /// The order stands on the waitlist.
    Queued,
    /// It could have been taken, but another sale of the cart refused.
    Skipped,
    /// There is no such order.
    NoOrder,
    /// There is no such sale.
    NoStock,
    /// A word of a later version.
    Other(String),
}

/// The outcome of one order over several sales.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cart {
    /// Of all of them.
    pub status: Status,
    /// Of each, in the order in which they were named.
    pub legs: Vec<Outcome>,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The order's id.
    pub id: Vec<u8>,
    /// The order's state.
    pub state: State,
    /// The units that it holds or has bought.
    pub units: u64,
    /// Whose limit counts.
    pub buyer: Vec<u8>,
    /// The reference that was stored with it.
    pub reference: Vec<u8>,
    /// When its hold ends, in Unix milliseconds.
    pub deadline: Option<u64>,
    /// Its place on the waitlist, 1 being the next; only [`look`](crate::Stock::look) tells it.
    pub place: Option<u64>,
}

/// The state of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Reserved until its deadline.
    Held,
    /// Bought.
    Sold,
    /// Given back.
    Cancelled,
    /// Its hold has lapsed.
    Expired,
    /// On the waitlist.
    Waiting,
}

/// The sums and conditions of a sale. The total is the sum of the units that remain, are held and are sold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sale {
    /// All units.
    pub total: u64,
    /// The units that may be sold now.
    pub remaining: u64,
    /// What is reserved.
    pub held: u64,
    /// What is sold.
    pub sold: u64,
    /// How many orders the sale knows.
    pub orders: u64,
    /// How many buyers it knows.
    pub buyers: u64,
    /// How many orders stand on the waitlist.
    pub waiting: u64,
    /// How many units one buyer may have.
    pub limit: Option<u64>,
    /// When it starts, in Unix milliseconds.
    pub start: Option<u64>,
    /// When it ends, in Unix milliseconds.
    pub end: Option<u64>,
    /// Whether an id whose order lapsed or was cancelled may buy again.
    pub rebuy: bool,
    /// Where its changes are appended.
    pub stream: Option<Vec<u8>>,
    /// Whether they have their deadlines there.
    pub deadlines: bool,
    /// How many changes there were.
    pub changes: u64,
    /// How often this server has given each answer since it loaded the sale.
    pub counters: HashMap<String, u64>,
}

/// The units of a buyer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buyer {
    /// The units that the buyer has, and waits for.
    pub units: u64,
    /// The sale's limit.
    pub limit: Option<u64>,
}

/// Some orders, and where the next ones are.
pub struct Page {
    pub next: String,
    pub orders: Vec<Placed>,
}

impl Outcome {
    /// Whether it is as asked, by this request or an earlier one.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Duplicate)
    }
}

impl Cart {
    /// Whether it is as asked in all sales, by this request or an earlier one.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Duplicate)
    }
}

impl FromRedisValue for Outcome {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (status, units, remaining, deadline, reference): (String, u64, u64, i64, Vec<u8>) =
            from_redis_value(value)?;
        Ok(Self { status: status.into(), units, remaining, deadline: time(deadline), reference })
    }
}

impl FromRedisValue for Cart {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut row = Vec::<Value>::from_redis_value(value)?.into_iter();
        let status: String = from_redis_value(row.next().unwrap_or(Value::Nil))?;
        Ok(Self { status: status.into(), legs: row.map(from_redis_value).collect::<Result<_, _>>()? })
    }
}

impl FromRedisValue for Placed {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut fields = Fields::from_redis_value(value)?;
        Ok(Self {
            id: Vec::new(),
            state: fields.take("state")?,
            units: fields.take("units")?,
            buyer: fields.take("buyer")?,
            reference: fields.take("ref")?,
            deadline: time(fields.take("deadline")?),
            place: fields.take("place")?,
        })
    }
}

type Row = (Vec<u8>, State, u64, Vec<u8>, Vec<u8>, i64);

impl FromRedisValue for Page {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (next, rows): (String, Vec<Row>) = from_redis_value(value)?;
        let placed = |(id, state, units, buyer, reference, deadline)| Placed {
            id,
            state,
            units,
            buyer,
            reference,
            deadline: time(deadline),
            place: None,
        };
        Ok(Self { next, orders: rows.into_iter().map(placed).collect() })
    }
}

const COUNTERS: [&str; 7] = ["ok", "duplicate", "soldout", "limited", "expired", "cancelled", "confirmed"];

impl FromRedisValue for Sale {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut fields = Fields::from_redis_value(value)?;
        let counted = |name: &str| Ok((name.to_owned(), fields.take(name)?));
        let counters = COUNTERS.into_iter().map(counted).collect::<Result<_, ParsingError>>()?;
        let rebuy: String = fields.take("rebuy")?;
        let stream: Vec<u8> = fields.take("stream")?;
        let deadlines: Option<String> = fields.take("deadlines")?;
        Ok(Self {
            total: fields.take("total")?,
            remaining: fields.take("remaining")?,
            held: fields.take("held")?,
            sold: fields.take("sold")?,
            orders: fields.take("orders")?,
            buyers: fields.take("buyers")?,
            waiting: fields.take("waiting")?,
            limit: some(fields.take("limit")?),
            start: time(fields.take("start")?),
            end: time(fields.take("end")?),
            rebuy: rebuy == "yes",
            stream: Some(stream).filter(|stream| !stream.is_empty()),
            deadlines: deadlines.is_some_and(|word| word == "yes"),
            changes: fields.take("seq")?,
            counters,
        })
    }
}

impl FromRedisValue for Buyer {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (units, limit) = from_redis_value(value)?;
        Ok(Self { units, limit: some(limit) })
    }
}

/// The fields of an answer by their names.
struct Fields(HashMap<String, Value>);

impl Fields {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        from_redis_value(value).map(Self)
    }

    fn take<T: FromRedisValue>(&mut self, name: &str) -> Result<T, ParsingError> {
        from_redis_value(self.0.remove(name).unwrap_or(Value::Nil))
    }
}

/// Times before 1970, and 1970 itself, are none.
fn time(at: i64) -> Option<u64> {
    some(at.try_into().unwrap_or_default())
}

fn some(number: u64) -> Option<u64> {
    Some(number).filter(|number| *number > 0)
}

const STATES: [(&str, State); 5] = [
    ("held", State::Held),
    ("sold", State::Sold),
    ("cancelled", State::Cancelled),
    ("expired", State::Expired),
    ("waiting", State::Waiting),
];

impl State {
    /// The server's word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        STATES.iter().find(|(_, state)| *state == self).map_or("", |(word, _)| word)
    }
}

impl FromRedisValue for State {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let word: String = from_redis_value(value)?;
        let known = STATES.into_iter().find(|(name, _)| *name == word).map(|(_, state)| state);
        known.ok_or_else(|| format!("an order is in the unknown state '{word}'").into())
    }
}

const STATUSES: [(&str, Status); 13] = [
    ("OK", Status::Ok),
    ("DUPLICATE", Status::Duplicate),
    ("SOLDOUT", Status::SoldOut),
    ("INSUFFICIENT", Status::Insufficient),
    ("LIMIT", Status::Limit),
    ("NOTSTARTED", Status::NotStarted),
    ("ENDED", Status::Ended),
    ("EXPIRED", Status::Expired),
    ("CANCELLED", Status::Cancelled),
    ("QUEUED", Status::Queued),
    ("SKIPPED", Status::Skipped),
    ("NOORDER", Status::NoOrder),
    ("NOSTOCK", Status::NoStock),
];

impl From<String> for Status {
    fn from(word: String) -> Self {
        let known = STATUSES.into_iter().find(|(name, _)| *name == word);
        known.map_or(Self::Other(word), |(_, status)| status)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Other(word) = self {
            return f.write_str(word);
        }
        f.write_str(STATUSES.iter().find(|(_, status)| status == self).map_or("", |(name, _)| name))
    }
}
