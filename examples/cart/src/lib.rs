//! A cart of several articles: reserved together, paid once, or given back.
//!
//! ```text
//! cargo run -p lockstock-cart -- redis://127.0.0.1:6379
//! ```
//!
//! Each article is a sale, and a cart is one order over several of them. Three requests are all there is to it:
//!
//! - `STOCK.MDECR_ONCE` reserves all of the cart or nothing. If something is missing, its answers say what and how many are left, so
//!   that the shop can offer a smaller cart.
//! - `STOCK.MCONFIRM` makes the reservation a sale when the payment has come. Late payments are honoured while the units are there.
//! - `STOCK.MCANCEL` gives everything back.
//!
//! Each may be sent again when its reply was lost, with the same id: what was done is not done twice. That is all the client needs to
//! know of failures, and [`Shop::ask`] is the only place where they are met.

use std::thread;
use std::time::Duration;

use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult, RetryMethod, cmd};

/// How often a request is sent before the shop gives up, and how long it waits in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A shop and its connection to the server.
pub struct Shop {
    client: Client,
    connection: Option<Connection>,
    name: String,
}

/// How much of an article a buyer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The article.
    pub article: String,
    /// How many.
    pub units: u64,
}

/// What comes of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// All of the cart is the buyer's until this Unix time in milliseconds.
    Held {
        /// When the reservation ends.
        until: i64,
    },
    /// All of it was paid for before.
    Paid,
    /// Nothing is reserved, because these articles are missing.
    Missing(Vec<Missing>),
}

/// An article that a cart does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The article.
    pub article: String,
    /// Why, in the server's word.
    pub why: String,
    /// How many could be had instead.
    pub left: u64,
}

/// What comes of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// All of the cart is sold to the buyer.
    Accepted,
    /// It came too late, or for a cart that was given back: return the money. Nothing of the cart is held any more.
    Refused,
}

/// The answer of one sale: status, units, remaining, deadline, reference.
type Five = (String, u64, u64, i64, String);

impl Shop {
    /// The shop of this name. All of its keys lie in one slot of a cluster.
    ///
    /// # Errors
    ///
    /// When the URL is none.
    pub fn at(url: &str, name: &str) -> RedisResult<Self> {
        Ok(Self { client: Client::open(url)?, connection: None, name: name.to_owned() })
    }

    /// The sale of an article.
    #[must_use]
    pub fn key(&self, article: &str) -> String {
        format!("{{{}}}:{article}", self.name)
    }

    /// Puts an article on sale, each buyer at most `limit` of it; 0: any number.
    ///
    /// # Errors
    ///
    /// When the server fails, or the article is on sale already.
    pub fn offer(&mut self, article: &str, units: u64, limit: u64) -> RedisResult<()> {
        let mut call = cmd("STOCK.CREATE");
        call.arg(self.key(article)).arg(units).arg("STREAM").arg(format!("{}:events", self.key(article)));
        if limit > 0 {
            call.arg("LIMIT").arg(limit);
        }
        self.ask(&call)
    }

    /// Takes an article off sale, with its orders and its events.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn withdraw(&mut self, article: &str) -> RedisResult<()> {
        let key = self.key(article);
        self.ask(cmd("DEL").arg(&key).arg(format!("{key}:events")))
    }

    /// Brings more units of an article, once for each `delivery`.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn restock(&mut self, article: &str, units: u64, delivery: &str) -> RedisResult<u64> {
        let mut call = cmd("STOCK.ADJUST");
        call.arg(self.key(article)).arg(units).arg("ID").arg(delivery);
        self.ask(&call)
    }

    /// Reserves all items for the order `id`, or nothing.
    ///
    /// # Errors
    ///
    /// When the server fails, or the id is another buyer's.
    pub fn reserve(&mut self, id: &str, buyer: &str, items: &[Item], hold: Duration) -> RedisResult<Reservation> {
        let mut call = cmd("STOCK.MDECR_ONCE");
        call.arg(id).arg(items.len());
        for item in items {
            call.arg(self.key(&item.article)).arg(item.units);
        }
        call.arg("BUYER").arg(buyer).arg("HOLD").arg(hold.as_millis().max(1).to_string());
        let (status, fives) = self.several(&call)?;
        if matches!(status.as_str(), "OK" | "DUPLICATE") {
            // An article may be this order's since an earlier time: the first reservation to end ends the cart's.
            let until = fives.iter().map(|five| five.3).filter(|until| *until >= 0).min();
            return Ok(until.map_or(Reservation::Paid, |until| Reservation::Held { until }));
        }
        let refused = items.iter().zip(fives).filter(|(_, five)| !matches!(five.0.as_str(), "SKIPPED" | "DUPLICATE"));
        let missing = refused.map(|(item, (why, _, left, ..))| Missing { article: item.article.clone(), why, left });
        Ok(Reservation::Missing(missing.collect()))
    }

    /// The payment for the order `id` has come.
    ///
    /// # Errors
    ///
    /// When the server fails. The payment is neither accepted nor refused then; ask again.
    pub fn pay(&mut self, id: &str, items: &[Item]) -> RedisResult<Payment> {
        let call = self.about("STOCK.MCONFIRM", id, items);
        let (status, _) = self.several(&call)?;
        if matches!(status.as_str(), "OK" | "DUPLICATE") {
            return Ok(Payment::Accepted);
        }
        // Where it was refused that is final. The units that the other sales still hold are of no use.
        self.abandon(id, items)?;
        Ok(Payment::Refused)
    }

    /// Gives back whatever the order `id` has.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn abandon(&mut self, id: &str, items: &[Item]) -> RedisResult<()> {
        let call = self.about("STOCK.MCANCEL", id, items);
        self.several(&call).map(drop)
    }

    fn about(&self, command: &str, id: &str, items: &[Item]) -> Cmd {
        let mut call = cmd(command);
        call.arg(id).arg(items.len()).arg(items.iter().map(|item| self.key(&item.article)).collect::<Vec<_>>());
        call
    }

    /// The status of the whole, and the answer of each sale.
    fn several(&mut self, call: &Cmd) -> RedisResult<(String, Vec<Five>)> {
        let reply: Vec<redis::Value> = self.ask(call)?;
        let mut reply = reply.into_iter();
        let status = redis::from_redis_value(reply.next().unwrap_or(redis::Value::Nil))?;
        let fives = reply.map(redis::from_redis_value).collect::<Result<_, _>>()?;
        Ok((status, fives))
    }

    /// Sends a request, over and over while it is unknown what became of it: all requests here may be repeated.
    fn ask<T: FromRedisValue>(&mut self, call: &Cmd) -> RedisResult<T> {
        for _ in 1..TRIES {
            match self.once(call) {
                // A lost connection, or a server that is not there yet.
                Err(error) if !matches!(error.retry_method(), RetryMethod::NoRetry) => {
                    self.connection = None;
                    thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
        self.once(call)
    }

    fn once<T: FromRedisValue>(&mut self, call: &Cmd) -> RedisResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.client.get_connection_with_timeout(Duration::from_secs(2))?,
        };
        let done = call.query(&mut connection);
        self.connection = Some(connection);
        done
    }
}
