//! A value that is written while a lock is held.

use std::rc::Rc;

use super::{LEASE, lock, token};
use crate::contest::Way;
use crate::pump::{At, CONNECTIONS, Script, way};
use crate::stand::{Side, Stand};
use crate::wire::Reply;

/// So few values that all of them are there after the warm-up.
const KEYS: u64 = 20 * CONNECTIONS as u64;
const VALUE: &[u8] = b"thirty-two bytes of some content";
/// As long as the fences of these years.
const FENCE: &str = "1795361817032432";

/// Writes unless a larger fence was seen.
const COMPARE_AND_SET: &str = "local seen = redis.call('GET', KEYS[1]) \
                               if seen and tonumber(seen) > tonumber(ARGV[1]) then \
                                 return 0 \
                               end \
                               redis.call('SET', KEYS[2], ARGV[2]) \
                               return 1";

fn key(at: At) -> String {
    format!("value:{:08}", at.serial() % KEYS)
}

/// A `SET`, alone or as the command of a guard with this name.
fn set(guard: Option<&'static str>) -> Rc<Script> {
    let holder = token(0);
    let before: Vec<String> = guard.map_or(vec![], |guard| vec![guard.into(), "held".into(), holder]);
    Script::new(
        1,
        move |at, desk| {
            let key = key(at);
            let before = before.iter().map(String::as_bytes);
            let words: Vec<&[u8]> = before.chain([b"SET", key.as_bytes(), VALUE]).collect();
            desk.send(0, &words);
        },
        |_, reply| reply.is_ok().then_some("written"),
    )
}

/// Takes the lock with a module's command.
fn take(stand: &mut Stand, command: &str) {
    stand.cmd(format!("{command} held TOKEN {} PX {}", token(0), String::from_utf8_lossy(LEASE)));
}

/// `LOCK.GUARD`, and what is used without it. `conditional`: this server's `EXEC` takes conditions.
pub fn writes(depth: usize, conditional: bool) -> Vec<Way> {
    let (sha, load) = lock::loading(COMPARE_AND_SET);
    let scripted = Script::new(
        1,
        move |at, desk| {
            let key = key(at);
            desk.send(
                0,
                &[b"EVALSHA", sha.borrow().as_bytes(), b"2", b"fence", key.as_bytes(), FENCE.as_bytes(), VALUE],
            );
        },
        |_, reply| (reply.int() == Some(1)).then_some("written"),
    );
    let mut ways = vec![
        way("LOCK.GUARD, SET", Side::Ours, depth, &set(Some("LOCK.GUARD")))
            .prepared(|stand| take(stand, "LOCK.ACQUIRE")),
        way("script: GET, SET", Side::Plain, depth, &scripted).prepared(move |stand| {
            load(stand);
            stand.cmd(format!("SET fence {FENCE}"));
        }),
        way("SET", Side::Plain, depth, &set(None)),
    ];
    if conditional {
        ways.push(transaction(depth));
    }
    ways
}

/// A transaction that is carried out if a string, the lock, has its owner's token.
fn transaction(depth: usize) -> Way {
    let script = Script::new(
        3,
        |at, desk| match at.step {
            0 => desk.send(0, &[b"MULTI"]),
            1 => desk.send(0, &[b"SET", key(at).as_bytes(), VALUE]),
            _ => desk.send(0, &[b"EXEC", b"IFEQ", b"held", token(0).as_bytes()]),
        },
        |at, reply| match at.step {
            0 | 1 => reply.text().map(|_| "queued"),
            _ => reply.item(0).is_some_and(Reply::is_ok).then_some("written"),
        },
    );
    way("MULTI, SET, EXEC IFEQ", Side::Plain, depth * 3, &script).prepared(|stand| {
        stand.cmd(format!("SET held {}", token(0)));
    })
}

/// What the server takes from any module that runs a command for its client.
pub fn floor(depth: usize) -> Way {
    way("an empty command of a module that calls SET", Side::Floor, depth, &set(Some("FLOOR.GUARD")))
        .prepared(|stand| take(stand, "FLOOR.ACQUIRE"))
}
