//! Locks without a competitor, and a lock that another client holds.

use std::cell::RefCell;
use std::rc::Rc;

use super::{COMPARE_AND_DELETE, LEASE, redisson, token};
use crate::contest::Way;
use crate::crowd::Desk;
use crate::pump::{At, CONNECTIONS, Script, way};
use crate::stand::{Side, Stand};
use crate::wire::Reply;

/// So many locks, of which every connection uses its own share.
const KEYS: u64 = 2_000 * CONNECTIONS as u64;

fn key(at: At) -> String {
    format!("lock:{:08}", at.serial() % KEYS)
}

/// What a script on the server is called by, known once it was loaded there.
pub type Sha = Rc<RefCell<String>>;

/// Loads a script before each turn.
pub fn loading(lua: &'static str) -> (Sha, impl Fn(&mut Stand)) {
    let sha = Sha::default();
    let kept = Rc::clone(&sha);
    (sha, move |stand: &mut Stand| *kept.borrow_mut() = stand.script(lua))
}

fn acquire(at: At, key: &str, desk: &mut Desk<'_>) {
    desk.send(0, &[b"LOCK.ACQUIRE", key.as_bytes(), b"TOKEN", token(at.connection).as_bytes(), b"PX", LEASE]);
}

fn set(at: At, key: &str, desk: &mut Desk<'_>) {
    desk.send(0, &[b"SET", key.as_bytes(), token(at.connection).as_bytes(), b"NX", b"PX", LEASE]);
}

/// Takes locks that no token holds, each of them once.
pub fn taking(depth: usize) -> [Way; 2] {
    let fresh = |at: At| format!("lock:{:08}", at.serial());
    let ours =
        Script::new(1, move |at, desk| acquire(at, &fresh(at), desk), |_, reply| reply.is_array().then_some("granted"));
    let theirs =
        Script::new(1, move |at, desk| set(at, &fresh(at), desk), |_, reply| reply.is_ok().then_some("granted"));
    [way("LOCK.ACQUIRE", Side::Ours, depth, &ours), way("SET NX PX", Side::Plain, depth, &theirs)]
}

/// Asks for a lock that another client holds.
pub fn refused(depth: usize) -> Vec<Way> {
    let refusal = |_: At, reply: Reply<'_>| reply.is_null().then_some("refused");
    let ours = Script::new(1, |at, desk| acquire(at, "held", desk), refusal);
    let theirs = Script::new(1, |at, desk| set(at, "held", desk), refusal);
    vec![
        way("LOCK.ACQUIRE", Side::Ours, depth, &ours).prepared(|stand| {
            stand.cmd("LOCK.ACQUIRE held TOKEN another PX 600000");
        }),
        way("SET NX PX", Side::Plain, depth, &theirs).prepared(|stand| {
            stand.cmd("SET held another NX PX 600000");
        }),
    ]
}

/// Takes and gives back.
fn cycle(take: fn(At, &str, &mut Desk<'_>), give: impl Fn(&str, &str, &mut Desk<'_>) + 'static) -> Rc<Script> {
    let say = move |at: At, desk: &mut Desk<'_>| {
        if at.step == 0 { take(at, &key(at), desk) } else { give(&key(at), &token(at.connection), desk) }
    };
    Script::new(2, say, |at, reply| match at.step {
        0 => (reply.is_array() || reply.is_ok()).then_some("granted"),
        _ => (reply.int() == Some(1)).then_some("released"),
    })
}

/// Takes and gives back locks that no other client wants.
pub fn cycles(depth: usize, native: Option<&'static [&'static str]>) -> Vec<Way> {
    let ours = cycle(acquire, |key, token, desk| desk.send(0, &[b"LOCK.RELEASE", key.as_bytes(), token.as_bytes()]));
    let (sha, load) = loading(COMPARE_AND_DELETE);
    let scripted = cycle(set, move |key, token, desk| {
        desk.send(0, &[b"EVALSHA", sha.borrow().as_bytes(), b"1", key.as_bytes(), token.as_bytes()]);
    });
    let mut ways = vec![
        way("LOCK.ACQUIRE, LOCK.RELEASE", Side::Ours, depth, &ours),
        way("SET NX PX, EVALSHA", Side::Plain, depth, &scripted).prepared(load),
    ];
    if let Some(words) = native {
        let script = cycle(set, move |key, token, desk| {
            let mut sent: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            sent.insert(1, key.as_bytes());
            sent.push(token.as_bytes());
            desk.send(0, &sent);
        });
        ways.push(way(&format!("SET NX PX, {}", words.join(" ")), Side::Plain, depth, &script));
    }
    ways.push(redisson::cycle(depth, key));
    ways
}
