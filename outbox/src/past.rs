//! Whether what a stream tells follows what the tables have.

use lockstock::Client;

use crate::event::{EntryId, Event};
use crate::source::{self, Info};
use crate::store::Position;
use crate::trouble::Trouble;

/// What to do when a sale cannot go on.
const MEND: &str = "Start with --reconcile to make the tables what STOCK.ORDERS says";

/// The events that come next, of those that were read from the position on.
pub async fn next(
    client: &Client,
    stream: &[u8],
    at: Position,
    info: Option<&Info>,
    mut events: Vec<Event>,
) -> Result<Vec<Event>, Trouble> {
    if !at.foreign && events.first().is_some_and(|first| first.entry == at.entry) {
        let first = events.remove(0);
        if first.seq != at.seq {
            return Err(other(at, first.seq));
        }
    } else if !at.foreign && at.entry != EntryId::default() {
        // It was trimmed, and all before it; or the server has lost it, and others have its number now.
        let before = source::last_until(client, stream, &at.entry.to_string()).await?;
        if let Some(before) = before.filter(|before| before.seq >= at.seq) {
            return Err(other(at, before.seq));
        }
    }
    let fits = events.iter().zip(at.seq.saturating_add(1)..=i64::MAX);
    let fitting = fits.take_while(|(event, seq)| event.seq == *seq).count();
    match (events.get(fitting), info) {
        (Some(wrong), _) if fitting == 0 && wrong.seq > at.seq => Err(gap(at, wrong.seq.saturating_sub(1))),
        (Some(wrong), _) if fitting == 0 => Err(other(at, wrong.seq)),
        (None, Some(info)) if fitting == 0 && info.seq > at.seq => Err(gap(at, info.seq)),
        (None, Some(info)) if fitting == 0 && info.seq < at.seq => Err(other(at, info.seq)),
        _ => {
            events.truncate(fitting);
            Ok(events)
        }
    }
}

/// Where nothing is written yet, nothing says whose the events are: an earlier sale may have had the stream. A stream of this sale alone
/// never has more entries than the sale has changes.
pub async fn check_stream(client: &Client, sale: &[u8], stream: &[u8], at: Position) -> Result<(), Trouble> {
    if at.seq > 0 || at.foreign {
        return Ok(());
    }
    let (entries, _) = source::extent(client, stream).await?;
    // Asked for later, so they are no fewer.
    let changes = match source::info(client, sale).await? {
        Some(info) => info.seq,
        None => source::last_until(client, stream, "+").await?.map_or(0, |last| last.seq),
    };
    if entries <= changes {
        return Ok(());
    }
    Err(Trouble::Stopped(format!(
        "its stream has {entries} entries, and the sale has {changes} changes: an earlier sale has had the stream. {MEND}"
    )))
}

fn gap(at: Position, last: i64) -> Trouble {
    let first = at.seq.saturating_add(1);
    let (what, are) =
        if first == last { (format!("event {first}"), "is") } else { (format!("events {first} to {last}"), "are") };
    Trouble::Stopped(format!(
        "{what} {are} missing from its stream: trimmed or deleted before the tables had them, or lost in a failover. {MEND}"
    ))
}

/// The position is none that this sale had.
pub fn other(at: Position, seq: i64) -> Trouble {
    Trouble::Stopped(format!(
        "the tables have event {} and the server is at {seq} of another past: the sale was deleted and created anew, or a failover has \
         lost what is in the tables. {MEND}",
        at.seq
    ))
}
