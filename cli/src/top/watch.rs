//! Looking, within a budget: of the time of one core of the server, searching takes a fourteenth at most and looking again a fortieth. How
//! long an answer took is taken for the server's time, though most of it is the network's.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstock::{Client, Error, Node};
use redis::{Value, cmd, pipe};
use tokio::time::{Instant, sleep};

use super::state::{State, seen};
use crate::options::Top;

/// The names by which the server knows the two types.
const LOCK: &str = "lockstk-l";
const SALE: &str = "lockstk-s";
/// How many keys one SCAN looks at: less than a millisecond.
const PORTION: usize = 2000;
/// How many are asked for together.
const BATCH: usize = 50;
/// The parts of rest to one part of searching, and of looking again.
const REST: u32 = 13;
const LONG_REST: u32 = 39;
/// A small server is searched again after this time.
const AGAIN: Duration = Duration::from_millis(250);

/// Whether there is anything to look at.
pub async fn check(client: &Client) -> Result<(), Error> {
    let mut words = cmd("LOCK.INFO");
    words.arg("lockstock-top");
    match client.query::<Value>("lockstock-top", &words).await {
        // The key may be anything.
        Err(Error::Refused(error)) if error.code() == Some("WRONGTYPE") => Ok(()),
        answer => answer.map(drop),
    }
}

/// All of it, as fast as it goes.
pub async fn once(client: &Client, options: &Top, state: &Mutex<State>) -> Result<(), Error> {
    for mut node in client.primaries().await? {
        search(&mut node, options, state, 0, &Found::default()).await?;
    }
    Ok(())
}

/// Goes on until something fails.
pub async fn keep(client: Client, options: Top, state: Arc<Mutex<State>>) -> Error {
    let nodes = match client.primaries().await {
        Ok(nodes) => nodes,
        Err(error) => return error,
    };
    // Each node has a core of its own.
    let mut works = tokio::task::JoinSet::new();
    for node in nodes {
        let found: Arc<Found> = Arc::default();
        works.spawn(searching(node.clone(), options.clone(), state.clone(), found.clone()));
        works.spawn(refreshing(node, options.clone(), state.clone(), found));
    }
    while let Some(ended) = works.join_next().await {
        if let Ok(error) = ended {
            return error;
        }
    }
    Error::Invalid("the watch has ended")
}

/// A key that a node has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    name: Vec<u8>,
    sale: bool,
}

/// The keys that the search of a node has found.
type Found = Mutex<HashSet<Key>>;

fn lock(found: &Found) -> MutexGuard<'_, HashSet<Key>> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn searching(mut node: Node, options: Top, state: Arc<Mutex<State>>, found: Arc<Found>) -> Error {
    loop {
        match search(&mut node, &options, &state, REST, &found).await {
            Ok(()) => seen(&state).complete = true,
            Err(error) => return error,
        }
        sleep(AGAIN).await;
    }
}

async fn refreshing(mut node: Node, options: Top, state: Arc<Mutex<State>>, found: Arc<Found>) -> Error {
    loop {
        let begun = Instant::now();
        if let Err(error) = refresh(&mut node, &state, &found).await {
            return error;
        }
        sleep(options.every.min(AGAIN).saturating_sub(begun.elapsed())).await;
    }
}

/// Finds the locks and sales of a node.
async fn search(node: &mut Node, options: &Top, state: &Mutex<State>, rest: u32, found: &Found) -> Result<(), Error> {
    let keys: u64 = node.query(&cmd("DBSIZE")).await?;
    {
        let mut state = seen(state);
        state.keys = keys;
        state.scanned = 0;
    }
    // The least of the last few: a busy machine makes answers late, which costs the server nothing.
    let mut times: VecDeque<Duration> = VecDeque::new();
    for (kind, sale) in [(LOCK, false), (SALE, true)] {
        let mut cursor = 0_u64;
        loop {
            let begun = Instant::now();
            let mut words = cmd("SCAN");
            words.arg(cursor).arg("COUNT").arg(PORTION).arg("TYPE").arg(kind);
            if let Some(pattern) = &options.pattern {
                words.arg("MATCH").arg(pattern);
            }
            let (next, names): (u64, Vec<Vec<u8>>) = node.query(&words).await?;
            times.push_back(begun.elapsed());
            if times.len() > 8 {
                times.pop_front();
            }
            let took = times.iter().min().copied().unwrap_or_default();
            let new: Vec<Key> = {
                let mut found = lock(found);
                names.into_iter().map(|name| Key { name, sale }).filter(|key| found.insert(key.clone())).collect()
            };
            {
                let mut state = seen(state);
                state.scanned = state.scanned.saturating_add(u64::try_from(PORTION).unwrap_or_default());
            }
            // Shown at once, not only when its turn comes.
            look(node, state, &new, rest).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
            sleep(took.saturating_mul(rest)).await;
        }
    }
    Ok(())
}

/// Looks again at all that was found.
async fn refresh(node: &mut Node, state: &Mutex<State>, found: &Found) -> Result<(), Error> {
    let keys: Vec<Key> = lock(found).iter().cloned().collect();
    look(node, state, &keys, LONG_REST).await?;
    let state = seen(state);
    let gone =
        |key: &Key| if key.sale { !state.sales.contains_key(&key.name) } else { !state.locks.contains_key(&key.name) };
    for key in keys.iter().filter(|key| gone(key)) {
        lock(found).remove(key);
    }
    Ok(())
}

async fn look(node: &mut Node, state: &Mutex<State>, keys: &[Key], rest: u32) -> Result<(), Error> {
    for batch in keys.chunks(BATCH) {
        let mut words = pipe();
        for key in batch {
            words.cmd(if key.sale { "STOCK.INFO" } else { "LOCK.INFO" }).arg(&key.name);
        }
        let begun = Instant::now();
        let answers = node.query_all(&mut words).await?;
        let took = begun.elapsed();
        {
            let mut state = seen(state);
            for (key, answer) in batch.iter().zip(answers) {
                if key.sale { state.saw_sale(&key.name, answer) } else { state.saw_lock(&key.name, answer) }
            }
        }
        sleep(took.saturating_mul(rest)).await;
    }
    Ok(())
}
