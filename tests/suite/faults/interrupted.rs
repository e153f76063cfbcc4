//! A panic in the middle: every transition of locks and sales is cut short before its first step towards the world, before its second,
//! its third … until it has no more. Afterwards nobody is stuck, the books are right, and a replica has what the primary has.
//!
//! Needs a debug build of the module: `make test-panics` builds it and runs these.

mod scene;

use scene::Scene;

/// One transition. `#` is the number of the play: each has keys of its own.
struct Play {
    name: &'static str,
    /// What the acting client has done before.
    before: &'static [&'static str],
    /// The waiters, each on a connection of its own.
    waiting: &'static [&'static str],
    act: Act,
    /// The entry from the server that is cut short.
    doing: &'static str,
}

/// What makes the transition happen.
enum Act {
    /// This call.
    Call(&'static str),
    /// This call, before the timer comes to what the ones before it leave to it. `@` in one of those: a hundred and thirty times.
    Before(&'static [&'static str], &'static str),
    /// The connection of the acting client ends.
    HangUp,
    /// The lease of `a` ends.
    Lease,
    /// The wait of the first waiter ends.
    Wait,
    /// Holds lapse; the sale has seen so many changes then.
    Holds(i64),
}

use Act::{Before, Call, HangUp, Holds, Lease, Wait};

const COMMAND: &str = "a command";
const TIMER: &str = "deferred work";

const fn play(
    name: &'static str,
    before: &'static [&'static str],
    waiting: &'static [&'static str],
    act: Act,
    doing: &'static str,
) -> Play {
    Play { name, before, waiting, act, doing }
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn locks_of_one_key() {
    Scene::set().play_all(&[
        play("acquire", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 3600"), COMMAND),
        play("acquire with a session", &[], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 3600 SESSION"), COMMAND),
        play("refused", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.ACQUIRE k-# TOKEN b"), COMMAND),
        play("renew", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.ACQUIRE k-# TOKEN a EX 7200"), COMMAND),
        play("extend", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.EXTEND k-# a EX 7200"), COMMAND),
        play("release", &["LOCK.ACQUIRE k-# TOKEN a EX 3600"], &[], Call("LOCK.RELEASE k-# a"), COMMAND),
        play(
            "a reader leaves",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED", "LOCK.ACQUIRE k-# TOKEN b EX 3600 SHARED"],
            &[],
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "upgrade",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED"],
            &[],
            Call("LOCK.ACQUIRE k-# TOKEN a EX 3600"),
            COMMAND,
        ),
        play("several", &[], &[], Call("LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a EX 3600"), COMMAND),
        play(
            "several released",
            &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN a EX 3600"],
            &[],
            Call("LOCK.MRELEASE a 3 k-# l-# m-#"),
            COMMAND,
        ),
        play("an effect", &[], &[], Call("LOCK.APPLY k-# HELD a # 9000000000000"), COMMAND),
        play(
            "the effect of an end",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600"],
            &[],
            Call("LOCK.APPLY k-# ENDED a"),
            COMMAND,
        ),
    ]);
}

const HELD: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a EX 3600"];
const ONE: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0"];
const TWO: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE k-# TOKEN x EX 3600 WAIT 0"];

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn locks_that_others_wait_for() {
    const READERS: &[&str] = &[
        "LOCK.ACQUIRE k-# TOKEN w EX 3600 SHARED WAIT 0",
        "LOCK.ACQUIRE k-# TOKEN x EX 3600 SHARED WAIT 0",
        "LOCK.ACQUIRE k-# TOKEN y EX 3600 WAIT 0",
    ];
    Scene::set().play_all(&[
        play("wait", HELD, &[], Call("LOCK.ACQUIRE k-# TOKEN b EX 3600 WAIT 200"), COMMAND),
        play("a waiter asks again", HELD, ONE, Call("LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 200"), COMMAND),
        play("release", HELD, TWO, Call("LOCK.RELEASE k-# a"), COMMAND),
        play(
            "release in a script",
            HELD,
            TWO,
            Call("EVAL return(redis.pcall('LOCK.RELEASE',KEYS[1],'a')) 1 k-#"),
            COMMAND,
        ),
        play("release to readers", HELD, READERS, Call("LOCK.RELEASE k-# a"), COMMAND),
        play("downgrade", HELD, READERS, Call("LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED"), COMMAND),
        play(
            "the last other reader leaves an upgrade",
            &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SHARED", "LOCK.ACQUIRE k-# TOKEN w EX 3600 SHARED"],
            ONE,
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "a request for several gets its last key",
            HELD,
            &["LOCK.MACQUIRE 3 k-# l-# m-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE l-# TOKEN x EX 3600 WAIT 0"],
            Call("LOCK.RELEASE k-# a"),
            COMMAND,
        ),
        play(
            "several released to several",
            &["LOCK.MACQUIRE 2 k-# l-# TOKEN a EX 3600"],
            &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 0", "LOCK.ACQUIRE l-# TOKEN x EX 3600 WAIT 0"],
            Call("LOCK.MRELEASE a 2 k-# l-#"),
            COMMAND,
        ),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn locks_that_end_by_themselves_or_vanish() {
    const SHORT: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a PX 100"];
    const SESSION: &[&str] = &["LOCK.ACQUIRE k-# TOKEN a EX 3600 SESSION"];
    Scene::set().play_all(&[
        play("lapse", SHORT, &[], Lease, TIMER),
        play("lapse and hand-over", SHORT, TWO, Lease, TIMER),
        play(
            "met before the timer comes",
            HELD,
            TWO,
            Before(&["LOCK.EXTEND k-# a PX 10"], "LOCK.ACQUIRE k-# TOKEN c EX 3600"),
            COMMAND,
        ),
        play("session", SESSION, &[], HangUp, TIMER),
        play("session and hand-over", SESSION, TWO, HangUp, TIMER),
        play("session, as it is heard of", SESSION, ONE, HangUp, "an event"),
        play("DEL", HELD, TWO, Call("DEL k-#"), TIMER),
        play("DEL, as it is heard of", HELD, TWO, Call("DEL k-#"), "letting go of a value"),
        play("overwritten", HELD, TWO, Call("SET k-# text"), TIMER),
        play("RENAME", HELD, ONE, Call("RENAME k-# l-#"), TIMER),
        play("RENAME, as it is heard of", HELD, ONE, Call("RENAME k-# l-#"), "letting go of a value"),
        play("FLUSHALL", HELD, TWO, Call("FLUSHALL"), TIMER),
        play("FLUSHALL, as it is heard of", HELD, TWO, Call("FLUSHALL"), "an event"),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn waiters_that_are_answered_or_leave() {
    const BRIEF: &[&str] = &["LOCK.ACQUIRE k-# TOKEN w EX 3600 WAIT 100", "LOCK.ACQUIRE k-# TOKEN x EX 3600 WAIT 0"];
    Scene::set().play_all(&[
        play("answered", HELD, TWO, Call("LOCK.RELEASE k-# a"), "an answer to a parked client"),
        play("answered, and done with", HELD, TWO, Call("LOCK.RELEASE k-# a"), "the end of a parked client"),
        play("its time is over", HELD, BRIEF, Wait, "an answer to a parked client"),
        play("its time is over, and done with", HELD, BRIEF, Wait, "the end of a parked client"),
    ]);
}

const SALE: &str = "STOCK.CREATE s-# 10 REBUY";
const TOLD: &str = "STOCK.CREATE s-# 10 REBUY STREAM e-# DEADLINES";

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn sales() {
    Scene::set().play_all(&[
        play("create", &[], &[], Call("STOCK.CREATE s-# 10 LIMIT 5"), COMMAND),
        play("order", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play("hold", &[SALE], &[], Call("STOCK.DECR_ONCE s-# a QTY 2 BUYER b HOLD 3600000 REF r"), COMMAND),
        play("again", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play("confirm", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("STOCK.CONFIRM s-# a"), COMMAND),
        play("cancel", &[SALE, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play("adjust", &[SALE], &[], Call("STOCK.ADJUST s-# 5"), COMMAND),
        play("adjust once", &[SALE], &[], Call("STOCK.ADJUST s-# 5 ID truck"), COMMAND),
        play("alter", &[SALE], &[], Call("STOCK.ALTER s-# LIMIT 5"), COMMAND),
        play(
            "extend",
            &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"],
            &[],
            Call("STOCK.EXTEND s-# a PX 7200000"),
            COMMAND,
        ),
        play("confirm late", &[SALE], &[], Before(&["STOCK.DECR_ONCE s-# a HOLD 10"], "STOCK.CONFIRM s-# a"), COMMAND),
        play(
            "confirm too late",
            &[SALE],
            &[],
            Before(&["STOCK.DECR_ONCE s-# a QTY 2 HOLD 10", "STOCK.ALTER s-# LIMIT 1"], "STOCK.CONFIRM s-# a"),
            COMMAND,
        ),
        play(
            "order due units",
            &[SALE],
            &[],
            Before(&["STOCK.DECR_ONCE s-# b QTY 10 HOLD 10"], "STOCK.DECR_ONCE s-# a"),
            COMMAND,
        ),
        play(
            "lapse",
            &[SALE, "STOCK.DECR_ONCE s-# a HOLD 100", "STOCK.DECR_ONCE s-# b HOLD 100"],
            &[],
            Holds(4),
            TIMER,
        ),
        play("RENAME", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("RENAME s-# s-#-new"), TIMER),
        play("UNLINK", &[SALE, "STOCK.DECR_ONCE s-# a HOLD 100"], &[], Call("UNLINK s-#"), "letting go of a value"),
        play("an effect", &[SALE], &[], Call("STOCK.APPLY s-# TAKEN a 2 9000000000000 b r"), COMMAND),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn sales_with_a_stream() {
    Scene::set().play_all(&[
        play("order", &[TOLD], &[], Call("STOCK.DECR_ONCE s-# a"), COMMAND),
        play(
            "order in a script",
            &[TOLD],
            &[],
            Call("EVAL return(redis.pcall('STOCK.DECR_ONCE',KEYS[1],'a')) 1 s-#"),
            COMMAND,
        ),
        play("hold", &[TOLD], &[], Call("STOCK.DECR_ONCE s-# a QTY 2 BUYER b HOLD 3600000 REF r"), COMMAND),
        play("confirm", &[TOLD, "STOCK.DECR_ONCE s-# a HOLD 3600000"], &[], Call("STOCK.CONFIRM s-# a"), COMMAND),
        play("cancel", &[TOLD, "STOCK.DECR_ONCE s-# a"], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play(
            "extend",
            &[TOLD, "STOCK.DECR_ONCE s-# a HOLD 3600000"],
            &[],
            Call("STOCK.EXTEND s-# a PX 7200000"),
            COMMAND,
        ),
        play("adjust", &[TOLD], &[], Call("STOCK.ADJUST s-# 5"), COMMAND),
        play("confirm late", &[TOLD], &[], Before(&["STOCK.DECR_ONCE s-# a HOLD 10"], "STOCK.CONFIRM s-# a"), COMMAND),
        play(
            "confirm too late",
            &[TOLD],
            &[],
            Before(&["STOCK.DECR_ONCE s-# a QTY 2 HOLD 10", "STOCK.ALTER s-# LIMIT 1"], "STOCK.CONFIRM s-# a"),
            COMMAND,
        ),
        play(
            "order due units",
            &[TOLD],
            &[],
            Before(&["STOCK.DECR_ONCE s-# b QTY 10 HOLD 10"], "STOCK.DECR_ONCE s-# a"),
            COMMAND,
        ),
        play(
            "lapse",
            &[TOLD, "STOCK.DECR_ONCE s-# a HOLD 100", "STOCK.DECR_ONCE s-# b HOLD 100"],
            &[],
            Holds(4),
            TIMER,
        ),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn sales_with_a_waitlist() {
    const ALL: &str = "STOCK.DECR_ONCE s-# a QTY 10";
    const B: &str = "STOCK.DECR_ONCE s-# b QTY 3 HOLD 3600000 WAITLIST";
    const C: &str = "STOCK.DECR_ONCE s-# c QTY 4 WAITLIST";
    Scene::set().play_all(&[
        play("wait", &[TOLD, ALL], &[], Call(B), COMMAND),
        play("cancel", &[SALE, ALL, B, C], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play("cancel with a stream", &[TOLD, ALL, B, C], &[], Call("STOCK.CANCEL s-# a"), COMMAND),
        play(
            "leave the line",
            &[TOLD, "STOCK.DECR_ONCE s-# a QTY 4", "STOCK.DECR_ONCE s-# d QTY 7 WAITLIST", B],
            &[],
            Call("STOCK.CANCEL s-# d"),
            COMMAND,
        ),
        play("restock", &[TOLD, ALL, B, C], &[], Call("STOCK.ADJUST s-# 9"), COMMAND),
        play(
            "the window opens",
            &[TOLD, ALL, B, C, "STOCK.ALTER s-# END 5", "STOCK.ADJUST s-# 9"],
            &[],
            Call("STOCK.ALTER s-# END 0"),
            COMMAND,
        ),
        play(
            "confirm too late",
            &[TOLD],
            &[],
            Before(&["STOCK.DECR_ONCE s-# a QTY 10 HOLD 10", B], "STOCK.CONFIRM s-# a"),
            COMMAND,
        ),
        play("lapse", &[TOLD, "STOCK.DECR_ONCE s-# a QTY 10 HOLD 100", B, C], &[], Holds(6), TIMER),
        play("the effect of joining", &[SALE, ALL], &[], Call("STOCK.APPLY s-# WAITING b 3 60000"), COMMAND),
        play(
            "the effect of being served",
            &[SALE, ALL, B, "STOCK.ALTER s-# END 5", "STOCK.ADJUST s-# 9"],
            &[],
            Call("STOCK.APPLY s-# SERVED b 9000000000000"),
            COMMAND,
        ),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn requests_to_several_sales() {
    const OTHER: &str = "STOCK.CREATE t-# 10 REBUY STREAM f-#";
    const BOTH: &str = "STOCK.MDECR_ONCE a 2 s-# 1 t-# 2 HOLD 3600000";
    Scene::set().play_all(&[
        play("take", &[TOLD, OTHER], &[], Call("STOCK.MDECR_ONCE a 2 s-# 1 t-# 2 BUYER b REF r"), COMMAND),
        play("take without a stream", &[SALE, OTHER], &[], Call(BOTH), COMMAND),
        play("refused", &[TOLD, OTHER], &[], Call("STOCK.MDECR_ONCE a 2 s-# 1 t-# 11"), COMMAND),
        play("confirm", &[TOLD, OTHER, BOTH], &[], Call("STOCK.MCONFIRM a 2 t-# s-#"), COMMAND),
        play("cancel", &[TOLD, OTHER, BOTH], &[], Call("STOCK.MCANCEL a 2 t-# s-#"), COMMAND),
        play(
            "take due units",
            &[TOLD, OTHER],
            &[],
            Before(&["STOCK.MDECR_ONCE b 2 s-# 10 t-# 10 HOLD 10"], "STOCK.MDECR_ONCE a 2 s-# 2 t-# 2"),
            COMMAND,
        ),
        play(
            "confirm too late",
            &[TOLD, OTHER],
            &[],
            Before(
                &["STOCK.MDECR_ONCE a 2 s-# 2 t-# 2 HOLD 10", "STOCK.ALTER t-# LIMIT 1"],
                "STOCK.MCONFIRM a 2 s-# t-#",
            ),
            COMMAND,
        ),
    ]);
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn sales_whose_due_holds_are_too_many_for_one_command() {
    Scene::set().play_all(&[
        play(
            "cutoff",
            &["STOCK.CREATE s-# 130"],
            &[],
            Before(&["STOCK.DECR_ONCE s-# h-@ HOLD 10"], "STOCK.DECR_ONCE s-# a QTY 129"),
            COMMAND,
        ),
        play(
            "cutoff with a stream",
            &["STOCK.CREATE s-# 130 STREAM e-#"],
            &[],
            Before(&["STOCK.DECR_ONCE s-# h-@ HOLD 10"], "STOCK.DECR_ONCE s-# a QTY 129"),
            COMMAND,
        ),
    ]);
}
