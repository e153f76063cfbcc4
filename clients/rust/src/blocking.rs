//! The same for programs without an async runtime. The thread in the background extends all holds of the process.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use redis::{Cmd, FromRedisValue, IntoConnectionInfo};

use crate::{Buyer, Cart, Change, Error, Order, Outcome, Placed, Sale, State, Terms};

/// As [`crate::Client`].
#[derive(Debug, Clone)]
pub struct Client(crate::Client);

/// As [`crate::Lock`].
#[derive(Debug, Clone)]
#[must_use = "nothing is asked for before `acquire`"]
pub struct Lock(crate::Lock);

/// As [`crate::Hold`]. Dropping it releases the lock, and takes as long as [`release`](Self::release).
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct Hold(crate::Hold);

/// As [`crate::Stock`].
#[derive(Debug, Clone)]
pub struct Stock(crate::Stock);

/// As [`crate::Orders`], and an iterator.
#[derive(Debug)]
#[must_use = "nothing is asked for before `next`"]
pub struct Orders(crate::Orders);

/// Waits on this thread for work in the background. In a task it works, too, and holds up the others of its thread.
fn run<T>(asked: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // In a task, what it may do at a time would be used up without end.
    let mut asked = pin!(tokio::task::unconstrained(asked));
    loop {
        if let Poll::Ready(outcome) = asked.as_mut().poll(&mut context) {
            return outcome;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Methods that describe a lock.
macro_rules! described {
    ($($name:ident($($argument:ident: $kind:ty)?);)*) => {$(
        #[doc = concat!("As [`crate::Lock::", stringify!($name), "`].")]
        pub fn $name(self, $($argument: $kind)?) -> Self {
            Self(self.0.$name($($argument)?))
        }
    )*};
}

/// Methods that ask a server.
macro_rules! asked {
    ($of:literal: $($name:ident $(<$generic:ident: $bound:path>)? ($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        #[doc = concat!("As [`crate::", $of, "::", stringify!($name), "`].\n\n# Errors\nAs there.")]
        pub fn $name $(<$generic: $bound>)? (&self, $($argument: $kind),*) -> Result<$answer, Error> {
            run(self.0.$name($($argument),*))
        }
    )*};
}

impl Client {
    /// As [`crate::Client::open`].
    ///
    /// # Errors
    /// The URL is malformed.
    pub fn open(url: &str) -> Result<Self, Error> {
        crate::Client::open(url).map(Self)
    }

    /// As [`crate::Client::new`].
    ///
    /// # Errors
    /// The parameters are malformed.
    pub fn new(server: impl IntoConnectionInfo) -> Result<Self, Error> {
        crate::Client::new(server).map(Self)
    }

    /// As [`crate::Client::lock`].
    pub fn lock(&self, key: impl Into<Vec<u8>>) -> Lock {
        Lock(self.0.lock(key))
    }

    /// As [`crate::Client::locks`].
    pub fn locks<K: Into<Vec<u8>>>(&self, keys: impl IntoIterator<Item = K>) -> Lock {
        Lock(self.0.locks(keys))
    }

    /// As [`crate::Client::stock`].
    #[must_use]
    pub fn stock(&self, sale: impl Into<Vec<u8>>) -> Stock {
        Stock(self.0.stock(sale))
    }

    asked! { "Client":
        query<T: FromRedisValue>(key: impl AsRef<[u8]>, command: &Cmd) -> T;
        order_all<S: AsRef<[u8]>>(id: impl AsRef<[u8]>, legs: &[(S, u64)], order: &Order) -> Cart;
        confirm_all<S: AsRef<[u8]>>(id: impl AsRef<[u8]>, sales: &[S]) -> Cart;
        cancel_all<S: AsRef<[u8]>>(id: impl AsRef<[u8]>, sales: &[S]) -> Cart;
    }
}

impl From<crate::Lock> for Lock {
    /// Any description will do: `Lock::from(client.lock("job").shared())`.
    fn from(lock: crate::Lock) -> Self {
        Self(lock)
    }
}

impl Lock {
    described! {
        lease(lease: Duration);
        wait(wait: Duration);
        wait_forever();
        shared();
        limit(n: u64);
        session();
        replicas(n: usize);
        token(token: impl Into<Vec<u8>>);
        unattended();
    }

    asked! { "Lock": is_locked() -> bool; }

    /// As [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// [`Error::NotGranted`] if others had the lock all the time.
    pub fn acquire(&self) -> Result<Hold, Error> {
        run(self.0.acquire()).map(Hold)
    }
}

impl Hold {
    /// As [`crate::Hold::fence`].
    #[must_use]
    pub fn fence(&self) -> i64 {
        self.0.fence()
    }

    /// As [`crate::Hold::token`].
    #[must_use]
    pub fn token(&self) -> &[u8] {
        self.0.token()
    }

    /// As [`crate::Hold::keys`].
    #[must_use]
    pub fn keys(&self) -> &[Vec<u8>] {
        self.0.keys()
    }

    /// As [`crate::Hold::left`].
    #[must_use]
    pub fn left(&self) -> Duration {
        self.0.left()
    }

    /// As [`crate::Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    asked! { "Hold":
        is_owned() -> bool;
        extend() -> ();
        extend_within(patience: Duration) -> ();
        guard<T: FromRedisValue>(command: &Cmd) -> T;
    }

    /// As [`crate::Hold::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(mut self) -> Result<(), Error> {
        run(self.0.end())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            // If the server cannot be told, the lease ends the hold.
            let _ = run(self.0.end());
        }
    }
}

impl Stock {
    asked! { "Stock":
        create(total: u64, terms: &Terms) -> ();
        alter(change: &Change) -> ();
        order(id: impl AsRef<[u8]>, order: &Order) -> Outcome;
        confirm(id: impl AsRef<[u8]>, keep: Option<u64>) -> Outcome;
        cancel(id: impl AsRef<[u8]>, keep: Option<u64>) -> Outcome;
        extend(id: impl AsRef<[u8]>, hold: Duration) -> Outcome;
        adjust(delta: i64, id: Option<&[u8]>) -> u64;
        info() -> Option<Sale>;
        look(id: impl AsRef<[u8]>) -> Option<Placed>;
        buyer(buyer: impl AsRef<[u8]>) -> Option<Buyer>;
    }

    /// As [`crate::Stock::orders`].
    pub fn orders(&self, state: Option<State>) -> Orders {
        Orders(self.0.orders(state))
    }
}

impl Iterator for Orders {
    type Item = Result<Placed, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        run(self.0.next())
    }
}
