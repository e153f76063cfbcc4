//! Commands without a server: the words are read by the commands' own parsers, and carried out on keys in a map.
//!
//! For tests and fuzzing only. Beside the primary stands a replica that hears the effects; both must always have the same.
#![expect(clippy::expect_used, reason = "a panic is what a fuzz target has to say")]

use std::collections::{BTreeMap, BTreeSet};

use super::keys::{Keys, Primary, Value, place};
use crate::cmd::{
    cart, lock_acquire, lock_extend, lock_macquire, lock_mextend, lock_mrelease, lock_release, stock_adjust,
    stock_alter, stock_apply, stock_create, stock_decr_once, stock_extend, stock_mdecr_once, stock_orders,
};
use crate::core::key::KeyRef;
use crate::core::limits::{MAX_UNITS, MAX_WAIT};
use crate::core::lock::{Acquired, ClientId, Engine, LockError, Mode, Notice, Request, Wait, WaitResult, WaiterId};
use crate::core::sale::cart::{all_or_none, at_least_one};
use crate::core::sale::{Answer, Changes, Decision, Sale, Status};
use crate::core::time::{Millis, Now, UnixMs, Wakeup};
use crate::error::Error;
use crate::module::lock_effect;
use crate::module::sale_effect::{Effect, Part};
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
                let (key, request, notice) = lock_acquire::parse(args, now.ms)?;
                let notice = notice.map(|notice| Notice { client: Some(client(self.client)), ..notice });
                let wait = how(&request, notice.as_ref());
                let asked = engine.acquire(*now, at(key.bytes()), client(self.client), &request, wait, keyspace);
                self.asked(&request, asked)?;
            }
            b"MACQUIRE" => {
                let (keys, request, notice) = lock_macquire::parse(args, now.ms)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                assert!(!keys.is_empty());
                let notice = notice.map(|notice| Notice { client: Some(client(self.client)), ..notice });
                let wait = how(&request, notice.as_ref());
                let asked = engine.acquire_many(*now, 0, &keys, client(self.client), &request, wait, keyspace);
                self.asked(&request, asked)?;
            }
            b"RELEASE" => {
                let (key, token) = lock_release::parse(args)?;
                engine.release(*now, at(key.bytes()), &token, keyspace)?;
            }
            b"MRELEASE" => {
                let (token, keys) = lock_mrelease::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                engine.release_many(*now, 0, &keys, &token, keyspace)?;
            }
            b"EXTEND" => {
                let (key, token, extension) = lock_extend::parse(args, now.ms)?;
                engine.extend(*now, at(key.bytes()), &token, extension, keyspace)?;
            }
            b"MEXTEND" => {
                let (token, keys, extension) = lock_mextend::parse(args, now.ms)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                engine.extend_many(*now, 0, &keys, &token, extension, keyspace)?;
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
        assert!(request.wait.is_none_or(|wait| wait <= MAX_WAIT), "no server waits for so long: {request:?}");
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

    /// Every answer reaches its client, who must have been waiting for it.
    fn deliver(&mut self) {
        for (waiter, answer) in std::mem::take(&mut self.keyspace.answers) {
            assert!(self.waiting.remove(&waiter).is_some(), "nobody waits for {answer:?}");
            if matches!(answer, WaitResult::Granted(_)) {
                self.engine.delivered(waiter);
            }
        }
    }

    fn stock(&mut self, name: &[u8], args: Args<'_>) -> Result<(), Error> {
        let now = self.now.ms;
        match name {
            b"CREATE" => {
                let (key, terms) = stock_create::parse(args)?;
                assert!(terms.total <= MAX_UNITS && terms.limit <= MAX_UNITS);
                terms.check_window()?;
                let key = place(key.bytes());
                if self.keyspace.keys.0.contains_key(&key) {
                    return Err(Error::BusyKey);
                }
                // There are no streams here, only locks and sales.
                if terms.stream.as_ref().is_some_and(|stream| self.keyspace.keys.0.contains_key(&place(&stream.key))) {
                    return Err(Error::WrongType);
                }
                let sale = |terms| Value::Sale(Box::new(Sale::new(terms)));
                self.keyspace.replica.1.0.insert(key.clone(), sale(terms.clone()));
                self.keyspace.keys.0.insert(key, sale(terms));
            }
            b"DECR_ONCE" => {
                let (key, take, waitlist) = stock_decr_once::parse(args, now)?;
                let decide = if waitlist { Sale::take_or_wait } else { Sale::take };
                self.decide(key.bytes(), |sale| Ok(decide(sale, now, &take)?))?;
            }
            b"CONFIRM" => {
                let (key, id) = args.key_and_ident("id")?;
                self.confirm(key.bytes(), id)?;
            }
            b"CANCEL" => {
                let (key, id) = args.key_and_ident("id")?;
                self.decide(key.bytes(), |sale| Ok(sale.cancel(now, id)))?;
            }
            b"EXTEND" => {
                let (key, id, deadline) = stock_extend::parse(args, now)?;
                assert!(deadline > now);
                self.decide(key.bytes(), |sale| Ok(sale.extend(now, id, deadline)))?;
            }
            b"ADJUST" => {
                let (key, delta, id) = stock_adjust::parse(args)?;
                let (after, changes) = self.sale(key.bytes())?.ok_or(Error::NoStock)?.adjust(now, delta, id)?;
                self.commit(key.bytes(), &changes);
                let sale = self.sale(key.bytes())?.ok_or(Error::NoStock)?;
                assert_eq!(sale.remaining(now), after);
                let again = sale.adjust(now, delta, id);
                assert!(id.is_empty() || again == Ok((after, Changes::default())), "{again:?}: an id adjusts once");
            }
            b"ALTER" => {
                let (key, alteration) = stock_alter::parse(args)?;
                let sale = self.sale(key.bytes())?.ok_or(Error::NoStock)?;
                let changes = sale.alter(now, &alteration)?;
                self.commit(key.bytes(), &changes);
            }
            b"MDECR_ONCE" => {
                let sales = stock_mdecr_once::parse(args, now)?;
                let keys: Vec<&[u8]> = sales.iter().map(|(key, _)| key.bytes()).collect();
                self.decide_all(&keys, sales[0].1.id, false, |nth, sale| Ok(sale.take(now, &sales[nth].1)?))?;
            }
            b"MCONFIRM" => {
                let (id, keys) = cart::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                self.decide_all(&keys, id, false, |_, sale| Ok(sale.confirm(now, id)))?;
            }
            b"MCANCEL" => {
                let (id, keys) = cart::parse(args)?;
                let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
                self.decide_all(&keys, id, true, |_, sale| Ok(sale.cancel(now, id)))?;
            }
            b"ORDER" => {
                let (key, id) = args.key_and_ident("id")?;
                let sale = self.sale(key.bytes())?;
                let order = sale.and_then(|sale| Some((sale.order(now, id)?, sale.place(id), sale.waiting())));
                assert!(order.is_none_or(|(order, place, waiting)| {
                    *order.id == *id && place.is_none_or(|place| (1..=waiting).contains(&place))
                }));
            }
            b"ORDERS" => {
                let words = stock_orders::parse(args)?;
                if let Some(sale) = self.sale(words.key.bytes())? {
                    let page = sale.page(now, words.cursor, words.count, words.state);
                    assert!(page.rows.len() <= words.count);
                }
            }
            b"BUYER" => {
                let (key, buyer) = args.key_and_ident("buyer")?;
                if let Some(sale) = self.sale(key.bytes())? {
                    assert!(sale.buyer(now, buyer) <= MAX_UNITS);
                }
            }
            b"INFO" => drop(self.sale(args.only()?.bytes())?.map(|sale| sale.info(now))),
            b"APPLY" => {
                let (key, effect) = stock_apply::parse(args)?;
                let Primary { keys, replica, .. } = &mut self.keyspace;
                apply_to_sale(keys, key.bytes(), &effect)?;
                apply_to_sale(&mut replica.1, key.bytes(), &effect).expect("the replica has what the primary has");
            }
            _ => return Err(Error::SYNTAX),
        }
        Ok(())
    }

    fn sale(&mut self, key: &[u8]) -> Result<Option<&mut Sale>, Error> {
        match self.keyspace.keys.0.get_mut(&place(key)) {
            None => Ok(None),
            Some(Value::Sale(sale)) => Ok(Some(sale)),
            Some(Value::Lock(_)) => Err(Error::WrongType),
        }
    }

    /// What a confirmation is told stays so.
    fn confirm(&mut self, key: &[u8], id: &[u8]) -> Result<(), Error> {
        let now = self.now.ms;
        let told = self.decide(key, |sale| Ok(sale.confirm(now, id)))?;
        let again = self.decide(key, |sale| Ok(sale.confirm(now, id)))?;
        let expected = told.map(|status| match status {
            Status::Ok => Status::Duplicate,
            Status::Limit => Status::Expired,
            same => same,
        });
        assert_eq!(again, expected, "after {told:?}");
        Ok(())
    }

    fn decide<'a>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Sale) -> Result<Decision<'a>, Error>,
    ) -> Result<Option<Status>, Error> {
        let now = self.now.ms;
        let Some(sale) = self.sale(key)? else { return Ok(None) };
        let Decision { answer, changes } = decide(sale)?;
        self.commit(key, &changes);
        let Answer { status, units, remaining, .. } = answer;
        assert_eq!(self.sale(key)?.map(|sale| sale.remaining(now)), Some(remaining), "{status:?}");
        assert!(status != Status::Ok || !changes.is_empty());
        assert!(units <= MAX_UNITS);
        Ok(Some(status))
    }

    /// As the commands on several sales do: all or none, or `each` as it can.
    fn decide_all<'a>(
        &mut self,
        keys: &[&[u8]],
        id: &[u8],
        each: bool,
        decide: impl Fn(usize, &Sale) -> Result<Decision<'a>, Error>,
    ) -> Result<(), Error> {
        let now = self.now.ms;
        let mut decisions = Vec::new();
        for (nth, key) in keys.iter().enumerate() {
            let sale = self.sale(key)?;
            decisions.push(sale.map_or(Ok(Answer::NO_STOCK.unchanged()), |sale| decide(nth, sale))?);
        }
        let skipped = |nth: usize| Ok::<_, Error>(self.sale(keys[nth])?.ok_or(Error::NoStock)?.skipped(now, id));
        let status = if each { at_least_one(&decisions) } else { all_or_none(&mut decisions, skipped)? };
        let done = decisions.iter().any(|decision| decision.answer.status == Status::Ok);
        assert_eq!(status == Status::Ok, done, "{decisions:?}");
        for (key, Decision { answer, changes }) in keys.iter().zip(decisions) {
            self.commit(key, &changes);
            assert_eq!(self.sale(key)?.map_or(0, |sale| sale.remaining(now)), answer.remaining, "{answer:?}");
        }
        Ok(())
    }

    /// What was decided fits the sale, and fits the replica's copy of it.
    fn commit(&mut self, key: &[u8], changes: &Changes<'_>) {
        let Primary { keys, replica, .. } = &mut self.keyspace;
        for change in changes.iter() {
            let sale = keys.sale(key).expect("a sale that was decided on");
            let told = sale.seq().saturating_add(u64::from(sale.event(change).is_some())).min(MAX_UNITS);
            assert_eq!(sale.commit(change), Ok(()), "{change:?}");
            assert_eq!(sale.seq(), told, "{change:?}: each event has a number, and nothing else has one");
            let follows = replica.1.sale(key).map(|sale| sale.replay(change));
            assert_eq!(follows, Some(Ok(())), "{change:?} on the replica");
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

/// As `STOCK.APPLY` does.
fn apply_to_sale(keys: &mut Keys, key: &[u8], effect: &Effect<'_>) -> Result<(), Error> {
    match (effect, keys.0.get_mut(&place(key))) {
        (_, Some(Value::Lock(_))) => Err(Error::WrongType),
        (Effect::Change(change), Some(Value::Sale(sale))) => sale.replay(change).map_err(|_| Error::Payload),
        (Effect::Part(Part::Head(head)), None) => {
            let sale = Sale::from_header(head).map_err(|_| Error::Payload)?;
            keys.0.insert(place(key), Value::Sale(Box::new(sale)));
            Ok(())
        }
        (Effect::Part(Part::Orders(block)), Some(Value::Sale(sale))) => {
            sale.load_whole_block(block).map_err(|_| Error::Payload)
        }
        (Effect::Part(Part::Head(_)), Some(Value::Sale(_))) => Err(Error::BusyKey),
        (_, None) => Err(Error::NoStock),
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

/// How a request waits.
fn how<'a>(request: &Request, notice: Option<&'a Notice>) -> Wait<'a> {
    match (request.wait, notice) {
        (None, _) => Wait::No,
        (Some(_), None) => Wait::Parked,
        (Some(_), Some(notice)) => Wait::Notified(notice),
    }
}

fn client(number: u64) -> ClientId {
    ClientId::new(number).expect("a client is never 0")
}
