//! Another module hears every event and answers it at once with a command: it renames, deletes, overwrites or flushes the very keys, or
//! asks for the lock or the sale itself. In every transition, at each of its events, and whatever it does: nobody holds together
//! with somebody else, every request has its one reply, what is held ends by itself, and replicas and files have what the server has.

mod appended;
mod emptied;
mod sales;
mod scene;
mod story;
mod swapped_in;

use harness::{INT, Want};

use scene::Scene;
use story::Act::{Call, HangUp, Lease};
use story::{Story, story};

/// What the listener does. `@` is the key of the event, `#` the number of the play.
const LOOKS: [&str; 3] = ["LOCK.INFO @", "LOCK.RELEASE @ nobody", "LOCK.EXTEND @ nobody PX 1"];
const TAKES_AND_FREES: [&str; 6] = [
    "LOCK.ACQUIRE @ TOKEN z PX 30",
    "LOCK.ACQUIRE k-# TOKEN z PX 30 SHARED",
    "LOCK.MACQUIRE 3 m-# l-# k-# TOKEN z PX 30",
    "LOCK.RELEASE @ a",
    "LOCK.MRELEASE w 3 k-# l-# m-#",
    "LOCK.EXTEND @ w PX 60",
];
const TAKES_KEYS_AWAY: [&str; 8] = [
    "DEL @",
    "UNLINK k-# l-# m-#",
    "RENAME @ o-#",
    "RENAME k-# o-#",
    "RENAME l-# k-#",
    "MOVE @ 1",
    "SET @ text",
    "EXPIRE @ -1",
];
fn granted() -> Want {
    ("a", INT, 300).into()
}

fn one() -> Want {
    1.into()
}

fn three() -> Want {
    3.into()
}

/// What is held until the act, however long a busy machine takes to it, and what ends soon by itself.
const HELD: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a PX 5000"];
const SOON: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a PX 1500"];
const TWO: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w PX 30 WAIT 0", "LOCK.ACQUIRE k-# TOKEN x PX 30 WAIT 0"];
const READERS: &[&str] = &[
    "LOCK.ACQUIRE k-# TOKEN w PX 30 SHARED WAIT 0",
    "LOCK.ACQUIRE k-# TOKEN x PX 30 SHARED WAIT 0",
    "LOCK.ACQUIRE k-# TOKEN y PX 30 WAIT 0",
];
const SEVERAL: &[&str] = &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN w PX 30 WAIT 0", "LOCK.ACQUIRE l-# TOKEN x PX 30 WAIT 0"];

const LOCKS: [Story; 18] = [
    story("acquire", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a PX 300", granted)),
    story("renew", HELD, &[], Call("LOCK.ACQUIRE k-# TOKEN a PX 300", granted)),
    story("extend", HELD, TWO, Call("LOCK.EXTEND k-# a PX 300", one)),
    story("release", HELD, &[], Call("LOCK.RELEASE k-# a", one)),
    story("hand over", HELD, TWO, Call("LOCK.RELEASE k-# a", one)),
    story(
        "hand over in a transaction",
        HELD,
        TWO,
        Call("EVAL return(redis.call('LOCK.RELEASE',KEYS[1],'a')) 1 k-#", one),
    ),
    story("hand over to readers", HELD, READERS, Call("LOCK.RELEASE k-# a", one)),
    story("hand over to a request for several", HELD, SEVERAL, Call("LOCK.RELEASE k-# a", one)),
    story("downgrade", HELD, READERS, Call("LOCK.ACQUIRE k-# TOKEN a PX 300 SHARED", granted)),
    story(
        "the last other reader leaves an upgrade",
        &["LOCK.ACQUIRE k-# TOKEN a PX 5000 SHARED", "LOCK.ACQUIRE k-# TOKEN w PX 5000 SHARED"],
        &["LOCK.ACQUIRE k-# TOKEN w PX 30 WAIT 0"],
        Call("LOCK.RELEASE k-# a", one),
    ),
    story("take several", &[], &[], Call("LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a PX 300", granted)),
    story(
        "release several",
        &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a PX 5000"],
        &["LOCK.ACQUIRE k-# TOKEN w PX 30 WAIT 0", "LOCK.ACQUIRE m-# TOKEN x PX 30 WAIT 0"],
        Call("LOCK.MRELEASE a 3 k-# l-# m-#", three),
    ),
    story("a lease ends", SOON, TWO, Lease),
    story("leases of several end", &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a PX 1500"], SEVERAL, Lease),
    story("a session ends", &["LOCK.ACQUIRE k-# TOKEN a PX 5000 SESSION"], TWO, HangUp),
    story(
        "a session with several ends",
        &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a PX 5000 SESSION"],
        &["LOCK.ACQUIRE k-# TOKEN w PX 30 WAIT 0", "LOCK.ACQUIRE m-# TOKEN x PX 30 WAIT 0"],
        HangUp,
    ),
    story("deleted", HELD, TWO, Call("DEL k-#", one)),
    story("expired", HELD, TWO, Call("PEXPIRE k-# 20", one)),
];

/// Those that make a key.
const NEW: [Story; 3] = [
    story("acquire", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a PX 300", granted)),
    story("take several", &[], &[], Call("LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a PX 300", granted)),
    story("deleted", HELD, TWO, Call("DEL k-#", one)),
];

#[test]
fn locks_that_it_looks_at() {
    Scene::set("MODULE").play_quietly(&LOCKS, &LOOKS);
}

#[test]
fn locks_that_it_saves_and_loads() {
    Scene::set("MODULE").play(&LOCKS, &["LISTENER.TWIN @ o-#"]);
}

#[test]
fn locks_that_it_takes_and_frees() {
    Scene::set("MODULE").play(&LOCKS, &TAKES_AND_FREES);
}

#[test]
fn locks_whose_keys_it_takes_away() {
    Scene::set("MODULE").play(&LOCKS, &TAKES_KEYS_AWAY);
}

#[test]
fn locks_while_it_flushes_everything() {
    Scene::set("MODULE").play_singly(&LOCKS, &["FLUSHALL"]);
}

#[test]
fn locks_while_it_swaps_databases() {
    Scene::set("MODULE").play_singly(&LOCKS, &["SWAPDB 0 1"]);
}

#[test]
fn locks_whose_keys_are_being_made() {
    Scene::set("NEW").play(&NEW, &[&LOOKS[..], &["LOCK.ACQUIRE o-# TOKEN z PX 30", "SET o-# text"]].concat());
}
