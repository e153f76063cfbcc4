//! Commands of the server itself.

use crate::contest::Way;
use crate::crowd::Desk;
use crate::pump::{At, CONNECTIONS, Script, way};
use crate::stand::Side;

/// So many keys, all of them there before a turn.
const KEYS: u64 = 2_000 * CONNECTIONS as u64;

const FILL: &str = "for n = 0, ARGV[1] - 1 do redis.call('SET', string.format('key:%08d', n), 'value') end";

pub struct Command {
    pub name: &'static str,
    say: fn(&[u8], &mut Desk<'_>),
}

pub const COMMANDS: [Command; 5] = [
    Command { name: "GET", say: |key, desk| desk.send(0, &[b"GET", key]) },
    Command { name: "SET", say: |key, desk| desk.send(0, &[b"SET", key, b"value"]) },
    Command { name: "SET PX", say: |key, desk| desk.send(0, &[b"SET", key, b"value", b"PX", b"600000"]) },
    Command { name: "EXPIRE", say: |key, desk| desk.send(0, &[b"EXPIRE", key, b"600"]) },
    Command { name: "DEL", say: |key, desk| desk.send(0, &[b"DEL", key]) },
];

pub fn way_of(command: &Command, side: Side, depth: usize) -> Way {
    let say = command.say;
    let script = Script::new(
        1,
        move |at: At, desk| say(format!("key:{:08}", at.serial() % KEYS).as_bytes(), desk),
        |_, _| Some("done"),
    );
    way(command.name, side, depth, &script).prepared(|stand| {
        stand.cmd(["EVAL", FILL, "0", &KEYS.to_string()]);
    })
}
