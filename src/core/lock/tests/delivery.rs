//! Grants on their way to connections that end, and what is known of those.

use super::world::*;
use crate::core::lock::{Acquired, Front, Look, SendStamp, Unsent, WaiterId};
use crate::core::time::{Millis, Wakeup};

/// Something unsent behind what was written first.
const BEHIND: Look = Look::Unsent { unsent: unsent(0, 2, 200), another: false, stamp: None, is_late: false };
/// Something unsent, and nothing is known but that the client has asked for no more.
const STUCK: Look = Look::Unsent { unsent: unsent(10, 2, 200), another: false, stamp: None, is_late: false };
/// Something unsent, and the client has asked for more.
const GOING_ON: Look = Look::Unsent { unsent: unsent(10, 2, 200), another: true, stamp: None, is_late: false };
/// Nothing was unsent when the grant was about to be written.
const CLEAR: Front = Front::Clear(None);
/// This much was unsent already when the grant was about to be written.
const FULL: Front = Front::Unsent(unsent(10, 2, 200));

const fn unsent(first: u64, blocks: u64, bytes: u64) -> Unsent {
    Unsent { first, blocks, bytes, sent: None }
}

/// A lock that was handed to bob of connection 1, who has waited so long, with eve of connection 2 behind him.
fn handed_over(waited: i64) -> (Desk, WaiterId) {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.wait("door", 2, &ask("eve"));
    desk.pass(waited);
    assert!(desk.release("door", "ann"));
    desk.told();
    (desk, bob)
}

impl Desk {
    /// The reply with the grant of `waiter` is written behind `front`.
    fn writes(&mut self, waiter: WaiterId, front: Front) {
        self.engine.goes_behind(waiter, front);
        self.engine.written(waiter);
    }

    /// Connection 1 ends, and looks like this before.
    fn hangs_up(&mut self, look: Look) -> Vec<String> {
        self.engine.last_look(client(1), look);
        self.engine.client_gone(self.now.ms, client(1));
        let _ = self.tick();
        self.holders("door")
    }

    /// The looks that are due now, each of which shows `look`.
    fn look(&mut self, look: Look) -> usize {
        let mut taken = 0;
        while let Some((waiter, _)) = self.engine.take_look(self.now.ms) {
            self.engine.looked(self.now.ms, waiter, look);
            taken += 1;
        }
        taken
    }

    /// How long it is until the next look.
    fn until_look(&self) -> Option<Millis> {
        match self.engine.next_look() {
            Wakeup::At(due) => Some(due.left(self.now.ms)),
            Wakeup::Never => None,
            Wakeup::Now => panic!("a look has its time"),
        }
    }
}

#[test]
fn what_was_sent_is_kept_and_what_was_not_goes_on() {
    for (front, look, holder) in [
        (Front::Unknown, Look::Sent, "bob"),
        (Front::Unknown, Look::Unknown, "bob"),
        (Front::Unknown, STUCK, "eve"),
        (Front::Unknown, BEHIND, "eve"),
        (Front::Unknown, GOING_ON, "bob"),
        (CLEAR, Look::Sent, "bob"),
        (CLEAR, STUCK, "eve"),
        (CLEAR, BEHIND, "bob"),
        (CLEAR, GOING_ON, "bob"),
        (FULL, Look::Sent, "bob"),
        (FULL, Look::Unknown, "bob"),
        (FULL, STUCK, "eve"),
        (FULL, BEHIND, "eve"),
        (FULL, GOING_ON, "eve"),
    ] {
        let (mut desk, bob) = handed_over(10);
        desk.writes(bob, front);
        assert_eq!(desk.hangs_up(look), [holder], "{front:?} {look:?}");
    }
}

#[test]
fn a_client_with_the_same_mark_as_before_has_been_sent_nothing_whatever_it_has_asked_for() {
    let (then, other) = (Some(SendStamp(7)), Some(SendStamp(8)));
    for (front, stamp, holder) in [
        (Front::Clear(then), then, "eve"),
        (Front::Clear(then), other, "bob"),
        (Front::Clear(then), None, "bob"),
        (CLEAR, other, "bob"),
        (CLEAR, None, "bob"),
        (Front::Unknown, other, "bob"),
    ] {
        // By its last command, or by what it has asked of us.
        for (another, goes_on) in [(true, false), (false, true)] {
            let (mut desk, bob) = handed_over(10);
            desk.writes(bob, front);
            if goes_on {
                desk.acquire("gate", 1, &ask("other")).unwrap().granted();
            }
            desk.pass(1);
            let look = Look::Unsent { unsent: unsent(10, 2, 200), another, stamp, is_late: false };
            desk.look(look);
            assert_eq!(desk.hangs_up(look), [holder], "{front:?} {look:?}");
        }
        // What is not in the first buffer any more has been sent.
        let (mut desk, bob) = handed_over(10);
        desk.writes(bob, front);
        assert_eq!(
            desk.hangs_up(Look::Unsent { unsent: unsent(0, 2, 200), another: true, stamp, is_late: false }),
            ["bob"],
            "{front:?}"
        );
    }
}

#[test]
fn what_io_threads_may_have_sent_counts_as_sent_unless_it_was_unsent_before() {
    let late = Look::Unsent { unsent: unsent(10, 0, 0), another: false, stamp: None, is_late: true };
    let (mut desk, bob) = handed_over(10);
    desk.writes(bob, CLEAR);
    assert_eq!(desk.hangs_up(late), ["bob"]);
    let (mut desk, bob) = handed_over(10);
    desk.writes(bob, CLEAR);
    desk.pass(1);
    assert_eq!(desk.look(late), 1);
    assert_eq!(desk.hangs_up(late), ["eve"]);
}

#[test]
fn who_has_been_sent_anything_may_have_been_sent_the_grant_in_front_of_the_rest() {
    // What was unsent when the grant was written, at a look, and at the end.
    for (front, look, end, holder) in [
        // In the first buffer, with a large reply behind it, or more and more messages.
        (unsent(10, 0, 0), unsent(90, 3, 300), unsent(90, 3, 300), "eve"),
        (unsent(10, 0, 0), unsent(90, 3, 300), unsent(0, 3, 300), "bob"),
        (unsent(10, 0, 0), unsent(90, 0, 0), unsent(95, 0, 0), "eve"),
        (unsent(10, 0, 0), unsent(90, 0, 0), unsent(20, 0, 0), "bob"),
        // In the list.
        (unsent(0, 2, 200), unsent(0, 3, 300), unsent(0, 3, 300), "eve"),
        (unsent(0, 2, 200), unsent(0, 9, 900), unsent(0, 10, 910), "eve"),
        (unsent(0, 2, 200), unsent(0, 9, 900), unsent(0, 4, 910), "bob"),
        (unsent(0, 2, 200), unsent(0, 9, 900), unsent(0, 9, 850), "bob"),
        (unsent(0, 2, 200), unsent(0, 3, 300), unsent(5, 3, 300), "bob"),
        (unsent(50, 2, 200), unsent(0, 3, 300), unsent(0, 3, 300), "eve"),
    ] {
        let (mut desk, bob) = handed_over(10);
        desk.writes(bob, Front::Unsent(front));
        desk.pass(1);
        assert_eq!(desk.look(Look::Unsent { unsent: look, another: true, stamp: None, is_late: false }), 1);
        assert_eq!(
            desk.hangs_up(Look::Unsent { unsent: end, another: true, stamp: None, is_late: false }),
            [holder],
            "{front:?} {look:?} {end:?}"
        );
    }
}

#[test]
fn a_first_buffer_that_may_have_been_sent_long_ago_proves_nothing_once_anything_was_sent() {
    let unsent = |blocks, sent| Unsent { sent: Some(SendStamp(sent)), ..unsent(90, blocks, 0) };
    let look =
        |blocks, sent| Look::Unsent { unsent: unsent(blocks, sent), another: false, stamp: None, is_late: false };
    // Before the first look nothing is known of what was sent since.
    for front in [Front::Unknown, Front::Unsent(unsent(0, 400)), Front::Unsent(unsent(2, 400))] {
        let (mut desk, bob) = handed_over(10);
        desk.writes(bob, front);
        assert_eq!(
            desk.hangs_up(look(0, 500)),
            [if front == Front::Unsent(unsent(2, 400)) { "bob" } else { "eve" }],
            "{front:?}"
        );
    }
    // When the reply was added, the server has tried to send more of what is in front.
    for front in [Front::Unknown, Front::Unsent(unsent(0, 400))] {
        for (end, holder) in [(look(0, 500), "eve"), (look(0, 501), "bob")] {
            let (mut desk, bob) = handed_over(10);
            desk.writes(bob, front);
            desk.pass(1);
            assert_eq!(desk.look(look(0, 500)), 1);
            assert_eq!(desk.hangs_up(end), [holder], "{end:?}");
        }
    }
}

#[test]
fn what_was_never_written_goes_on_whatever_the_connection_looks_like() {
    for look in [Look::Sent, Look::Unknown, GOING_ON] {
        let (mut desk, _) = handed_over(10);
        assert_eq!(desk.hangs_up(look), ["eve"], "{look:?}");
    }
}

#[test]
fn who_does_not_wait_gets_a_lock_whose_grant_will_be_taken_back() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    desk.wait("door", 1, &ask("bob"));
    assert!(desk.release("door", "ann"));
    assert!(matches!(desk.try_acquire("door", &ask("eve")), Ok(Acquired::Refused)), "it is bob's");
    desk.engine.client_gone(desk.now.ms, client(1));
    desk.try_acquire("door", &ask("eve")).unwrap().granted();
    assert_eq!(desk.holders("door"), ["eve"]);
}

#[test]
fn one_look_settles_it_for_good() {
    let (mut desk, bob) = handed_over(10);
    assert_eq!(desk.keys.looks_first, [(bob, client(1))]);
    desk.writes(bob, CLEAR);
    assert_eq!(desk.until_look(), Some(Millis(1)));
    desk.pass(1);
    assert_eq!(desk.look(Look::Sent), 1);
    assert_eq!(desk.until_look(), None);
    assert!(!desk.engine.has_undelivered(client(1)));
    assert_eq!(desk.hangs_up(STUCK), ["bob"]);
}

#[test]
fn a_reply_that_is_stuck_is_looked_at_again_and_again_at_ever_longer_intervals() {
    let (mut desk, bob) = handed_over(10);
    desk.pass(1);
    assert_eq!(desk.look(Look::Sent), 1, "it has not been written");
    desk.writes(bob, FULL);
    let mut pauses = vec![];
    for _ in 0..12 {
        let pause = desk.until_look().unwrap();
        desk.pass(pause.0);
        assert_eq!(desk.look(GOING_ON), 1);
        pauses.push(pause.0);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250, 250]);
    assert_eq!(desk.hangs_up(GOING_ON), ["eve"]);
    assert!(desk.release("door", "eve"));
    desk.engine.client_gone(desk.now.ms, client(2));
    let _ = desk.tick();
    desk.assert_blank();
}

#[test]
fn whoever_does_something_with_the_hold_is_not_looked_at() {
    for ended in ["released", "renewed", "extended", "over"] {
        let (mut desk, bob) = handed_over(0);
        desk.writes(bob, Front::Unknown);
        assert!(
            desk.keys.looks_first.is_empty() && desk.until_look().unwrap() > Millis(1),
            "a short wait is no matter"
        );
        match ended {
            "released" => assert!(desk.release("door", "bob")),
            "renewed" => drop(desk.take("door", &ask("bob"))),
            "extended" => assert_eq!(desk.extend("door", "bob", 9_000), Ok(true)),
            _ => {
                desk.pass(5_000);
                let _ = desk.tick();
            }
        }
        assert!(!desk.engine.has_undelivered(client(1)), "{ended}");
        desk.pass(60_000);
        while let Some((_, looked_at)) = desk.engine.take_look(desk.now.ms) {
            assert_eq!(looked_at, client(2), "{ended}");
        }
    }
}

#[test]
fn whoever_asks_for_another_lock_has_had_the_reply_before() {
    for (front, holder) in [(Front::Unknown, "bob"), (CLEAR, "bob"), (FULL, "eve")] {
        let (mut desk, bob) = handed_over(10);
        desk.writes(bob, front);
        desk.acquire("gate", 1, &ask("other")).unwrap().granted();
        assert_eq!(desk.hangs_up(STUCK), [holder], "{front:?}");
    }
}

#[test]
fn a_thousand_who_have_waited_long_are_not_all_looked_at_promptly() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann").lease(100_000));
    for number in 1..=1_000 {
        desk.wait("door", number, &ask(&format!("t{number}")).shared());
    }
    desk.pass(60_000);
    assert!(desk.release("door", "ann"));
    let _ = desk.tick();
    let prompt = desk.keys.looks_first.len();
    assert_eq!(prompt, 16);
    desk.granted().into_iter().for_each(|waiter| desk.writes(waiter, Front::Unknown));
    desk.pass(1);
    assert_eq!(desk.look(Look::Sent), prompt);
    desk.pass(50);
    assert_eq!(desk.look(Look::Sent), 1_000 - prompt);
    assert_eq!(desk.until_look(), None);
}

#[test]
fn where_a_client_cannot_be_blocked_nothing_changes() {
    let mut desk = Desk::new();
    desk.take("door", &ask("ann"));
    let bob = desk.wait("door", 1, &ask("bob"));
    desk.wait("door", 2, &ask("eve"));
    let before = desk.info("door");
    desk.told();
    desk.keys.unblockable = true;
    for request in [ask("bob"), ask("new")] {
        let request = request.waiting(0);
        assert_eq!(desk.acquire("door", 3, &request), Ok(Acquired::Refused));
        assert_eq!(desk.acquire_many(&["door", "gate"], 3, &request), Ok(Acquired::Refused));
    }
    assert_eq!((desk.info("door"), desk.info("gate")), (before, None));
    assert!(desk.told().is_empty());
    desk.keys.unblockable = false;
    assert!(desk.release("door", "ann"));
    assert_eq!(desk.granted(), [bob]);
    assert_eq!(desk.lock("door").unwrap().holds().count(), 1);
    assert_eq!(desk.engine.stats().waits, 2);
}
