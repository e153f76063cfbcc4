//! Findings about the sales of a server.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;
use tokio::time::Instant;

use super::{Finding, Patient, Weight};
use crate::top::shown;

/// The search for sales may take this long; sales that were not found by then are not examined.
const PATIENCE: Duration = Duration::from_secs(10);
/// More entries than this are probably not kept on purpose.
const LONG: u64 = 1_000_000;
/// Entries older than this are probably not kept on purpose.
const OLD: Duration = Duration::from_hours(24 * 30);
pub async fn examine(patient: &mut Patient, findings: &mut Vec<Finding>) {
    let begun = Instant::now();
    let mut cursor = String::from("0");
    let mut streams: Vec<Vec<u8>> = Vec::new();
    loop {
        let words = ["SCAN", cursor.as_str(), "COUNT", "500", "TYPE", "lockstk-s"];
        let Some((next, sales)) = patient.ask::<(String, Vec<Vec<u8>>)>(&words).await else { return };
        for sale in sales {
            examine_stream(patient, &sale, &mut streams, findings).await;
        }
        cursor = next;
        if cursor == "0" || begun.elapsed() > PATIENCE {
            return;
        }
    }
}

async fn examine_stream(patient: &mut Patient, sale: &[u8], streams: &mut Vec<Vec<u8>>, findings: &mut Vec<Finding>) {
    let info = patient.ask::<Option<HashMap<String, Value>>>(&[b"STOCK.INFO".as_slice(), sale]).await;
    let Some(Some(mut info)) = info else { return };
    let stream: Vec<u8> = info.remove("stream").and_then(|name| redis::from_redis_value(name).ok()).unwrap_or_default();
    if stream.is_empty() || streams.contains(&stream) {
        return;
    }
    let length: u64 = patient.ask(&[b"XLEN".as_slice(), &stream]).await.unwrap_or_default();
    let words: [&[u8]; 6] = [b"XRANGE", &stream, b"-", b"+", b"COUNT", b"1"];
    let first: Vec<(String, Value)> = patient.ask(&words).await.unwrap_or_default();
    let oldest = first.first().and_then(|(id, _)| id.split_once('-')?.0.parse().ok()).map(Duration::from_millis);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = oldest.map(|oldest| now.saturating_sub(oldest)).unwrap_or_default();
    if length > LONG || age > OLD {
        let days = age.as_secs() / 86_400;
        findings.push(Finding::new(
            Weight::Note,
            format!("the stream {} has {length} entries, the first of them {days} days old", shown(&stream)),
            "Nobody trims it, so it takes more and more memory.",
            "XTRIM with MINID behind what every consumer has read.",
        ));
    }
    streams.push(stream);
}
