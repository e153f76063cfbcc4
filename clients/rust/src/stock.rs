//! Sales.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, cmd};

use crate::answers::{Buyer, Cart, Outcome, Page, Placed, Sale, State};
use crate::client::Repeat;
use crate::lock::{MOST, check_name, ms};
use crate::{Client, Error};

/// One sale, and the requests to it. Every request but a [`create`](Self::create), and an [`adjust`](Self::adjust) without an id, may be
/// repeated, and is when a connection breaks.
#[derive(Debug, Clone)]
pub struct Stock {
    client: Client,
    sale: Vec<u8>,
}

/// The conditions of a new sale, beside its total; see [`Stock::create`].
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// How many units one buyer may have.
    pub limit: Option<u64>,
    /// When the sale starts, in Unix milliseconds.
    pub start: Option<u64>,
    /// When it ends, in Unix milliseconds.
    pub end: Option<u64>,
    /// An id whose order lapsed or was cancelled may buy again.
    pub rebuy: bool,
    /// Each change of an order is appended to this stream.
    pub stream: Option<Vec<u8>>,
    /// And with the deadlines, all that is needed to rebuild the orders.
    pub deadlines: bool,
}

/// What [`Stock::alter`] changes. A field that is `None` stays; a limit or a time of 0 is removed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// How many units one buyer may have.
    pub limit: Option<u64>,
    /// When the sale starts, in Unix milliseconds.
    pub start: Option<u64>,
    /// When it ends, in Unix milliseconds.
    pub end: Option<u64>,
    /// Whether an id whose order lapsed or was cancelled may buy again.
    pub rebuy: Option<bool>,
}

/// A request for an order; see [`Stock::order`].
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// How many units; one if there is none.
    pub units: Option<u64>,
    /// Whose limit counts; the id itself if there is none.
    pub buyer: Option<Vec<u8>>,
    /// Reserved for that long; sold at once if there is none.
    pub hold: Option<Duration>,
    /// Stored with the order.
    pub reference: Option<Vec<u8>>,
    /// Stand in line if too little is left.
    pub waitlist: bool,
}

impl Stock {
    pub(crate) fn new(client: Client, sale: Vec<u8>) -> Self {
        Self { client, sale }
    }

    /// Creates the sale with `total` units. It is sent once: after a lost answer, a second request would be told that the sale exists.
    ///
    /// # Errors
    /// [`Error::SaleExists`] if the key is in use; no answer, or the server refused.
    pub async fn create(&self, total: u64, terms: &Terms) -> Result<(), Error> {
        if terms.deadlines && terms.stream.is_none() {
            return Err(Error::Invalid("deadlines are told in a stream: name it"));
        }
        let words = self.words("CREATE").whole(total, 0);
        let mut words =
            words.option("LIMIT", terms.limit, 1).option("START", terms.start, 1).option("END", terms.end, 1);
        words = words.flag("REBUY", terms.rebuy);
        if let Some(stream) = &terms.stream {
            words = words.word("STREAM").key(stream).flag("DEADLINES", terms.deadlines);
        }
        match words.ask(Repeat::No).await {
            Err(Error::Refused(error)) if error.code() == Some("BUSYKEY") => Err(Error::SaleExists),
            answer => answer,
        }
    }

    /// Changes the terms of the sale.
    ///
    /// # Errors
    /// [`Error::NoSale`]; no answer, or the server refused.
    pub async fn alter(&self, change: &Change) -> Result<(), Error> {
        let words = self.words("ALTER").option("LIMIT", change.limit, 0).option("START", change.start, 0);
        let mut words = words.option("END", change.end, 0);
        let changes =
            change.limit.is_some() || change.start.is_some() || change.end.is_some() || change.rebuy.is_some();
        words = words.right(changes, "a change changes something");
        if let Some(rebuy) = change.rebuy {
            words = words.word("REBUY").word(if rebuy { "yes" } else { "no" });
        }
        words.ask(Repeat::Yes).await
    }

    /// Takes units for `id`, once.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn order(&self, id: impl AsRef<[u8]>, order: &Order) -> Result<Outcome, Error> {
        let words = self.words("DECR_ONCE").name(id.as_ref()).option("QTY", order.units, 1);
        words.order(order).flag("WAITLIST", order.waitlist).ask(Repeat::Yes).await
    }

    /// The payment is there: the held units are sold, once. With `keep`, that many units of it; the others go back.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn confirm(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        self.words("CONFIRM").name(id.as_ref()).option("KEEP", keep, 1).ask(Repeat::Yes).await
    }

    /// Gives the units back, once. With `keep`, all but that many.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn cancel(&self, id: impl AsRef<[u8]>, keep: Option<u64>) -> Result<Outcome, Error> {
        self.words("CANCEL").name(id.as_ref()).option("KEEP", keep, 1).ask(Repeat::Yes).await
    }

    /// Moves the deadline of a hold to `hold` from now.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn extend(&self, id: impl AsRef<[u8]>, hold: Duration) -> Result<Outcome, Error> {
        self.words("EXTEND").name(id.as_ref()).word("PX").span(hold).ask(Repeat::Yes).await
    }

    /// Adds units, or withdraws unsold ones; returns the units that remain. With an `id` the sale remembers it, and it may be repeated.
    ///
    /// # Errors
    /// [`Error::NoSale`]; no answer, or the server refused.
    pub async fn adjust(&self, delta: i64, id: Option<&[u8]>) -> Result<u64, Error> {
        let words = self.words("ADJUST").word(delta);
        match id {
            Some(id) => words.word("ID").name(id).ask(Repeat::Yes).await,
            None => words.ask(Repeat::No).await,
        }
    }

    /// The sums and conditions of the sale; `None` if there is none.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn info(&self) -> Result<Option<Sale>, Error> {
        self.words("INFO").ask(Repeat::Yes).await
    }

    /// The state of an order; `None` if there is none.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn look(&self, id: impl AsRef<[u8]>) -> Result<Option<Placed>, Error> {
        let found: Option<Placed> = self.words("ORDER").name(id.as_ref()).ask(Repeat::Yes).await?;
        Ok(found.map(|order| Placed { id: id.as_ref().to_vec(), ..order }))
    }

    /// The units of a buyer; `None` if there is no such sale.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn buyer(&self, buyer: impl AsRef<[u8]>) -> Result<Option<Buyer>, Error> {
        self.words("BUYER").name(buyer.as_ref()).ask(Repeat::Yes).await
    }

    /// All orders, or those in one state, page by page: an order that changes during this may come twice.
    pub fn orders(&self, state: Option<State>) -> Orders {
        Orders { stock: self.clone(), state, cursor: Some("0".into()), page: Vec::new().into_iter() }
    }

    fn words(&self, verb: &str) -> Words {
        let words = Words {
            client: self.client.clone(),
            first: self.sale.clone(),
            command: cmd(&format!("STOCK.{verb}")),
            wrong: None,
        };
        words.key(&self.sale)
    }
}

/// The orders of a sale, which [`Stock::orders`] gives.
#[derive(Debug)]
#[must_use = "nothing is asked for before `next`"]
pub struct Orders {
    stock: Stock,
    state: Option<State>,
    cursor: Option<String>,
    page: std::vec::IntoIter<Placed>,
}

impl Orders {
    /// The next order; `None` at the end, and after an error.
    pub async fn next(&mut self) -> Option<Result<Placed, Error>> {
        loop {
            if let Some(order) = self.page.next() {
                return Some(Ok(order));
            }
            // The cursor stays until the answer is there: this future may be dropped before.
            let cursor = self.cursor.clone()?;
            let mut words = self.stock.words("ORDERS").word(cursor).word("COUNT").word(500);
            if let Some(state) = self.state {
                words = words.word("STATE").word(state.word());
            }
            match words.ask::<Page>(Repeat::Yes).await {
                Ok(Page { next, orders }) => {
                    self.cursor = Some(next).filter(|next| next != "0");
                    self.page = orders.into_iter();
                }
                Err(error) => {
                    self.cursor = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Client {
    /// One order over several sales, of one slot in a cluster: so many units of each, or nothing. The legs say how many, not
    /// `order.units`, and there is no waitlist.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn order_all<S: AsRef<[u8]>>(
        &self,
        id: impl AsRef<[u8]>,
        legs: &[(S, u64)],
        order: &Order,
    ) -> Result<Cart, Error> {
        let mut words = self.cart("MDECR_ONCE", id.as_ref(), legs.iter().map(|(sale, _)| sale.as_ref()));
        for (sale, units) in legs {
            words = words.key(sale.as_ref()).whole(*units, 1);
        }
        if order.units.is_some() || order.waitlist {
            words.wrong = Some("the legs of a cart say how many units, and it has no waitlist");
        }
        words.order(order).ask(Repeat::Yes).await
    }

    /// Confirms an order in all of these sales, or in none.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn confirm_all<S: AsRef<[u8]>>(&self, id: impl AsRef<[u8]>, sales: &[S]) -> Result<Cart, Error> {
        self.legs("MCONFIRM", id.as_ref(), sales).ask(Repeat::Yes).await
    }

    /// Cancels an order in each of these sales.
    ///
    /// # Errors
    /// No answer, or the server refused.
    pub async fn cancel_all<S: AsRef<[u8]>>(&self, id: impl AsRef<[u8]>, sales: &[S]) -> Result<Cart, Error> {
        self.legs("MCANCEL", id.as_ref(), sales).ask(Repeat::Yes).await
    }

    fn legs<S: AsRef<[u8]>>(&self, verb: &str, id: &[u8], sales: &[S]) -> Words {
        let words = self.cart(verb, id, sales.iter().map(AsRef::as_ref));
        sales.iter().fold(words, |words, sale| words.key(sale.as_ref()))
    }

    fn cart<'a>(&self, verb: &str, id: &[u8], sales: impl ExactSizeIterator<Item = &'a [u8]>) -> Words {
        let count = sales.len();
        let first = sales.into_iter().next().unwrap_or_default().to_vec();
        let wrong = first.is_empty().then_some("a cart needs sales");
        Words { client: self.clone(), first, command: cmd(&format!("STOCK.{verb}")), wrong }.name(id).word(count)
    }
}

/// A request: its words, and the error if they are invalid.
struct Words {
    client: Client,
    first: Vec<u8>,
    command: Cmd,
    wrong: Option<&'static str>,
}

impl Words {
    fn word(mut self, word: impl redis::ToRedisArgs) -> Self {
        self.command.arg(word);
        self
    }

    fn right(mut self, is: bool, wrong: &'static str) -> Self {
        self.wrong = self.wrong.or((!is).then_some(wrong));
        self
    }

    fn key(self, key: &[u8]) -> Self {
        self.right(!key.is_empty(), "a sale and a stream need a key").word(key)
    }

    fn name(self, name: &[u8]) -> Self {
        self.right(check_name(name), "an id or a buyer has 1 to 512 bytes").word(name)
    }

    fn whole(self, number: u64, least: u64) -> Self {
        self.right((least..=MOST).contains(&number), "a number of units, a limit or a time is out of range")
            .word(number)
    }

    fn option(self, name: &str, number: Option<u64>, least: u64) -> Self {
        match number {
            Some(number) => self.word(name).whole(number, least),
            None => self,
        }
    }

    fn flag(self, name: &str, is: bool) -> Self {
        if is { self.word(name) } else { self }
    }

    fn span(self, span: Duration) -> Self {
        self.right(span.as_millis() > 0, "a hold is at least a millisecond").word(ms(span))
    }

    fn order(mut self, order: &Order) -> Self {
        if let Some(buyer) = &order.buyer {
            self = self.word("BUYER").name(buyer);
        }
        if let Some(hold) = order.hold {
            self = self.word("HOLD").span(hold);
        }
        match &order.reference {
            Some(reference) => self.word("REF").word(reference),
            None => self,
        }
    }

    async fn ask<T: FromRedisValue>(self, repeat: Repeat) -> Result<T, Error> {
        match self.wrong {
            Some(wrong) => Err(Error::Invalid(wrong)),
            None => self.client.request(&self.first, self.command, repeat).await,
        }
    }
}
