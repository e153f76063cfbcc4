//! Makes the tables of a sale agree with the sale, even if events are lost.

use crate::event::{EntryId, Event, EventRow, OrderRow, State};
use crate::follower::World;
use crate::name::{noted, shown};
use crate::report::say;
use crate::source::{self, Info, Order};
use crate::store::{Position, Writer};
use crate::trouble::{Place, Trouble};

/// How many entries are read at once.
const PAGE: u32 = 1000;
/// How often to look for an instant at which nothing is in between.
const LOOKS: u32 = 100;

/// Compares the orders in the tables with STOCK.ORDERS, writes the differences, and moves the position to where the events go on; returns
/// the new position. An order that the sale does not know is cancelled.
///
/// The position is taken before the orders are read: an order that changes meanwhile is read late and told of once more. A sale that is not
/// there any more has no orders, and one that lost its last changes lacks some: then nothing is written ([`Trouble::Lost`]).
pub async fn reconcile(
    world: &World,
    sale: &[u8],
    name: &str,
    stream: &[u8],
    fence: i64,
    from: Position,
) -> Result<Position, Trouble> {
    let to = position(world, sale, stream).await?;
    let mut stored = world.store.orders(name).await?;
    let mut differing: Vec<OrderRow> = Vec::new();
    let row = |order: Order| OrderRow {
        id: order.id,
        state: order.state,
        units: order.units,
        buyer: order.buyer,
        reference: order.reference,
        deadline: order.deadline,
        seq: to.seq,
        at: to.moment(),
    };
    let mut cursor = "0".to_owned();
    loop {
        let (next, orders) = source::orders(&world.client, sale, &cursor).await?;
        for order in orders {
            let before = stored.remove(&order.id);
            if before.is_none_or(|before| before.order != order || before.seq > to.seq) {
                differing.push(row(order));
            }
        }
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    if there(world, sale).await?.seq < to.seq {
        return Err(Trouble::Lost);
    }
    let mended = differing.len();
    let ended = |state| matches!(state, State::Cancelled | State::Expired);
    let unknown =
        stored.into_values().map(|stored| stored.order).filter(|order| !ended(order.state) || order.units != 0);
    differing.extend(unknown.map(|order| row(Order { state: State::Cancelled, units: 0, deadline: None, ..order })));
    let cancelled = differing.len().saturating_sub(mended);

    let mut renewal = world.store.renew(Writer { sale: name, fence, from }, to, &noted(stream)).await?;
    renewal.orders(&differing).await?;
    if world.options.events {
        let mut first = EntryId::default();
        loop {
            let page = source::read(&world.client, stream, first, PAGE).await?;
            let Some(last) = page.last() else { break };
            first = last.entry.next();
            let told: Vec<&Event> = page.iter().filter(|event| event.entry <= to.entry).collect();
            renewal.events(&last_of_each(&told)).await?;
            if told.len() < page.len() {
                break;
            }
        }
        renewal.forget_events(to.seq).await?;
    }
    renewal.commit().await?;
    let sale = shown(sale);
    say(format!(
        "{sale}: compared with STOCK.ORDERS: {mended} orders mended, {cancelled} cancelled that the sale does not know"
    ));
    Ok(to)
}

/// Where the events go on after now.
async fn position(world: &World, sale: &[u8], stream: &[u8]) -> Result<Position, Trouble> {
    let client = &world.client;
    for _ in 0..LOOKS {
        let before = there(world, sale).await?;
        let last = source::last_until(client, stream, "+").await?;
        let (_, given) = source::extent(client, stream).await?;
        let after = there(world, sale).await?;
        if let Some((seq, entry, foreign)) = between(&before, last.as_ref(), given, &after) {
            return Ok(Position { seq, entry, foreign, total: after.total, remaining: after.remaining });
        }
    }
    Err(Trouble::Away(Place::Server, "the sale changes too fast to be compared".into()))
}

/// The values of the sale, which must be there.
async fn there(world: &World, sale: &[u8]) -> Result<Info, Trouble> {
    source::info(&world.client, sale).await?.ok_or(Trouble::Lost)
}

/// The last event, its entry, and whether that is another's, of a look at the stream between two at the sale. An entry that is none of this sale's last may be one
/// of an earlier sale of this name; where nothing happened meanwhile, what comes will come after all that was given.
fn between(before: &Info, last: Option<&Event>, given: EntryId, after: &Info) -> Option<(i64, EntryId, bool)> {
    match last {
        Some(last) if (before.seq..=after.seq).contains(&last.seq) => Some((last.seq, last.entry, false)),
        _ if before.seq == after.seq => Some((after.seq, given, true)),
        _ => None,
    }
}

/// Two events of a page may have one number, of an earlier sale and of this one: the later counts.
fn last_of_each(events: &[&Event]) -> Vec<EventRow> {
    let rows: std::collections::BTreeMap<i64, EventRow> =
        events.iter().map(|event| (event.seq, event.event_row())).collect();
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seq: i64, ms: u64) -> Event {
        let entry = EntryId { ms, number: 0 };
        let (kind, id) = ("ok".to_owned(), b"a".to_vec());
        Event { entry, seq, kind, id, units: seq, buyer: String::new(), reference: String::new(), deadline: Some(-1) }
    }

    fn info(seq: i64) -> Info {
        Info { total: 1, remaining: 1, seq, stream: b"s".to_vec() }
    }

    #[test]
    fn the_position_is_one_that_the_sale_had() {
        let (entry, given) = (EntryId { ms: 7, number: 0 }, EntryId { ms: 9, number: 0 });
        let last = told(5, 7);
        assert_eq!(between(&info(5), Some(&last), given, &info(5)), Some((5, entry, false)));
        assert_eq!(between(&info(4), Some(&last), given, &info(6)), Some((5, entry, false)));
        // Of an earlier sale, or trimmed.
        assert_eq!(between(&info(2), Some(&last), given, &info(2)), Some((2, given, true)));
        assert_eq!(between(&info(2), None, given, &info(2)), Some((2, given, true)));
        assert_eq!(between(&info(2), None, given, &info(3)), None);
        assert_eq!(between(&info(6), Some(&last), given, &info(7)), None);
    }

    #[test]
    fn of_events_with_one_number_the_last_counts() {
        let (first, second, third) = (told(2, 1), told(1, 2), Event { units: 9, ..told(2, 3) });
        let rows = last_of_each(&[&first, &second, &third]);
        assert_eq!(rows.iter().map(|row| (row.seq, row.units)).collect::<Vec<_>>(), [(1, 1), (2, 9)]);
    }
}
