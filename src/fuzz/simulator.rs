//! Commands without a server: the words are read by the commands' own parsers, and carried out on keys in a map.
//!
//! For tests and fuzzing only. Beside the primary stands a replica that hears the effects; both must always have the same.
#![expect(clippy::expect_used, reason = "a panic is what a fuzz target has to say")]

mod sales;

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{Keys, Primary, Value, place};
use crate::cmd::{lock_acquire, lock_extend, lock_macquire, lock_mextend, lock_mrelease, lock_release};
use crate::core::key::KeyRef;
use crate::core::limits::MAX_WAIT;
use crate::core::lock::{
    Acquired, Claim, ClientId, Engine, LockError, Mode, Request, Wait, WaitResult, WaiterId, in_order,
};
use crate::core::sale::Changes;
use crate::core::time::{Millis, Now, UnixMs, Wakeup};
use crate::error::Error;
use crate::module::lock_effect;
use crate::server::args::Args;
use crate::server::fake_server;

/// A primary and its replica, without servers.
pub struct Simulator {
    /// The primary's locks.
    pub engine: Engine,
    /// Its keys, and those of the replica.
    pub keyspace: Primary,
    now: Now,
    client: u64,
    waiting: BTreeMap<WaiterId, u64>,
}

impl Simulator {
    /// Empty keys at `now`.
    pub fn at(now: UnixMs) -> Self {
        let us = u64::try_from(now.0).unwrap_or_default().saturating_mul(1_000);
        Self {
            engine: Engine::default(),
            keyspace: Primary::default(),
            now: Now { ms: now, us },
            client: 1,
            waiting: BTreeMap::new(),
        }
    }

    /// Lets time pass, and the timer do what is due by then.
    pub fn pass(&mut self, span: Millis) {
        let ms = self.now.ms.plus(span).unwrap_or(UnixMs::MAX);
        self.now = Now { ms, us: u64::try_from(ms.0).unwrap_or_default().saturating_mul(1_000) };
        let next = self.engine.tick(self.now, usize::MAX, &mut self.keyspace);
        assert_ne!(next, Wakeup::Now, "the timer did not do all there was to do");
        let sales: Vec<_> = self.keyspace.keys.0.keys().cloned().collect();
        for key in sales {
            while let Some(sale) = self.keyspace.keys.sale(key.as_key().key)
                && sale.next_due(|| self.now.ms).is_some_and(|at| at.reached(self.now.ms))
            {
                let due_first = sale.overdue(self.now.ms, usize::MAX);
                assert!(!due_first.is_empty(), "what is due can be done");
                self.commit(key.as_key().key, &Changes { due_first, ..Changes::default() });
            }
        }
        self.check();
    }

    /// The connection with this number speaks from here on.
    pub fn turn_to(&mut self, client: u64) {
        self.client = client.max(1);
    }

    /// The connection that speaks ends.
    pub fn hang_up(&mut self) {
        self.engine.client_gone(self.now.ms, client(self.client));
        self.waiting.retain(|_, waits| *waits != self.client);
        self.client = self.client.saturating_add(100);
        self.check();
    }

    /// Reads `words` and carries them out; whatever a client may send must either be done or be refused with an error.
    pub fn call(&mut self, words: &[&[u8]]) -> Result<(), Error> {
        let [name, rest @ ..] = words else { return Err(Error::SYNTAX) };
        let name = name.to_ascii_uppercase();
        let done = fake_server::with_args(rest, |args| match name.split_at_checked(5) {
            Some((b"LOCK.", name)) => self.lock(name, args),
            _ => match name.split_at_checked(6) {
                Some((b"STOCK.", name)) => self.stock(name, args),
                _ => Err(Error::SYNTAX),
            },
        });
        if let Err(error) = &done {
            let text = error.to_string();
            assert!(!text.contains(['\r', '\n']) && *error != Error::Internal, "{text:?} is no error line");
        }
        self.deliver();
        self.check();
        done
    }

    fn lock(&mut self, name: &[u8], args: Args<'_>) -> Result<(), Error> {
        let Self { engine, keyspace, now, .. } = self;
        let at = |key| KeyRef { db: 0, key };
        match name {
            b"ACQUIRE" => {
                let (key, mut asked) = lock_acquire::parse(args, now.ms)?;
                asked.request.client = ClientId::new(self.client);
                let answer = engine.acquire(*now, at(key.bytes()), &asked.request, keyspace);
                self.asked(&asked.request, answer)?;
            }
            b"MACQUIRE" => {
                let (keys, mut asked) = lock_macquire::parse(args, now.ms)?;
                asked.request.client = ClientId::new(self.client);
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                assert!(!keys.is_empty());
                let answer = engine.acquire_many(*now, &in_order(0, &keys), &asked.request, keyspace);
                self.asked(&asked.request, answer)?;
            }
            b"RELEASE" => {
                let (key, (token, _), fence) = lock_release::parse(args)?;
                engine.release(*now, &[at(key.bytes())], Claim { token: &token, fence }, keyspace)?;
            }
            b"MRELEASE" => {
                let ((token, _), keys, fence) = lock_mrelease::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                engine.release(*now, &in_order(0, &keys), Claim { token: &token, fence }, keyspace)?;
            }
            b"EXTEND" => {
                let (key, (token, _), extension, fence) = lock_extend::parse(args, now.ms)?;
                engine.extend(*now, &[at(key.bytes())], Claim { token: &token, fence }, extension, keyspace)?;
            }
            b"MEXTEND" => {
                let ((token, _), keys, extension, fence) = lock_mextend::parse(args, now.ms)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                engine.extend(*now, &in_order(0, &keys), Claim { token: &token, fence }, extension, keyspace)?;
            }
            b"INFO" => {
                let key = args.only()?;
                let lock = match keyspace.keys.0.get(&place(key.bytes())) {
                    None => None,
                    Some(Value::Lock(lock)) => Some(lock),
                    Some(Value::Sale(_)) => return Err(Error::WrongType),
                };
                let info = engine.info(*now, at(key.bytes()), lock);
                assert!(info.is_none_or(|info| info.mode.is_some() || info.waiting > 0));
            }
            b"APPLY" => {
                let (key, effects) = lock_effect::parse(args)?;
                for effect in &effects {
                    effect.apply(engine, at(key.bytes()), keyspace)?;
                }
                // They are passed on as they came.
                let (engine, keys) = &mut keyspace.replica;
                for effect in &effects {
                    effect.apply(engine, at(key.bytes()), keys).expect("the replica has what the primary has");
                }
            }
            _ => return Err(Error::SYNTAX),
        }
        Ok(())
    }

    fn asked(&mut self, request: &Request, asked: Result<Acquired, LockError>) -> Result<(), Error> {
        if let Wait::Parked(limit) | Wait::Notified(limit, _) = request.wait {
            assert!(limit <= MAX_WAIT, "no server waits for so long: {request:?}");
        }
        match asked? {
            Acquired::Granted(grant) => {
                assert_eq!((&grant.token, grant.lease), (&request.token, request.lease));
            }
            Acquired::Refused | Acquired::Full => {}
            Acquired::Deadlock(keys) => return Err(Error::Deadlock(keys)),
            Acquired::Parked(waiter) => drop(self.waiting.insert(waiter, self.client)),
            Acquired::Notified { place, .. } => assert!(place > 0),
        }
        Ok(())
    }

    /// Every answer reaches its client, which must have been waiting for it.
    fn deliver(&mut self) {
        for (waiter, answer) in std::mem::take(&mut self.keyspace.answers) {
            assert!(self.waiting.remove(&waiter).is_some(), "nobody waits for {answer:?}");
            if matches!(answer, WaitResult::Granted(_)) {
                self.engine.delivered(waiter);
            }
        }
    }

    /// What must be so between any two commands.
    fn check(&mut self) {
        self.deliver();
        let now = self.now.ms;
        for (key, value) in &self.keyspace.keys.0 {
            match value {
                Value::Lock(lock) => {
                    assert!(!lock.is_empty(), "a free lock was left under {key:?}");
                    let tokens: BTreeSet<_> = lock.holds().map(|hold| hold.token).collect();
                    assert_eq!(tokens.len(), lock.len(), "a token holds twice");
                    let exclusive = lock.mode() == Mode::Exclusive;
                    assert!(!exclusive || lock.len() == 1, "two hold what is exclusive");
                }
                Value::Sale(sale) => {
                    let info = sale.info(now);
                    assert_eq!(info.total, info.remaining.saturating_add(info.held).saturating_add(info.sold));
                    assert_eq!(info.remaining, sale.remaining(now));
                }
            }
        }
        assert!(state(&self.keyspace.keys) == state(&self.keyspace.replica.1), "the replica has something else");
    }
}

/// Everything that a server keeps, as it would write it.
fn state(keys: &Keys) -> Vec<(&[u8], Vec<Vec<u8>>)> {
    let bytes = |value: &Value| match value {
        Value::Lock(lock) => vec![lock.encode()],
        Value::Sale(sale) => std::iter::once(sale.header()).chain(sale.blocks()).collect(),
    };
    keys.0.iter().map(|(place, value)| (place.as_key().key, bytes(value))).collect()
}

fn client(number: u64) -> ClientId {
    ClientId::new(number).expect("a client is never 0")
}
