//! The clients: what they do all day, and the record they keep of it.

mod cart;
mod child;
mod guard;
mod holder;
mod impatient;
mod journal;
mod notes;
mod notified;
mod process;
mod several;
mod shopper;
mod unread;
mod waitlist;

use std::thread;
use std::time::Duration;

use harness::Nothing;
use serde::{Deserialize, Serialize};

use crate::history::{
    AboutLocks, AboutOrder, CartOp, Fault, History, LockAnswer, LockCall, Op, Outcome, SaleAnswer, SaleCall, Time,
};
use crate::route::{Line, PATIENCE, Route};
use crate::wire;
use notes::{Note, Notes, Record};

pub use cart::{SHELVES, shelf};
pub use child::live;
pub use guard::Guard;
pub use journal::JOURNAL;
pub use process::{Doing, Processes};
pub use several::LARGE;
use shopper::EVERYBODYS;
pub use shopper::{EVENTS, LINE, SALES};

/// The locks and sales that clients compete for.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Trade {
    /// A lock that guards a register.
    Mutex,
    /// A lock that readers share.
    Readers,
    /// A lock with a few permits.
    Permits,
    /// Several locks at once.
    Many,
    /// Nothing of others: the client keeps locks of its own for long, and remembers which.
    Keep,
    /// Units of a sale.
    Sale,
    /// Units of several sales at once.
    Cart,
    /// A lock under which a value of the server is written, through `LOCK.GUARD`.
    Journal,
    /// The same without the guard.
    Careless,
    /// Nothing: it looks at the queues.
    Look,
    /// Nothing: it asks whether the server is there, which nothing follows from. Where few others ask, it is known by this one when
    /// the machine stood still.
    Pulse,
    /// A lock, over connections that leave replies unread, are cut off, unblocked or subscribed.
    Unread,
    /// Locks, with less patience than their requests wait.
    Impatient,
    /// Locks, for many tasks over one connection.
    Notified,
}

/// How many clients follow each trade.
pub type Crew = &'static [(Trade, usize)];

/// Those of most scenes.
pub const USUAL: Crew = &[
    (Trade::Mutex, 5),
    (Trade::Readers, 3),
    (Trade::Permits, 3),
    (Trade::Many, 3),
    (Trade::Keep, 2),
    (Trade::Sale, 4),
    (Trade::Journal, 3),
    (Trade::Look, 1),
];

/// One client.
struct Worker<'a> {
    line: Line<'a>,
    route: &'a Route,
    record: &'a mut dyn Record,
    random: fastrand::Rng,
    number: usize,
    /// How many things it has begun.
    count: usize,
    /// How many replicas there are for `WAIT` to count.
    replicas: usize,
    /// The tokens of the locks that it keeps.
    kept: [Option<String>; 24],
    /// How many connections it has opened beside its own line.
    peers: usize,
    /// Whether it may be killed. Its holds with a session have long leases, which are not to be waited for then.
    mortal: bool,
}

/// A thread with the notes of the clients that it let work.
type Hand<'scope, 'env> = thread::ScopedJoinHandle<'scope, Notes<'env>>;

/// Lets all clients work until the route is closed.
pub fn crew<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    route: &'env Route,
    guard: &'env Guard,
    crew: Crew,
    replicas: usize,
    random: &mut fastrand::Rng,
) -> Vec<Hand<'scope, 'env>> {
    let trades = crew.iter().flat_map(|(trade, count)| (0..*count).map(move |_| *trade));
    let workers = trades.enumerate().map(|(number, trade)| {
        let random = random.fork();
        scope.spawn(move || {
            let mut notes = Notes::new(guard);
            let mut worker = Worker::new(route, &mut notes, number, random);
            worker.replicas = replicas;
            worker.work(trade);
            notes
        })
    });
    workers.collect()
}

/// Lets so many clients that are processes of their own work until the route is closed; a killed one is replaced.
pub fn processes<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    route: &'env Route,
    guard: &'env Guard,
    processes: &'env Processes,
    (count, trade): (usize, Trade),
    random: &mut fastrand::Rng,
) -> Vec<Hand<'scope, 'env>> {
    let hands = (0..count).map(|_| {
        let mut random = random.fork();
        scope.spawn(move || {
            let mut notes = Notes::new(guard);
            while !route.stopped() {
                processes.employ(route, trade, random.u64(..), &mut notes);
            }
            notes
        })
    });
    hands.collect()
}

/// Puts the notes of all clients together.
pub fn gather(history: &mut History, hands: Vec<Hand<'_, '_>>, guard: &Guard) {
    for hand in hands {
        let notes = hand.join().expect("a client never fails");
        history.locks.extend(notes.locks);
        history.orders.extend(notes.orders);
        history.restocks.extend(notes.restocks);
        history.orders.extend(notes.carts.iter().flat_map(CartOp::apart));
        history.carts.extend(notes.carts);
        history.faults.all.extend(notes.mischief);
        history.measures.extend(notes.measures);
        history.beats.extend(notes.beats);
        history.stopped += notes.stopped;
    }
    history.locks.sort_by_key(|op| op.invoked);
    history.orders.sort_by_key(|op| op.invoked);
    history.carts.sort_by_key(|op| op.invoked);
    history.writes = guard.writes();
}

impl<'a> Worker<'a> {
    fn new(route: &'a Route, record: &'a mut dyn Record, number: usize, mut random: fastrand::Rng) -> Self {
        let line = Line::new(route, number, random.fork());
        Self {
            line,
            route,
            record,
            random,
            number,
            count: 0,
            replicas: 0,
            kept: Default::default(),
            peers: 0,
            mortal: false,
        }
    }

    /// Does what it does all day.
    fn work(mut self, trade: Trade) {
        while !self.route.stopped() {
            self.count += 1;
            match trade {
                Trade::Mutex => self.mutex(),
                Trade::Readers => self.readers(),
                Trade::Permits => self.permits(),
                Trade::Many => self.many(),
                Trade::Keep => self.keep(),
                Trade::Sale => self.shop(),
                Trade::Cart => self.cart(),
                Trade::Journal => self.journal(true),
                Trade::Careless => self.journal(false),
                Trade::Look => self.look(),
                Trade::Pulse => self.pulse(),
                Trade::Unread => self.unread(),
                Trade::Impatient => self.impatient(),
                Trade::Notified => self.notified(),
            }
            self.rest(0, 2);
        }
    }

    /// Asks whether the server is there.
    fn pulse(&mut self) {
        let words = "PING".into();
        if matches!(self.line.ask((), "", &words, PATIENCE).outcome, Outcome::Done(_)) {
            self.record.note(Note::Beat(self.route.clock.now()));
        }
        self.rest(5, 20);
    }

    /// Does nothing for so many milliseconds.
    fn rest(&mut self, least: u64, most: u64) {
        thread::sleep(Duration::from_micros(self.random.u64(least * 1_000..=most * 1_000)));
    }

    /// Whether something happens that does in `percent` of all cases.
    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// One request about locks.
    fn lock(&mut self, keys: &[String], call: LockCall) -> Outcome<LockAnswer> {
        let words = wire::lock(keys, &call);
        let patience = match call {
            LockCall::Acquire { wait: Some(wait), .. } => wait + PATIENCE,
            _ => PATIENCE,
        };
        let about = AboutLocks { keys: keys.to_vec(), call };
        let server = self.route.leader().port();
        self.record.note(Note::Asks(Op::sent(self.number, server, self.route.clock.now(), about.clone())));
        let op = self.line.ask(about, &keys[0], &words, patience);
        let answer = |reply| wire::lock_answer(&op.call.call, &reply);
        let outcome = read(op.outcome.clone(), answer);
        self.record.note(Note::Locks(with(op, outcome.clone())));
        outcome
    }

    /// One request about an order.
    fn order(&mut self, sale: &str, id: &str, call: SaleCall) -> Outcome<SaleAnswer> {
        // An id that several clients want is one buyer's.
        let buyer = if id.starts_with(EVERYBODYS) { EVERYBODYS.into() } else { format!("buyer-{}", self.number) };
        let words = wire::order(sale, id, &buyer, call);
        let about = AboutOrder { sale: sale.to_owned(), id: id.to_owned(), call, replicated: false };
        let op = self.line.ask(about, sale, &words, PATIENCE);
        let outcome = read(op.outcome.clone(), |reply| wire::sale_answer(call, &reply));
        let mut op = with(op, outcome.clone());
        // `WAIT` counts who has the writes of its own connection; an answer that changed nothing was no write.
        if self.replicas > 0 && op.changed() && self.chance(50) {
            let waited = self.line.ask((), sale, &format!("WAIT {} 500", self.replicas).into(), PATIENCE);
            let all = i64::try_from(self.replicas).expect("a few");
            let counted = matches!(&waited.outcome, Outcome::Done(reply) if reply.int() >= all);
            op.call.replicated = counted && waited.line == op.line;
        }
        self.record.note(Note::Order(op));
        outcome
    }

    /// Tells what it did to itself.
    fn confess(&mut self, kind: &'static str, from: Time) {
        let to = self.route.clock.now();
        self.record.note(Note::Did(Fault { kind: kind.into(), from, to, client: Some(self.number) }));
    }

    /// Ends its connections, politely or as a host that crashed does.
    fn hang_up(&mut self, hard: bool) {
        let from = self.route.clock.now();
        self.line.hang_up(hard);
        self.confess(if hard { "connection reset" } else { "connection closed" }, from);
    }

    /// Asks again and again until there is an answer, as one does after a lost reply; gives up after `tries`.
    fn persist<A>(&mut self, tries: usize, mut ask: impl FnMut(&mut Self) -> Outcome<A>) -> Option<A> {
        for _ in 0..tries {
            match ask(self) {
                Outcome::Done(answer) => return Some(answer),
                _ if self.route.stopped() => return None,
                Outcome::Refused(_) | Outcome::Unwritten | Outcome::Unknown(Nothing::Silence | Nothing::Closed) => {}
            }
        }
        None
    }

    /// A span between `least` and `most` milliseconds.
    fn span(&mut self, least: u64, most: u64) -> Time {
        self.random.u64(least..=most) * 1_000
    }
}

/// The outcome with the reply made sense of.
fn read<R, A>(outcome: Outcome<R>, sense: impl FnOnce(R) -> A) -> Outcome<A> {
    match outcome {
        Outcome::Done(reply) => Outcome::Done(sense(reply)),
        Outcome::Refused(text) => Outcome::Refused(text),
        Outcome::Unknown(nothing) => Outcome::Unknown(nothing),
        Outcome::Unwritten => Outcome::Unwritten,
    }
}

/// The request with another outcome.
fn with<C, A, B>(op: Op<C, A>, outcome: Outcome<B>) -> Op<C, B> {
    let Op { client, line, server, redirected, invoked, returned, call, .. } = op;
    Op { client, line, server, redirected, invoked, returned, call, outcome }
}
