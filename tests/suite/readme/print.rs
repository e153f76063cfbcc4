//! Replies as `redis-cli` shows them to a person.

use std::process::Command;

use crate::harness::{Reply, Server};

/// The lines that `redis-cli --no-raw` prints for a reply of RESP2.
pub fn print(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Simple(text) => vec![text.clone()],
        Reply::Error(text) => vec![format!("(error) {text}")],
        Reply::Int(number) => vec![format!("(integer) {number}")],
        Reply::Bulk(bytes) => vec![format!("\"{}\"", bytes.escape_ascii())],
        Reply::Nil(_) => vec!["(nil)".into()],
        Reply::Array(items) if items.is_empty() => vec!["(empty array)".into()],
        Reply::Array(items) => {
            let width = items.len().to_string().len();
            let rows = items.iter().enumerate().flat_map(|(index, item)| {
                let label = format!("{:>width$}) ", index + 1);
                let indent = " ".repeat(label.len());
                let lines = print(item).into_iter().enumerate();
                lines.map(move |(row, line)| format!("{}{line}", if row == 0 { &label } else { &indent }))
            });
            rows.collect()
        }
        other => panic!("no reply of RESP2: {other:?}"),
    }
}

#[test]
fn replies_look_as_redis_cli_prints_them() {
    let server = Server::start();
    server.expect("STOCK.CREATE sale 20", crate::harness::OK);
    for id in 10..20 {
        server.expect(format!("STOCK.DECR_ONCE sale {id} REF web-{id}"), crate::harness::ANY);
    }
    for call in [
        "PING",
        "LOCK.ACQUIRE",
        "LOCK.RELEASE lock nobody",
        "LOCK.INFO lock",
        "STOCK.ORDERS sale 0 COUNT 50",
        "STOCK.ORDERS none 0",
        "STOCK.INFO sale",
        "ECHO a\\b",
    ] {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &server.port().to_string(), "--no-raw"]).args(call.split(' '));
        let output = command.output().expect("redis-cli runs");
        let shown = String::from_utf8(output.stdout).expect("text");
        assert_eq!(print(&server.cmd(call)), shown.trim_end().lines().collect::<Vec<_>>(), "{call}");
    }
}
