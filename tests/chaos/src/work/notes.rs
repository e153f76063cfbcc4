//! What clients note, and where it is kept.

use serde::{Deserialize, Serialize};

use super::Guard;
use crate::history::{CartOp, Fault, LockOp, Measure, RestockOp, SaleOp, Time};

/// Something that a client notes.
#[derive(Serialize, Deserialize)]
pub enum Note {
    /// It is about to make this request, which it notes again when it knows its outcome. Clients that may be killed make
    /// only requests about locks and carts.
    Asks(LockOp),
    /// The same of a request about a cart.
    AsksCart(CartOp),
    /// The outcome of a request about locks.
    Locks(LockOp),
    /// The outcome of a request about an order.
    Order(SaleOp),
    /// The outcome of a restock.
    Restock(RestockOp),
    /// The outcome of a request about a cart.
    Cart(CartOp),
    /// It did something to itself.
    Did(Fault),
    /// It measured something that has a bound.
    Measured(Measure),
    /// It heard that the server is there.
    Beat(Time),
    /// It heard that it holds a lock no more, and that its write was not done.
    Stopped,
    /// It writes into the register that a lock guards.
    Write { key: String, token: String, fence: i64 },
}

/// The receiver of a client's notes.
pub trait Record {
    /// Returns when the note is kept, and a write is done.
    fn note(&mut self, note: Note);
}

/// The notes of one client after the other.
pub struct Notes<'a> {
    guard: &'a Guard,
    /// The request that nothing has been heard of yet.
    asked: Option<LockOp>,
    asked_cart: Option<CartOp>,
    pub locks: Vec<LockOp>,
    pub orders: Vec<SaleOp>,
    pub restocks: Vec<RestockOp>,
    pub carts: Vec<CartOp>,
    pub mischief: Vec<Fault>,
    pub measures: Vec<Measure>,
    pub beats: Vec<Time>,
    pub stopped: usize,
}

impl<'a> Notes<'a> {
    /// Empty, of clients whose registers are there.
    pub fn new(guard: &'a Guard) -> Self {
        Self {
            guard,
            asked: None,
            asked_cart: None,
            locks: vec![],
            orders: vec![],
            restocks: vec![],
            carts: vec![],
            mischief: vec![],
            measures: vec![],
            beats: vec![],
            stopped: 0,
        }
    }

    /// The client is no more, and nobody will learn the outcome of its last request.
    pub fn end(&mut self, at: Time) {
        self.locks.extend(self.asked.take().map(|op| LockOp { returned: at, ..op }));
        self.carts.extend(self.asked_cart.take().map(|op| CartOp { returned: at, ..op }));
    }
}

impl Record for Notes<'_> {
    fn note(&mut self, note: Note) {
        match note {
            Note::Asks(op) => self.asked = Some(op),
            Note::AsksCart(op) => self.asked_cart = Some(op),
            Note::Locks(op) => {
                self.asked = None;
                self.locks.push(op);
            }
            Note::Order(op) => self.orders.push(op),
            Note::Restock(op) => self.restocks.push(op),
            Note::Cart(op) => {
                self.asked_cart = None;
                self.carts.push(op);
            }
            Note::Did(fault) => self.mischief.push(fault),
            Note::Beat(at) => self.beats.push(at),
            Note::Stopped => self.stopped += 1,
            Note::Measured(measure) => self.measures.push(measure),
            Note::Write { key, token, fence } => self.guard.write(&key, &token, fence),
        }
    }
}
