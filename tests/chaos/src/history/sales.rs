//! Requests about sales.

use serde::{Deserialize, Serialize};

use super::{Op, Outcome, Time};

/// A request about a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaleCall {
    /// `STOCK.DECR_ONCE`.
    Take { units: i64, hold: Option<Time> },
    /// `STOCK.DECR_ONCE … WAITLIST`.
    Join { units: i64, hold: Option<Time> },
    /// `STOCK.CONFIRM`.
    Confirm,
    /// `STOCK.CANCEL`.
    Cancel,
    /// `STOCK.CONFIRM … KEEP`.
    ConfirmKeep(i64),
    /// `STOCK.CANCEL … KEEP`.
    CancelKeep(i64),
    /// `STOCK.EXTEND`.
    Extend(Time),
    /// `STOCK.ORDER`.
    See,
}

/// The outcome of a request about a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaleAnswer {
    /// The five elements, without the reference.
    Status { status: String, units: i64, remaining: i64, deadline: i64 },
    /// The order, if there is one.
    Order(Option<Seen>),
}

/// An order as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub state: String,
    pub units: i64,
    pub deadline: i64,
}

/// A request about one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutOrder {
    /// The sale.
    pub sale: String,
    /// The order.
    pub id: String,
    /// What.
    pub call: SaleCall,
    /// Whether `WAIT` said afterwards that a replica has it too.
    pub replicated: bool,
}

/// A request about a sale with its outcome.
pub type SaleOp = Op<AboutOrder, SaleAnswer>;

impl SaleOp {
    /// Whether this request changed its order.
    pub fn changed(&self) -> bool {
        matches!(self.answer(), Some(SaleAnswer::Status { status, .. }) if status == "OK")
    }
}

/// A request to add units to a sale, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutRestock {
    /// The sale.
    pub sale: String,
    /// What makes it happen once.
    pub id: String,
    /// How many.
    pub units: i64,
}

/// A restock, and what remained after it.
pub type RestockOp = Op<AboutRestock, i64>;

/// A request about the orders of one id in several sales.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CartCall {
    /// `STOCK.MDECR_ONCE`, with the units of each sale.
    Take { units: Vec<i64>, hold: Option<Time> },
    /// `STOCK.MCONFIRM`.
    Confirm,
    /// `STOCK.MCANCEL`.
    Cancel,
}

/// The answer of one of the sales, without the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Five {
    pub status: String,
    pub units: i64,
    pub remaining: i64,
    pub deadline: i64,
}

/// The outcome of a request about several sales.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartAnswer {
    /// Of the whole.
    pub status: String,
    /// Of each sale.
    pub fives: Vec<Five>,
}

/// A request about the order `id` in several sales.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutCart {
    /// The sales, in the order named.
    pub sales: Vec<String>,
    /// The order.
    pub id: String,
    /// What.
    pub call: CartCall,
}

/// A request about several sales with its outcome.
pub type CartOp = Op<AboutCart, CartAnswer>;

impl CartOp {
    /// What it was to each of its sales: a request of its own. A sale that was skipped was not asked for anything.
    pub fn apart(&self) -> Vec<SaleOp> {
        let leg = |(nth, sale): (usize, &String)| {
            let call = match &self.call.call {
                CartCall::Take { units, hold } => SaleCall::Take { units: units[nth], hold: *hold },
                CartCall::Confirm => SaleCall::Confirm,
                CartCall::Cancel => SaleCall::Cancel,
            };
            let outcome = match &self.outcome {
                Outcome::Done(answer) => {
                    let Five { status, units, remaining, deadline } = answer.fives.get(nth)?.clone();
                    if status == "SKIPPED" {
                        return None;
                    }
                    Outcome::Done(SaleAnswer::Status { status, units, remaining, deadline })
                }
                Outcome::Refused(text) => Outcome::Refused(text.clone()),
                Outcome::Unknown(nothing) => Outcome::Unknown(*nothing),
                Outcome::Unwritten => Outcome::Unwritten,
            };
            let about = AboutOrder { sale: sale.clone(), id: self.call.id.clone(), call, replicated: false };
            let Op { client, line, server, redirected, invoked, returned, .. } = *self;
            Some(Op { client, line, server, redirected, invoked, returned, call: about, outcome })
        };
        self.call.sales.iter().enumerate().filter_map(leg).collect()
    }
}
