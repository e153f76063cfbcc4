//! One server by itself.

use redis::Value;

use super::{Finding, Patient, Weight};
use crate::top::shown;

/// The command that ends a hold or an order, for each command that begins one.
const PAIRS: [(&str, [&str; 2]); 2] =
    [("LOCK.ACQUIRE", ["LOCK.RELEASE", "LOCK.EXTEND"]), ("STOCK.DECR_ONCE", ["STOCK.CONFIRM", "STOCK.CANCEL"])];

/// So many reservations have lapsed before it is worth a word.
const LAPSED: u64 = 100;

pub async fn examine(patient: &mut Patient, findings: &mut Vec<Finding>) {
    let address = patient.node.address.clone();
    let mut found = |weight, what: String, means, remedy| {
        findings.push(Finding::new(weight, format!("{address}: {what}"), means, remedy));
    };
    if !patient.info.contains_key("lockstock_version") {
        let (means, remedy) = if patient.node.is_primary {
            ("Locks and sales do not work here.", "Load the module: `loadmodule` in its configuration, and restart it.")
        } else {
            (
                "A replica without it refuses the data of its primary, or loses every lock and sale when it takes over.",
                "Load the module of the primary's version before the replica is needed.",
            )
        };
        found(Weight::Bad, "the module is not loaded".into(), means, remedy);
        return;
    }
    let policy = patient.field("maxmemory_policy");
    if !matches!(policy, "" | "noeviction") {
        found(
            if patient.number("maxmemory") > 0 { Weight::Bad } else { Weight::Risk },
            format!("maxmemory-policy is {policy}"),
            "When memory is out, the server throws away locks that are held and sales with their orders.",
            "CONFIG SET maxmemory-policy noeviction: then it refuses what takes memory, and releases work.",
        );
    }
    persistence(patient, &mut found).await;
    if patient.node.is_primary {
        replication(patient, &mut found).await;
    } else if patient.field("master_link_status") == "down" {
        found(
            Weight::Bad,
            "the replica has lost its primary".into(),
            "It would take over without the locks and orders of the time since.",
            "Look into its log; both servers' networks and passwords.",
        );
    }
    if patient.number("unexpected_error_replies") > 0 {
        found(
            Weight::Bad,
            format!(
                "the replica could not apply {} commands of its primary",
                patient.field("unexpected_error_replies")
            ),
            "It lacks what they did, and would take over without it.",
            "Give it the module's version and the memory of its primary; then REPLICAOF NO ONE and REPLICAOF again load all anew.",
        );
    }
    let (lapsed, taken) = (patient.number("lockstock_stock_lapses"), patient.number("lockstock_stock_ok"));
    if lapsed > LAPSED && lapsed.saturating_mul(2) > taken {
        found(
            Weight::Note,
            format!("{lapsed} reservations have lapsed, and {taken} requests of sales were done"),
            "Most orders are paid too late, or nobody confirms them.",
            "Look at what sends STOCK.CONFIRM; lengthen HOLD if buyers need longer.",
        );
    }
    users(patient, &mut found).await;
    if patient.is_secretive {
        found(
            Weight::Note,
            "its settings cannot be read".into(),
            "This user may not run CONFIG GET, so files and replicas are examined as far as INFO tells.",
            "Examine it as a user with the right to config|get.",
        );
    }
}

async fn persistence(patient: &mut Patient, found: &mut impl FnMut(Weight, String, &'static str, &'static str)) {
    let saves = patient.setting("save").await;
    let appends = patient.field("aof_enabled") == "1";
    if patient.node.is_primary && !appends && saves.is_some_and(|saves| saves.is_empty()) {
        found(
            Weight::Risk,
            "nothing is written to disk".into(),
            "A restart loses every lock and every order; fences go on rising.",
            "For sales: appendonly yes. For locks alone it may do: their holders ask again.",
        );
    }
    if let Some((weight, what, means, remedy)) =
        saving(patient.setting("forkless-infrastructure-enabled").await.as_deref())
    {
        found(weight, what, means, remedy);
    }
    for (field, name) in [
        ("rdb_last_bgsave_status", "snapshot"),
        ("aof_last_bgrewrite_status", "rewrite of the append-only file"),
        ("aof_last_write_status", "write to the append-only file"),
    ] {
        if patient.field(field) == "err" {
            found(
                Weight::Bad,
                format!("the last {name} failed"),
                "The server may refuse all writes (MISCONF), also releases and confirmations.",
                "Look into its log: a full disk, missing rights, no memory for a fork, or another module that cannot be saved.",
            );
        }
    }
}

/// What it says of a server that is set to save without a fork, which Valkey 9.2 and later can: no server of the tests has this setting.
fn saving(infrastructure: Option<&str>) -> Option<(Weight, String, &'static str, &'static str)> {
    (infrastructure == Some("yes")).then(|| {
        (
            Weight::Note,
            "forkless-infrastructure-enabled is yes".into(),
            "With lockstock loaded the server forks all the same, to save and to fill replicas: a timer of the module changes values meanwhile.",
            "Leave room for what a fork copies, and set it to no.",
        )
    })
}

async fn replication(patient: &mut Patient, found: &mut impl FnMut(Weight, String, &'static str, &'static str)) {
    let wanted = patient.setting("min-replicas-to-write").await.and_then(|wanted| wanted.parse::<u64>().ok());
    let wanted = wanted.filter(|wanted| *wanted > 0);
    // Only a server that asks for replicas counts those whose lag is small enough.
    let asks = patient.info.contains_key("min_slaves_good_slaves");
    let good = patient.number("min_slaves_good_slaves");
    if asks && wanted.unwrap_or(1) > good {
        let wanted = wanted.map_or("set".into(), |wanted| wanted.to_string());
        found(
            Weight::Bad,
            format!("min-replicas-to-write is {wanted}, and {good} replicas are near enough"),
            "Every write is refused (NOREPLICAS), also releases.",
            "Bring the replicas back.",
        );
    } else if !asks && patient.number("connected_slaves") > 0 {
        found(
            Weight::Note,
            "min-replicas-to-write or min-replicas-max-lag is 0".into(),
            "A primary that is cut off goes on granting locks and selling until it hears that another has taken over.",
            "CONFIG SET min-replicas-to-write 1, with min-replicas-max-lag, bounds that time.",
        );
    }
}

async fn users(patient: &mut Patient, found: &mut impl FnMut(Weight, String, &'static str, &'static str)) {
    let names: Vec<Vec<u8>> = patient.ask(&["ACL", "USERS"]).await.unwrap_or_default();
    for name in names {
        for (begins, ends) in PAIRS {
            if !may(patient, &name, begins).await {
                continue;
            }
            for command in ends {
                if !may(patient, &name, command).await {
                    found(
                        Weight::Risk,
                        format!("the user {} may {begins} and not {command}", shown(&name)),
                        "What this user takes ends only by its lease or deadline, or cannot be extended.",
                        "ACL SETUSER with the commands that belong together.",
                    );
                }
            }
        }
    }
}

/// Whether the user may run it; a refusal of the key is none of the command.
async fn may(patient: &mut Patient, user: &[u8], command: &str) -> bool {
    let words: [&[u8]; 6] = [b"ACL", b"DRYRUN", user, command.as_bytes(), b"key", b"word"];
    match patient.ask(&words).await {
        // It says so with the name of the user, which may be no text.
        Some(Value::BulkString(text)) => !String::from_utf8_lossy(&text).contains("to run the"),
        answer => answer.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::saving;

    #[test]
    fn a_server_that_would_save_without_a_fork_is_named_and_no_other() {
        let said = saving(Some("yes")).map(|(_, what, ..)| what);
        assert_eq!(said.as_deref(), Some("forkless-infrastructure-enabled is yes"));
        // Off, and unknown to this server.
        assert!(saving(Some("no")).is_none() && saving(Some("")).is_none() && saving(None).is_none());
    }
}
