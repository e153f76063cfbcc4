//! Clusters with several databases, which Valkey has since 9.0: a slot moves with the keys of all of them.

use std::time::Duration;

use harness::{ANY, Client, Cluster, INT, OK, Server, err, eventually};

use crate::support::line::Line;

/// Two nodes with two databases each; `None` on a server whose clusters have only one.
struct Scene {
    cluster: Cluster,
    from: usize,
    to: usize,
}

impl Scene {
    fn set() -> Option<Self> {
        if Server::start().cmd("CONFIG GET cluster-databases").items().is_empty() {
            return None;
        }
        let cluster = Cluster::start_with(2, &["cluster-databases 2"]);
        let from = cluster.owner("lock");
        Some(Self { cluster, from, to: 1 - from })
    }

    /// A client of this node in this database.
    fn client(&self, node: usize, db: u8) -> Client {
        let mut client = self.cluster.node(node).client();
        client.expect(format!("SELECT {db}"), OK);
        client
    }

    fn begin(&self) {
        self.cluster.begin_move("lock", self.from, self.to);
    }

    /// Moves the key `lock` of this database.
    fn carry(&self, db: u8) {
        let port = self.cluster.node(self.to).port();
        self.client(self.from, db).expect(format!("MIGRATE 127.0.0.1 {port} lock {db} 5000"), OK);
    }
}

#[test]
fn a_lock_that_has_moved_is_granted_to_no_waiter_though_another_database_has_its_name() {
    for namesake in ["SET lock text", "LOCK.ACQUIRE lock TOKEN other PX 60000"] {
        let Some(scene) = Scene::set() else { return };
        scene.client(scene.from, 0).expect(namesake, ANY);
        let [mut holder, mut waiter, mut news] = [1, 1, 0].map(|db| scene.client(scene.from, db));
        news.expect("SUBSCRIBE news", ANY);
        holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000", ANY);
        waiter.send("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        Line::at(scene.cluster.node(scene.from)).until("lock_waiters", 1);
        holder.expect("LOCK.ACQUIRE lock TOKEN reader WAIT 0 NOTIFY news", 2);
        scene.begin();
        scene.carry(1);
        assert_eq!(waiter.try_read(Duration::from_millis(300)), None, "{namesake}");
        assert_eq!(news.try_read(Duration::from_millis(1)), None, "{namesake}");
        scene.carry(0);
        scene.cluster.end_move("lock", scene.from, scene.to);
        waiter.read().is(err("MOVED"));
        assert!(news.read().at(2).text().contains("MOVED"));
        let held = scene.client(scene.to, 1).cmd("LOCK.INFO lock");
        assert_eq!(held.field("holders").at(0).field("token").text(), "holder");
    }
}

#[test]
fn what_falls_due_in_any_database_of_a_slot_on_the_move_is_done_where_it_still_is() {
    let Some(scene) = Scene::set() else { return };
    let [mut client, mut waiter] = [1, 1].map(|db| scene.client(scene.from, db));
    client.expect("STOCK.CREATE {lock}sale 1", OK);
    client.expect("STOCK.DECR_ONCE {lock}sale first HOLD 1000", ANY);
    client.expect("STOCK.DECR_ONCE {lock}sale second WAITLIST", ANY);
    client.expect("LOCK.ACQUIRE lock TOKEN holder PX 1000", ANY);
    waiter.send("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    scene.begin();
    waiter.read().is(("waiter", INT, 30_000));
    eventually("the line is served", || client.cmd("STOCK.ORDER {lock}sale second").field("state").text() == "sold");
}
