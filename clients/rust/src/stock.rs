//! Sales.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, ParsingError, Value, cmd};

use crate::client::Repeat;
use crate::lock::ms;
use crate::{Client, Error};

/// One sale: what may be asked of it. Every request but [`adjust`](Self::adjust) may be repeated, and is when a connection breaks.
#[derive(Debug, Clone)]
pub struct Stock {
    client: Client,
    sale: Vec<u8>,
}

/// What came of a request. No status is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was decided.
    pub status: Status,
    /// What this id holds or has bought now.
    pub units: u64,
    /// What may be sold now.
    pub remaining: u64,
    /// When a hold ends, in Unix milliseconds; for [`Status::NotStarted`] when the sale starts.
    pub deadline: Option<u64>,
    /// The reference that was stored with the order.
    pub reference: Vec<u8>,
}

/// What a sale answers.
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
    /// There is no such order.
    NoOrder,
    /// There is no such sale.
    NoStock,
    /// A word of a later version.
    Other(String),
}

/// What to order; see [`Stock::order`].
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// How many units; 0 is 1.
    pub units: u64,
    /// Whose limit counts; the id itself if there is none.
    pub buyer: Option<Vec<u8>>,
    /// Reserved for that long; sold at once if there is none.
    pub hold: Option<Duration>,
    /// Stored with the order.
    pub reference: Option<Vec<u8>>,
    /// Stand in line if too little is left.
    pub waitlist: bool,
}

impl Outcome {
    /// Whether it is as asked, by this request or an earlier one.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Duplicate)
    }
}

impl Stock {
    pub(crate) fn new(client: Client, sale: Vec<u8>) -> Self {
        Self { client, sale }
    }

    /// Creates the sale with `total` units, of which a buyer may have `limit`. `false` if the key is there already.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn create(&self, total: u64, limit: Option<u64>) -> Result<bool, Error> {
        let mut words = self.words("CREATE");
        words.arg(total);
        if let Some(limit) = limit {
            words.arg("LIMIT").arg(limit);
        }
        match self.ask::<Value>(&words, Repeat::Yes).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(error)) if error.code() == Some("BUSYKEY") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes units for `id`, once.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn order(&self, id: impl AsRef<[u8]>, order: &Order) -> Result<Outcome, Error> {
        let mut words = self.words("DECR_ONCE");
        words.arg(id.as_ref()).arg("QTY").arg(order.units.max(1));
        if let Some(buyer) = &order.buyer {
            words.arg("BUYER").arg(buyer);
        }
        if let Some(hold) = order.hold {
            words.arg("HOLD").arg(ms(hold));
        }
        if let Some(reference) = &order.reference {
            words.arg("REF").arg(reference);
        }
        if order.waitlist {
            words.arg("WAITLIST");
        }
        self.ask(&words, Repeat::Yes).await
    }

    /// The payment is there: what was held is sold, once. With `keep`, that many units of it; the others go back.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn confirm(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        self.ask(&kept(self.words("CONFIRM"), id.as_ref(), keep), Repeat::Yes).await
    }

    /// Gives the units back, once. With `keep`, all but that many.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn cancel(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        self.ask(&kept(self.words("CANCEL"), id.as_ref(), keep), Repeat::Yes).await
    }

    /// Moves the deadline of a hold to `hold` from now.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn extend(&self, id: impl AsRef<[u8]>, hold: Duration) -> Result<Outcome, Error> {
        let mut words = self.words("EXTEND");
        words.arg(id.as_ref()).arg("PX").arg(ms(hold));
        self.ask(&words, Repeat::Yes).await
    }

    /// Adds units, or withdraws unsold ones; what remains then. With an `id` the sale remembers it, and it may be repeated.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn adjust(&self, delta: i64, id: Option<&[u8]>) -> Result<u64, Error> {
        let mut words = self.words("ADJUST");
        words.arg(delta);
        if let Some(id) = id {
            words.arg("ID").arg(id);
        }
        self.ask(&words, if id.is_some() { Repeat::Yes } else { Repeat::No }).await
    }

    /// The fields of `STOCK.INFO`; `None` if there is no such sale.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn info(&self) -> Result<Option<HashMap<String, Value>>, Error> {
        self.ask(&self.words("INFO"), Repeat::Yes).await
    }

    /// The fields of `STOCK.ORDER`; `None` if there is no such order.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn look(&self, id: impl AsRef<[u8]>) -> Result<Option<HashMap<String, Value>>, Error> {
        let mut words = self.words("ORDER");
        words.arg(id.as_ref());
        self.ask(&words, Repeat::Yes).await
    }

    fn words(&self, verb: &str) -> Cmd {
        let mut words = cmd(&format!("STOCK.{verb}"));
        words.arg(&self.sale);
        words
    }

    async fn ask<T: FromRedisValue>(&self, words: &Cmd, repeat: Repeat) -> Result<T, Error> {
        self.client.request(&self.sale, words.clone(), repeat).await
    }
}

fn kept(mut words: Cmd, id: &[u8], keep: Option<u64>) -> Cmd {
    words.arg(id);
    if let Some(units) = keep {
        words.arg("KEEP").arg(units);
    }
    words
}

impl FromRedisValue for Outcome {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (status, units, remaining, deadline, reference): (String, u64, u64, i64, Vec<u8>) =
            redis::from_redis_value(value)?;
        Ok(Self { status: status.into(), units, remaining, deadline: deadline.try_into().ok(), reference })
    }
}

const WORDS: [(&str, Status); 12] = [
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
    ("NOORDER", Status::NoOrder),
    ("NOSTOCK", Status::NoStock),
];

impl From<String> for Status {
    fn from(word: String) -> Self {
        let known = WORDS.into_iter().find(|(name, _)| *name == word);
        known.map_or(Self::Other(word), |(_, status)| status)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Other(word) = self {
            return f.write_str(word);
        }
        f.write_str(WORDS.iter().find(|(_, status)| status == self).map_or("", |(name, _)| name))
    }
}
