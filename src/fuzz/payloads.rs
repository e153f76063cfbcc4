//! Values, as RDB files, `DUMP` and full synchronisations carry them.

use super::keys::{Value, place};
use super::simulator::Simulator;
use crate::core::lock::Lock;
use crate::core::sale::Sale;
use crate::core::time::{Millis, UnixMs};
use crate::module::sale_type::SaleValue;
use crate::server::fake_server;

/// When the values are used: before, between and after the deadlines they may have.
const INSTANTS: [UnixMs; 3] = [UnixMs(1), UnixMs(1_700_000_000_000), UnixMs(i64::MAX - 1_000_000)];

/// A lock: the one string that a file keeps it as. What is read writes the same bytes again, and works.
pub fn lock_payload(data: &[u8]) {
    let (Ok(lock), _) = fake_server::load::<Lock>(&[data]) else { return };
    assert_eq!(fake_server::save(&lock), [data], "two payloads for one lock");
    assert_eq!(lock.digest().count(), lock.len());
    assert!(lock.memory() < usize::MAX && lock.effort() >= 1);
    let tokens: Vec<Vec<u8>> = lock.holds().take(4).map(|hold| hold.token.text().to_vec()).collect();
    for now in INSTANTS {
        let mut stage = Simulator::at(now);
        for keys in [&mut stage.keyspace.keys, &mut stage.keyspace.replica.1] {
            let lock = fake_server::load::<Lock>(&[data]).0.expect("as before");
            keys.0.insert(place(b"key"), Value::Lock(lock));
        }
        if let Some(Value::Lock(lock)) = stage.keyspace.keys.0.get_mut(&place(b"key")) {
            stage.engine.register(place(b"key").as_key(), lock);
        }
        if let Some(Value::Lock(lock)) = stage.keyspace.replica.1.0.get_mut(&place(b"key")) {
            stage.keyspace.replica.0.register(place(b"key").as_key(), lock);
        }
        for token in tokens.iter().map(|token| &token[..]).chain([&b"somebody else"[..]]) {
            for line in [
                "LOCK.INFO key",
                "LOCK.EXTEND key % PX 100",
                "LOCK.ACQUIRE key TOKEN % PX 9 WAIT 0 SESSION",
                "LOCK.ACQUIRE key TOKEN % SHARED WAIT 5",
                "LOCK.ACQUIRE key TOKEN % LIMIT 3",
                "LOCK.RELEASE key %",
                "LOCK.MACQUIRE 2 key other TOKEN %",
            ] {
                say(&mut stage, line, token);
            }
        }
        stage.pass(Millis(1_000));
        stage.hang_up();
        stage.pass(Millis(i64::MAX));
        assert!(stage.keyspace.keys.0.is_empty(), "a lock outlives its leases");
    }
}

/// A sale: its strings, each with its length in front (two bytes, the lower one first).
pub fn sale_payload(data: &[u8]) {
    let strings = strings(data);
    let (Ok(sale), read) = fake_server::load::<SaleValue>(&strings) else { return };
    let read = strings.get(..read).expect("no more than there are");
    let saved = fake_server::save(&sale);
    // How orders are spread over blocks is the writer's choice.
    assert!(saved.first().is_some_and(|head| head == read[0]), "two heads for one sale");
    let bytes =
        |blocks: &[&[u8]]| blocks.iter().filter_map(|block| block.get(1..)).flatten().copied().collect::<Vec<u8>>();
    let blocks: Vec<&[u8]> = saved.iter().map(|block| &block[..]).collect();
    assert_eq!(bytes(&blocks[1..]), bytes(&read[1..]), "two payloads for one sale");
    let mut parts = 0_u64;
    sale.digest(|_| parts = parts.saturating_add(1));
    assert_eq!(parts, sale.orders().saturating_add(sale.adjustments()).saturating_add(1));
    let ids: Vec<Vec<u8>> = sale.page(UnixMs(1), 0, 4, None).rows.iter().map(|row| row.id.to_vec()).collect();
    for now in INSTANTS {
        let mut stage = Simulator::at(now);
        for keys in [&mut stage.keyspace.keys, &mut stage.keyspace.replica.1] {
            let mut sale = Sale::from_header(read[0]).expect("as before");
            for block in read[1..].iter().filter(|block| !block.is_empty()) {
                sale.load_block(block).expect("as before");
            }
            keys.0.insert(place(b"key"), Value::Sale(Box::new(sale)));
        }
        for id in ids.iter().map(|id| &id[..]).chain([&b"somebody else"[..]]) {
            for line in [
                "STOCK.ORDER key %",
                "STOCK.BUYER key %",
                "STOCK.DECR_ONCE key % QTY 2 HOLD 500 BUYER %",
                "STOCK.DECR_ONCE key another BUYER %",
                "STOCK.EXTEND key % PX 1",
                "STOCK.CONFIRM key %",
                "STOCK.ADJUST key 3",
                "STOCK.ADJUST key 1 ID %",
                "STOCK.CANCEL key %",
                "STOCK.ORDERS key 0 COUNT 2",
                "STOCK.ALTER key LIMIT 1 REBUY yes",
            ] {
                say(&mut stage, line, id);
            }
            stage.pass(Millis(700));
        }
        stage.pass(Millis(i64::MAX));
    }
}

/// Carries out the command that `line` spells, with `name` for each `%`; whatever comes of it, the rehearsal sees what must not.
fn say(stage: &mut Simulator, line: &str, name: &[u8]) {
    let words: Vec<&[u8]> = line.split(' ').map(|word| if word == "%" { name } else { word.as_bytes() }).collect();
    drop(stage.call(&words));
}

/// The strings that follow each other in `data`; the last one may be shorter than it says.
fn strings(mut data: &[u8]) -> Vec<&[u8]> {
    let mut strings = Vec::new();
    while let Some((len, rest)) = data.split_first_chunk() {
        let (string, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        strings.push(string);
        data = rest;
    }
    strings
}
