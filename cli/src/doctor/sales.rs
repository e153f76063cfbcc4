//! Findings about the sales of a server.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;
use tokio::time::Instant;

use super::{Finding, Patient, Weight};

/// The search for sales may take this long; sales that were not found by then are not examined.
const PATIENCE: Duration = Duration::from_secs(10);
/// More entries than this are probably not kept on purpose.
const LONG: u64 = 1_000_000;
/// Entries older than this are probably not kept on purpose.
const OLD: Duration = Duration::from_hours(24 * 30);
pub async fn examine(patient: &mut Patient, findings: &mut Vec<Finding>) {
    let begun = Instant::now();
    let mut cursor = String::from("0");
    let mut streams: Vec<String> = Vec::new();
    loop {
        let words = ["SCAN", cursor.as_str(), "COUNT", "500", "TYPE", "lockstk-s"];
        let Some((next, sales)) = patient.ask::<(String, Vec<String>)>(&words).await else { return };
        for sale in sales {
            examine_stream(patient, &sale, &mut streams, findings).await;
        }
        cursor = next;
        if cursor == "0" || begun.elapsed() > PATIENCE {
            return;
        }
    }
}

async fn examine_stream(patient: &mut Patient, sale: &str, streams: &mut Vec<String>, findings: &mut Vec<Finding>) {
    let Some(Some(info)) = patient.ask::<Option<HashMap<String, Value>>>(&["STOCK.INFO", sale]).await else { return };
    let stream =
        info.get("stream").cloned().and_then(|name| redis::from_redis_value::<String>(name).ok()).unwrap_or_default();
    if stream.is_empty() || streams.contains(&stream) {
        return;
    }
    let length: u64 = patient.ask(&["XLEN", &stream]).await.unwrap_or_default();
    let first: Vec<(String, Value)> =
        patient.ask(&["XRANGE", &stream, "-", "+", "COUNT", "1"]).await.unwrap_or_default();
    let oldest = first.first().and_then(|(id, _)| id.split_once('-')?.0.parse().ok()).map(Duration::from_millis);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = oldest.map(|oldest| now.saturating_sub(oldest)).unwrap_or_default();
    if length > LONG || age > OLD {
        let days = age.as_secs() / 86_400;
        findings.push(Finding::new(
            Weight::Note,
            format!("the stream {} has {length} entries, the first of them {days} days old", stream.escape_debug()),
            "Nobody trims it, so it takes more and more memory.",
            "XTRIM with MINID behind what every consumer has read.",
        ));
    }
    streams.push(stream);
}
