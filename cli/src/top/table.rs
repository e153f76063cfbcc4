//! Locks and sales as rows of words.

use comfy_table::{Cell, CellAlignment, Table};

use super::state::{Lock, Sale, State};

pub const LOCKS: [&str; 8] = ["LOCK", "MODE", "HOLDER", "FENCE", "LEASE", "WAITING", "LONGEST", "NEXT IN LINE"];
pub const SALES: [&str; 8] = ["SALE", "TOTAL", "REMAINING", "HELD", "SOLD", "WAITING", "ORDERS", "ORDERS/S"];
/// The columns that are numbers or times.
pub const RIGHT: [&str; 11] =
    ["FENCE", "LEASE", "WAITING", "LONGEST", "TOTAL", "REMAINING", "HELD", "SOLD", "WAITING", "ORDERS", "ORDERS/S"];
/// So many holders and waiters of one lock are named.
const NAMED: usize = 3;
/// Stands before a token that waits for itself, through others.
const CIRCLE: char = '↻';

/// One row for each holder, the lock's own words in the first of them.
pub fn locks(state: &State) -> Vec<[String; 8]> {
    let circles = state.circles();
    let token = |token: &str| if circles.contains(token) { format!("{CIRCLE} {token}") } else { token.to_owned() };
    state.locks.values().flat_map(|lock| rows(lock, &token)).collect()
}

fn rows(lock: &Lock, token: &dyn Fn(&str) -> String) -> Vec<[String; 8]> {
    let mut next: Vec<String> = lock.waiters.iter().take(NAMED).map(|waiter| token(&waiter.token)).collect();
    if lock.waiters.len() > NAMED {
        next.push("…".into());
    }
    let waiting = if lock.waiting == 0 { String::new() } else { lock.waiting.to_string() };
    let longest = lock.longest_wait().map(time).unwrap_or_default();
    let mut rows: Vec<[String; 8]> = Vec::new();
    for holder in lock.holders.iter().take(NAMED) {
        let session = if holder.session { " (session)" } else { "" };
        let holds = [format!("{}{session}", token(&holder.token)), holder.fence.to_string(), time(holder.lease_ms)];
        let [name, fence, lease] = holds;
        rows.push([String::new(), String::new(), name, fence, lease, String::new(), String::new(), String::new()]);
    }
    if rows.is_empty() {
        rows.push(Default::default());
    }
    if let Some(more) = lock.holders.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let mut row: [String; 8] = Default::default();
        row[2] = format!("and {more} more");
        rows.push(row);
    }
    if let Some(first) = rows.first_mut() {
        first[0].clone_from(&lock.key);
        first[1].clone_from(&lock.mode);
        first[5] = waiting;
        first[6] = longest;
        first[7] = next.join(", ");
    }
    rows
}

pub fn sales(state: &State) -> Vec<[String; 8]> {
    let row = |sale: &Sale| {
        let numbers =
            [sale.total, sale.remaining, sale.held, sale.sold, sale.waiting, sale.orders].map(|n| n.to_string());
        let [total, remaining, held, sold, waiting, orders] = numbers;
        let rate = sale.rate.map(|rate| format!("{rate:.1}")).unwrap_or_default();
        [sale.key.clone(), total, remaining, held, sold, waiting, orders, rate]
    };
    state.sales.values().map(row).collect()
}

/// Both tables, for a file or a pipe.
pub fn text(state: &State) -> String {
    [(LOCKS, locks(state), "no locks"), (SALES, sales(state), "no sales")]
        .map(|(head, rows, none)| if rows.is_empty() { format!("{none}\n") } else { plain(head, rows) })
        .join("\n")
}

fn plain(head: [&str; 8], rows: Vec<[String; 8]>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head);
    for row in rows {
        let cells = head.iter().zip(row).map(|(name, word)| {
            let side = if RIGHT.contains(name) { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(word).set_alignment(side)
        });
        table.add_row(cells);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// A time as people read it.
fn time(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..10 => format!("{seconds}.{}s", ms.max(0) % 1000 / 100),
        10..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_short() {
        for (ms, text) in [(0, "0.0s"), (1250, "1.2s"), (59_000, "59s"), (125_000, "2m"), (36_000_000, "10h")] {
            assert_eq!(super::time(ms), text);
        }
    }
}
