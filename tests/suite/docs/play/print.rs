//! Replies as `redis-cli` shows them to a person.

use std::process::Command;

use harness::{ANY, OK, Reply, Server};

use super::standin::StandIns;

/// The lines that `redis-cli -3 --no-raw` prints for a reply, without blanks at their ends.
pub fn print(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Simple(text) => vec![text.clone()],
        Reply::Error(text) => vec![format!("(error) {text}")],
        Reply::Int(number) => vec![format!("(integer) {number}")],
        Reply::Bulk(bytes) => vec![format!("\"{}\"", bytes.escape_ascii())],
        Reply::Nil(_) => vec!["(nil)".into()],
        Reply::Array(items) if items.is_empty() => vec!["(empty array)".into()],
        Reply::Array(items) => numbered(items, ")", print),
        Reply::Map(pairs) => numbered(pairs, "#", |(field, value)| {
            let (mut lines, mut rows) = (print(field), print(value));
            let nested = matches!(value, Reply::Array(items) if !items.is_empty());
            // Rows begin below the field, anything else goes on behind it.
            let behind = if nested { String::new() } else { format!(" {}", rows.remove(0)) };
            lines[0] = format!("{} =>{behind}", lines[0]);
            lines.into_iter().chain(rows).collect()
        }),
        Reply::Push(items) if items.first().is_some_and(|kind| kind.text() == "invalidate") => {
            let keys: Vec<String> = items[1].items().iter().map(|key| format!("'{}'", key.text())).collect();
            vec![format!("-> invalidate: {}", keys.join(", "))]
        }
        other => panic!("a reply that lockstock does not give: {other:?}"),
    }
}

/// Numbers items, and indents all rows of an item but its first.
fn numbered<T>(items: &[T], sign: &str, print: impl Fn(&T) -> Vec<String>) -> Vec<String> {
    let width = items.len().to_string().len();
    let mut rows = vec![];
    for (index, item) in items.iter().enumerate() {
        let mut label = format!("{:>width$}{sign} ", index + 1);
        for line in print(item) {
            rows.push(format!("{label}{line}"));
            label = " ".repeat(label.len());
        }
    }
    rows
}

#[test]
fn replies_look_as_redis_cli_prints_them() {
    let server = Server::start();
    let mut client = server.client();
    client.hello3();
    for token in ["ann", "bob"] {
        server.expect(["LOCK.ACQUIRE", "held", "TOKEN", token, "SHARED"], ANY);
    }
    server.expect("STOCK.CREATE sale 20", OK);
    for id in 10..20 {
        server.expect(format!("STOCK.DECR_ONCE sale {id} REF web-{id}"), ANY);
    }
    for call in [
        "PING",
        "LOCK.ACQUIRE",
        "LOCK.RELEASE lock nobody",
        "LOCK.INFO lock",
        "LOCK.INFO held",
        "STOCK.ORDERS sale 0 COUNT 50",
        "STOCK.ORDERS none 0",
        "STOCK.INFO sale",
        "ECHO a\\b",
    ] {
        let mut command = Command::new("redis-cli");
        command.args(["-3", "-p", &server.port().to_string(), "--no-raw"]).args(call.split(' '));
        let output = command.output().expect("redis-cli runs");
        let shown = String::from_utf8(output.stdout).expect("text");
        let shown: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
        let came = print(&client.cmd(call));
        assert!(StandIns::default().fit(&shown, &came), "{call}\nredis-cli: {shown:#?}\nprint: {came:#?}");
    }
}
