//! Another module puts a held lock in the place of one that is granted together with others, just when the first of them is
//! granted. Its holder goes on holding it, alone: what was granted there is overwritten, as by any `RENAME` or `RESTORE`.

use harness::{Client, INT, NULL, OK, Server, Words, eventually};

use crate::support::line::Line;

/// A server with a listener and its replica; nothing is held yet.
struct Scene {
    server: Server,
    replica: Server,
    client: Client,
}

impl Scene {
    #[track_caller]
    fn set() -> Self {
        let server = Server::builder().config(&harness::listener::line()).start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let client = server.client();
        Self { server, replica, client }
    }

    /// Has the listener run `reaction` at the `nth` event of the lock `k`.
    #[track_caller]
    fn react(&mut self, nth: usize, reaction: impl Into<Words>) {
        self.react_to("MODULE", nth, reaction);
    }

    /// The same with events of the class `class`.
    #[track_caller]
    fn react_to(&mut self, class: &str, nth: usize, reaction: impl Into<Words>) {
        let rule = Words::from(format!("LISTENER.ON k {class} {nth}"));
        self.client.expect(Words([rule.0, reaction.into().0].concat()), OK);
    }

    /// `owner` holds the lock `l` alone, and `other`, which was told that it does, has lost it to that.
    #[track_caller]
    fn is_held_by(&mut self, owner: &str, other: &str) {
        let mut line = Line::at(&self.server);
        assert_eq!(line.holders("l"), [owner]);
        self.client.expect(format!("LOCK.EXTEND l {other} PX 60000"), 0);
        self.client.expect(format!("LOCK.ACQUIRE l TOKEN {other}"), NULL);
        self.client.expect(format!("LOCK.EXTEND l {owner} PX 60000"), 1);
        self.replica.wait_in_sync(&self.server);
        assert_eq!(self.replica.digest(), self.server.digest());
    }
}

#[test]
fn a_lock_that_is_renamed_or_restored_to_one_that_is_being_granted_has_one_holder() {
    for restored in [false, true] {
        let mut scene = Scene::set();
        scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
        let dump = scene.client.cmd("DUMP o").bytes();
        if restored {
            scene.react(1, [b"RESTORE", &b"l"[..], b"0", &dump, b"REPLACE"]);
        } else {
            scene.react(1, "RENAME o l");
        }
        scene.client.expect("LOCK.MACQUIRE 2 k l TOKEN a PX 60000", ("a", INT, 60_000));
        scene.is_held_by("z", "a");
    }
}

#[test]
fn a_lock_that_is_away_while_another_is_handed_over_and_then_back_has_one_holder() {
    let mut scene = Scene::set();
    scene.client.expect("LOCK.ACQUIRE l TOKEN z PX 60000", ("z", INT, 60_000));
    scene.client.expect("LOCK.ACQUIRE k TOKEN a", ("a", INT, 30_000));
    let mut waiter = Line::at(&scene.server).join("LOCK.MACQUIRE 2 k l TOKEN w PX 60000 WAIT 0");
    // When `k` is free, and when it is taken.
    scene.react(1, "RENAME l away");
    scene.react(2, "RENAME away l");
    scene.client.expect("LOCK.RELEASE k a", 1);
    waiter.read().is(("w", INT, 60_000));
    eventually("it is back", || scene.client.cmd("EXISTS away").int() == 0);
    scene.is_held_by("z", "w");
}

#[test]
fn a_lock_that_comes_when_the_key_of_another_is_made_has_one_holder() {
    let mut scene = Scene::set();
    scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
    scene.react_to("NEW", 1, "RENAME o l");
    scene.client.expect("LOCK.MACQUIRE 2 k l TOKEN a PX 60000", NULL);
    scene.client.expect("EXISTS k", 0);
    scene.is_held_by("z", "a");
}

#[test]
fn a_lock_that_comes_when_the_time_of_another_key_is_found_over_has_one_holder() {
    let mut scene = Scene::set();
    scene.client.expect("DEBUG SET-ACTIVE-EXPIRE 0", OK);
    scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
    scene.client.expect("SET k text PX 1", OK);
    scene.client.expect("DEBUG SLEEP 0.01", OK);
    scene.react_to("SERVER", 1, "RENAME o j");
    scene.client.expect("LOCK.MACQUIRE 3 j k l TOKEN a PX 60000", NULL);
    scene.client.expect("EXISTS k l", 0);
    scene.client.expect("RENAME j l", OK);
    scene.is_held_by("z", "a");
}

#[test]
fn a_lock_that_comes_to_a_key_whose_time_is_just_found_over_is_seen() {
    for request in ["LOCK.ACQUIRE k TOKEN a", "LOCK.MACQUIRE 1 k TOKEN a"] {
        let mut scene = Scene::set();
        scene.client.expect("DEBUG SET-ACTIVE-EXPIRE 0", OK);
        scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
        scene.client.expect("SET k text PX 1", OK);
        scene.client.expect("DEBUG SLEEP 0.01", OK);
        scene.react_to("SERVER", 1, "RENAME o k");
        scene.client.expect(request, NULL);
        // The server alone decides which effects replicas get of this, and in which order.
        assert_eq!(Line::at(&scene.server).holders("k"), ["z"]);
        scene.client.expect("LOCK.EXTEND k z PX 60000", 1);
    }
}

#[test]
fn what_the_token_held_before_it_holds_as_before_when_another_lock_came() {
    let mut scene = Scene::set();
    scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
    let fence = scene.client.cmd("LOCK.ACQUIRE kk TOKEN a PX 90000 SESSION").items()[1].int();
    scene.react_to("NEW", 1, "RENAME o l");
    scene.client.expect("LOCK.MACQUIRE 3 k kk l TOKEN a PX 60000", NULL);
    scene.client.expect("EXISTS k", 0);
    scene.client.expect("LOCK.ACQUIRE kk TOKEN a PX 90000", ("a", fence, 90_000));
    assert_eq!(Line::at(&scene.server).holders("kk"), ["a"]);
    scene.is_held_by("z", "a");
}

#[test]
fn who_waits_for_many_locks_stays_in_line_when_another_comes_for_one_of_them() {
    let mut scene = Scene::set();
    scene.client.expect("LOCK.ACQUIRE o TOKEN z PX 60000", ("z", INT, 60_000));
    scene.client.expect("LOCK.ACQUIRE l TOKEN a", ("a", INT, 30_000));
    let mut waiter = Line::at(&scene.server).join("LOCK.MACQUIRE 2 k l TOKEN w PX 60000 WAIT 0");
    scene.react_to("NEW", 1, "RENAME o l");
    scene.client.expect("LOCK.RELEASE l a", 1);
    scene.client.expect("EXISTS k", 0);
    scene.is_held_by("z", "w2");
    scene.client.expect("LOCK.RELEASE l z", 1);
    waiter.read().is(("w", INT, 60_000));
}
