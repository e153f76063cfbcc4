//! What the server takes from any module for the same words, key, effect and reply: the commands of `floor.c`.

use super::{LEASE, token};
use crate::contest::Way;
use crate::pump::{At, Script, way};
use crate::stand::Side;

/// The name of a way without its number of fields.
const NAME: &str = "an empty command of a module";

fn key(at: At) -> String {
    format!("lock:{:08}", at.serial())
}

fn asking(word: &'static [u8], depth: usize) -> Way {
    let script = Script::new(
        1,
        move |at, desk| {
            desk.send(0, &[word, key(at).as_bytes(), b"TOKEN", token(at.connection).as_bytes(), b"PX", LEASE]);
        },
        |_, reply| (reply.is_array() || reply.is_null()).then_some("done"),
    );
    way(NAME, Side::Floor, depth, &script)
}

/// As a lock is granted.
pub fn granted(depth: usize) -> Way {
    asking(b"FLOOR.ACQUIRE", depth)
}

/// As a lock is refused.
pub fn refused(depth: usize) -> Way {
    asking(b"FLOOR.REFUSE", depth)
}

/// As a lock is granted and given back.
pub fn cycle(depth: usize) -> Way {
    let script = Script::new(
        2,
        |at, desk| {
            let (key, token) = (key(at), token(at.connection));
            let (key, token) = (key.as_bytes(), token.as_bytes());
            if at.step == 0 {
                desk.send(0, &[b"FLOOR.ACQUIRE", key, b"TOKEN", token, b"PX", LEASE]);
            } else {
                desk.send(0, &[b"FLOOR.RELEASE", key, token]);
            }
        },
        |_, reply| (reply.is_array() || reply.int() == Some(1)).then_some("done"),
    );
    way(NAME, Side::Floor, depth, &script)
}

/// As any buyer takes an order, or is refused.
pub fn order(word: &'static [u8], depth: usize, buyer: fn(At) -> String) -> Way {
    let script = Script::new(
        1,
        move |at, desk| desk.send(0, &[word, b"sale", buyer(at).as_bytes()]),
        |_, reply| reply.is_array().then_some("done"),
    );
    way(NAME, Side::Floor, depth, &script)
}
