//! Another module puts a lock that somebody holds in the place of one that is granted together with others, just when the first of them is
//! granted. Whoever held it goes on holding it, alone: what was granted there is overwritten, as by any `RENAME` or `RESTORE`.

use super::compiled;
use crate::harness::{Client, INT, NULL, OK, Server, Words, eventually};
use crate::line::Line;

/// A server with a listener and its replica; nothing is held yet.
struct Scene {
    server: Server,
    replica: Server,
    client: Client,
}

impl Scene {
    #[track_caller]
    fn set() -> Self {
        let server = Server::builder().config(&compiled::line()).start();
        let replica = Server::builder().replica_of(&server).start();
        replica.wait_in_sync(&server);
        let client = server.client();
        Self { server, replica, client }
    }

    /// Has the listener run `reaction` at the `nth` event of the lock `k`.
    #[track_caller]
    fn react(&mut self, nth: usize, reaction: impl Into<Words>) {
        let rule = Words::from(format!("LISTENER.ON k MODULE {nth}"));
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
