//! The sales, as their server tells of them.

use std::collections::HashMap;
use std::time::Duration;

use lockstock::{Client, Node};
use redis::{Cmd, FromRedisValue, Value, cmd};
use tokio::task::JoinSet;

use crate::event::{self, EntryId, Event, Known, State};
use crate::name::stored;
use crate::trouble::{Place, Trouble};

/// How many keys one SCAN looks at.
const PORTION: u32 = 1000;
/// How many entries are trimmed in one step, about.
const TRIM: u32 = 10_000;
/// How many orders are asked for at once.
const QUESTIONS: usize = 64;

/// The values of `STOCK.INFO` for a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    pub total: i64,
    pub remaining: i64,
    /// How many changes it has seen.
    pub seq: i64,
    /// Empty: it has none.
    pub stream: Vec<u8>,
}

/// An order, as `STOCK.ORDERS` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub id: String,
    pub state: State,
    pub units: i64,
    pub buyer: String,
    pub reference: String,
    pub deadline: Option<i64>,
}

async fn ask<T: FromRedisValue>(client: &Client, key: &[u8], words: &Cmd) -> Result<T, Trouble> {
    Ok(client.query(key, words).await?)
}

fn unexpected(what: impl std::fmt::Display) -> Trouble {
    Trouble::Away(Place::Server, format!("an answer that makes no sense: {what}"))
}

/// The sales whose keys match, on all servers.
pub async fn matching(client: &Client, patterns: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Trouble> {
    let mut found = Vec::new();
    let (plain, globs): (Vec<_>, Vec<_>) = patterns.iter().partition(|pattern| !is_glob(pattern));
    for key in plain {
        let mut words = cmd("STOCK.INFO");
        words.arg(key);
        match client.query::<Value>(key, &words).await {
            Ok(Value::Nil) => {}
            Ok(_) => found.push(key.clone()),
            Err(lockstock::Error::Refused(error)) if error.code() == Some("WRONGTYPE") => {}
            Err(error) => return Err(error.into()),
        }
    }
    if !globs.is_empty() {
        for mut node in client.primaries().await? {
            for pattern in &globs {
                search(&mut node, pattern, &mut found).await?;
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn is_glob(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"*?[\\".contains(byte))
}

async fn search(node: &mut Node, pattern: &[u8], found: &mut Vec<Vec<u8>>) -> Result<(), Trouble> {
    let mut cursor = 0_u64;
    loop {
        let mut words = cmd("SCAN");
        words.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PORTION).arg("TYPE").arg("lockstk-s");
        let begun = tokio::time::Instant::now();
        let (next, mut names): (u64, Vec<Vec<u8>>) = node.query(&words).await?;
        found.append(&mut names);
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
        // A server with many keys has others to serve.
        tokio::time::sleep(begun.elapsed().saturating_mul(3)).await;
    }
}

/// The values of a sale; `None` if there is no such sale.
pub async fn info(client: &Client, sale: &[u8]) -> Result<Option<Info>, Trouble> {
    let mut words = cmd("STOCK.INFO");
    words.arg(sale);
    let fields: Option<HashMap<String, Value>> = match client.query(sale, &words).await {
        // Something else has the key now.
        Err(lockstock::Error::Refused(error)) if error.code() == Some("WRONGTYPE") => None,
        answer => answer?,
    };
    let Some(mut fields) = fields else { return Ok(None) };
    let mut take = |name: &str| fields.remove(name).ok_or_else(|| unexpected(format!("STOCK.INFO has no {name}")));
    let mut number = |name: &str| redis::from_redis_value::<i64>(take(name)?).map_err(unexpected);
    let (total, remaining, seq) = (number("total")?, number("remaining")?, number("seq")?);
    let stream = redis::from_redis_value(take("stream")?).map_err(unexpected)?;
    Ok(Some(Info { total, remaining, seq, stream }))
}

/// The entries of `stream` from `first` on, that one included.
pub async fn read(client: &Client, stream: &[u8], first: EntryId, count: u32) -> Result<Vec<Event>, Trouble> {
    let mut words = cmd("XRANGE");
    words.arg(stream).arg(first.to_string()).arg("+").arg("COUNT").arg(count);
    entries(client, stream, &words).await
}

/// The last entry up to `last`.
pub async fn last_until(client: &Client, stream: &[u8], last: &str) -> Result<Option<Event>, Trouble> {
    let mut words = cmd("XREVRANGE");
    words.arg(stream).arg(last).arg("-").arg("COUNT").arg(1);
    Ok(entries(client, stream, &words).await?.pop())
}

async fn entries(client: &Client, stream: &[u8], words: &Cmd) -> Result<Vec<Event>, Trouble> {
    let reply = match client.query(stream, words).await {
        Err(lockstock::Error::Refused(error)) if error.code() == Some("WRONGTYPE") => {
            return Err(Trouble::Stopped("the key of its stream holds something else".into()));
        }
        answer => answer?,
    };
    event::events(reply).map_err(Trouble::Stopped)
}

/// How many entries the stream has, and the last id that it has given; none if there is no stream.
pub async fn extent(client: &Client, stream: &[u8]) -> Result<(i64, EntryId), Trouble> {
    let mut words = cmd("XINFO");
    words.arg("STREAM").arg(stream);
    let mut fields: HashMap<String, Value> = match client.query(stream, &words).await {
        Err(lockstock::Error::Refused(error)) if error.detail() == Some("no such key") => {
            return Ok((0, EntryId::default()));
        }
        answer => answer?,
    };
    let mut take = |name: &str| fields.remove(name).ok_or_else(|| unexpected(format!("XINFO STREAM has no {name}")));
    let (entries, last) = (take("length")?, take("last-generated-id")?);
    let last = redis::from_redis_value::<String>(last).map_err(unexpected)?.parse().map_err(unexpected)?;
    Ok((redis::from_redis_value(entries).map_err(unexpected)?, last))
}

/// The states that these orders have now, and the deadlines of holds.
pub async fn known(client: &Client, sale: &[u8], ids: Vec<Vec<u8>>) -> Result<Known, Trouble> {
    let mut known = Known::new();
    let mut asked = JoinSet::new();
    let mut ids = ids.into_iter();
    loop {
        while asked.len() < QUESTIONS
            && let Some(id) = ids.next()
        {
            let (client, mut words, sale) = (client.clone(), cmd("STOCK.ORDER"), sale.to_vec());
            words.arg(&sale).arg(&id);
            asked.spawn(async move {
                let order: Option<HashMap<String, Value>> = ask(&client, &sale, &words).await?;
                Ok::<_, Trouble>((id, order))
            });
        }
        let Some(answer) = asked.join_next().await else { return Ok(known) };
        let (id, order) = answer.map_err(unexpected)??;
        let Some(mut order) = order else { continue };
        let mut field = |name: &str| order.remove(name).unwrap_or(Value::Nil);
        let state: String = redis::from_redis_value(field("state")).map_err(unexpected)?;
        let state = state.parse().map_err(Trouble::Stopped)?;
        let deadline: i64 = redis::from_redis_value(field("deadline")).map_err(unexpected)?;
        known.insert(id, (state, (state == State::Held).then_some(deadline)));
    }
}

/// A page of the sale's orders, and where the next begins: 0 after the last.
pub async fn orders(client: &Client, sale: &[u8], cursor: &str) -> Result<(String, Vec<Order>), Trouble> {
    type Row = (Vec<u8>, String, i64, Vec<u8>, Vec<u8>, i64);

    let mut words = cmd("STOCK.ORDERS");
    words.arg(sale).arg(cursor).arg("COUNT").arg(PORTION);
    let (next, rows): (String, Vec<Row>) = ask(client, sale, &words).await?;
    let order = |(id, state, units, buyer, reference, deadline): Row| {
        let state: State = state.parse().map_err(Trouble::Stopped)?;
        let deadline = (state == State::Held).then_some(deadline);
        let units = state.units(units);
        let [id, buyer, reference] = [id, buyer, reference].map(|name| stored(&name));
        Ok(Order { id, state, units, buyer, reference, deadline })
    };
    Ok((next, rows.into_iter().map(order).collect::<Result<_, Trouble>>()?))
}

/// Trims the entries of `stream` before `first` and those that are older than `keep` by the server's clock, whichever is less.
pub async fn trim(client: &Client, stream: &[u8], first: EntryId, keep: Duration) -> Result<(), Trouble> {
    let (seconds, micros): (u64, u64) = ask(client, stream, &cmd("TIME")).await?;
    let now = seconds.saturating_mul(1000).saturating_add(micros / 1000);
    let old = now.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    let first = first.min(EntryId { ms: old, number: 0 }).to_string();
    // In steps, each of which is short for the server; then what the steps leave of the last block.
    loop {
        let mut words = cmd("XTRIM");
        words.arg(stream).arg("MINID").arg("~").arg(&first).arg("LIMIT").arg(TRIM);
        if ask::<u64>(client, stream, &words).await? == 0 {
            break;
        }
    }
    let mut words = cmd("XTRIM");
    words.arg(stream).arg("MINID").arg("=").arg(&first);
    ask::<Value>(client, stream, &words).await.map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_key_without_signs_is_no_pattern() {
        assert!(!super::is_glob(b"sale:1{x}"));
        assert!([&b"sale:*"[..], b"a?", b"[ab]", b"a\\*"].into_iter().all(super::is_glob));
    }
}
