//! The known state of locks and sales.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::{FromRedisValue, Value};
use serde::Serialize;

/// The locks and sales that were found, by their keys.
#[derive(Debug, Default)]
pub struct State {
    pub locks: BTreeMap<Vec<u8>, Lock>,
    pub sales: BTreeMap<Vec<u8>, Sale>,
    /// How many keys there are, and how much of them the search has seen since it began.
    pub keys: u64,
    pub scanned: u64,
    /// All keys were seen at least once.
    pub complete: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Lock {
    pub key: String,
    pub mode: String,
    pub holders: Vec<Holder>,
    pub waiting: u64,
    pub waiters: Vec<Waiter>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Holder {
    pub token: String,
    pub fence: i64,
    pub lease_ms: i64,
    pub session: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Waiter {
    pub token: String,
    pub waited_ms: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Sale {
    pub key: String,
    pub total: u64,
    pub remaining: u64,
    pub held: u64,
    pub sold: u64,
    pub waiting: u64,
    pub orders: u64,
    /// Orders that were taken since the server loaded the sale, and when we looked.
    #[serde(skip)]
    taken: (u64, Instant),
    /// Orders a second between the last two looks.
    #[serde(skip)]
    pub rate: Option<f64>,
}

/// The one object of `--json`.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    locks: Vec<&'a Lock>,
    sales: Vec<&'a Sale>,
}

type Fields = HashMap<String, Value>;

pub fn seen(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub fn report(&self) -> Report<'_> {
        Report { locks: self.locks.values().collect(), sales: self.sales.values().collect() }
    }

    /// Stores an answer of `LOCK.INFO`; a lock without holders and waiters is removed.
    pub fn saw_lock(&mut self, key: &[u8], answer: Value) {
        match Option::<Fields>::from_redis_value(answer).ok().flatten() {
            Some(fields) => drop(self.locks.insert(key.to_vec(), Lock::read(key, &fields))),
            None => drop(self.locks.remove(key)),
        }
    }

    /// Stores an answer of `STOCK.INFO`.
    pub fn saw_sale(&mut self, key: &[u8], answer: Value) {
        let Some(fields) = Option::<Fields>::from_redis_value(answer).ok().flatten() else {
            self.sales.remove(key);
            return;
        };
        let mut sale = Sale::read(key, &fields);
        if let Some(before) = self.sales.get(key) {
            sale.follow(before);
        }
        self.sales.insert(key.to_vec(), sale);
    }

    /// The tokens that wait for themselves, through others.
    pub fn circles(&self) -> HashSet<&str> {
        let mut waits_for: HashMap<&str, HashSet<&str>> = HashMap::new();
        for lock in self.locks.values() {
            for waiter in &lock.waiters {
                let holders = lock.holders.iter().map(|holder| holder.token.as_str());
                waits_for.entry(&waiter.token).or_default().extend(holders.filter(|token| *token != waiter.token));
            }
        }
        let in_circle = |token: &&str| {
            let mut open: Vec<&str> = waits_for.get(token).into_iter().flatten().copied().collect();
            let mut met: HashSet<&str> = HashSet::new();
            while let Some(next) = open.pop() {
                if next == *token {
                    return true;
                }
                if met.insert(next) {
                    open.extend(waits_for.get(next).into_iter().flatten());
                }
            }
            false
        };
        waits_for.keys().copied().filter(in_circle).collect()
    }
}

impl Lock {
    fn read(key: &[u8], fields: &Fields) -> Self {
        let holders = rows(fields.get("holders")).into_iter().map(|row| Holder {
            token: name(row.get("token")),
            fence: number(row.get("fence")),
            lease_ms: number(row.get("lease-ms")),
            session: name(row.get("session")) == "yes",
        });
        let waiters = rows(fields.get("waiters"))
            .iter()
            .map(|row| Waiter { token: name(row.get("token")), waited_ms: number(row.get("waited-ms")) })
            .collect();
        Self {
            key: shown(key),
            mode: name(fields.get("mode")),
            holders: holders.collect(),
            waiting: number(fields.get("waiting")).unsigned_abs(),
            waiters,
        }
    }

    pub fn longest_wait(&self) -> Option<i64> {
        self.waiters.iter().map(|waiter| waiter.waited_ms).max()
    }
}

impl Sale {
    fn read(key: &[u8], fields: &Fields) -> Self {
        let field = |name| number(fields.get(name)).unsigned_abs();
        Self {
            key: shown(key),
            total: field("total"),
            remaining: field("remaining"),
            held: field("held"),
            sold: field("sold"),
            waiting: field("waiting"),
            orders: field("orders"),
            taken: (field("ok"), Instant::now()),
            rate: None,
        }
    }

    fn follow(&mut self, before: &Self) {
        let (count, at) = before.taken;
        let time = self.taken.1.saturating_duration_since(at).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "orders between two looks")]
        let orders = self.taken.0.saturating_sub(count) as f64;
        self.rate = (time > 0.0).then(|| orders / time);
    }
}

/// Rows are maps in RESP3.
fn rows(value: Option<&Value>) -> Vec<Fields> {
    value.cloned().and_then(|value| Vec::<Fields>::from_redis_value(value).ok()).unwrap_or_default()
}

fn number(value: Option<&Value>) -> i64 {
    value.cloned().and_then(|value| i64::from_redis_value(value).ok()).unwrap_or_default()
}

fn name(value: Option<&Value>) -> String {
    let bytes = value.cloned().and_then(|value| Vec::<u8>::from_redis_value(value).ok()).unwrap_or_default();
    shown(&bytes)
}

/// Names are bytes; bytes that are no text, or would disturb a terminal, are shown escaped.
pub fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(holders: &[&str], waiters: &[&str]) -> Lock {
        let holder = |token: &&str| Holder { token: (*token).into(), fence: 1, lease_ms: 1, session: false };
        let waiter = |token: &&str| Waiter { token: (*token).into(), waited_ms: 1 };
        Lock {
            key: String::new(),
            mode: String::new(),
            holders: holders.iter().map(holder).collect(),
            waiting: 0,
            waiters: waiters.iter().map(waiter).collect(),
        }
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        let mut state = State::default();
        for (key, lock) in [("a", lock(&["1"], &["2"])), ("b", lock(&["2"], &["3"])), ("c", lock(&["4"], &["1", "3"]))]
        {
            state.locks.insert(key.into(), lock);
        }
        assert_eq!(state.circles(), HashSet::new());
        state.locks.insert("d".into(), lock(&["3"], &["1"]));
        assert_eq!(state.circles(), HashSet::from(["1", "2", "3"]));
    }

    #[test]
    fn names_do_not_disturb_a_terminal() {
        assert_eq!(shown("käse".as_bytes()), "käse");
        assert_eq!(shown(b"a\x1b[2J"), "a\\x1b[2J");
        assert_eq!(shown(&[255]), "\\xff");
    }
}
