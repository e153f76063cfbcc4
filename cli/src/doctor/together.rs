//! Findings that need a comparison with other servers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Finding, Patient, Weight};

/// Clocks that differ by less are as good as the same.
const APART: Duration = Duration::from_millis(500);

pub async fn examine(patients: &mut [Patient], findings: &mut Vec<Finding>) {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for patient in patients.iter() {
        if let Some(version) = patient.info.get("lockstock_version") {
            versions.entry(version.clone()).or_default().push(patient.node.address.clone());
        }
    }
    if versions.len() > 1 {
        let all: Vec<String> =
            versions.iter().map(|(version, nodes)| format!("{version} on {}", nodes.join(", "))).collect();
        findings.push(Finding::new(
            Weight::Risk,
            format!("the module's versions differ: {}", all.join("; ")),
            "A replica of an older version may not understand its primary.",
            "Upgrade the replicas first, then fail over, then upgrade what was the primary.",
        ));
    }
    clocks(patients, findings).await;
}

/// How far each server's clock is ahead of ours, to within the time of the answer.
async fn clocks(patients: &mut [Patient], findings: &mut Vec<Finding>) {
    let mut ahead: Vec<(i128, String)> = Vec::new();
    for patient in patients.iter_mut() {
        let sent = since_1970();
        let Some((seconds, micros)) = patient.ask::<(i128, i128)>(&["TIME"]).await else { continue };
        let middle = sent.saturating_add(since_1970()) / 2;
        let time = seconds.saturating_mul(1_000_000).saturating_add(micros);
        ahead.push((time.saturating_sub(middle), patient.node.address.clone()));
    }
    ahead.sort();
    if let (Some((least, slow)), Some((most, fast))) = (ahead.first(), ahead.last()) {
        let apart = most.saturating_sub(*least);
        if apart > i128::try_from(APART.as_micros()).unwrap_or_default() {
            findings.push(Finding::new(
                Weight::Risk,
                format!("the clock of {fast} is {} ms ahead of that of {slow}", apart / 1000),
                "After a failover, leases and deadlines end early or late by that, and fences may not rise.",
                "Have both follow one time (NTP).",
            ));
        }
    }
}

/// Microseconds.
fn since_1970() -> i128 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(time.as_micros()).unwrap_or_default()
}
