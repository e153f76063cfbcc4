//! Guards in a cluster: the lock and the keys of the command are of one slot, and go where it goes.

use harness::{ANY, Client, Cluster, OK, Reply, err, eventually};

/// A cluster, the node of the lock "lock", which "t" holds, and the node that its slot will move to.
struct Scene {
    cluster: Cluster,
    from: usize,
    to: usize,
}

impl Scene {
    fn set() -> Self {
        let cluster = Cluster::start(3);
        let from = cluster.owner("lock");
        let scene = Self { from, to: (from + 1) % 3, cluster };
        scene.here().expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
        scene.here().expect("LOCK.GUARD lock t SET {lock}k v", OK);
        scene
    }

    fn here(&self) -> Client {
        self.cluster.node(self.from).client()
    }

    fn there(&self) -> Client {
        self.cluster.node(self.to).client()
    }
}

#[test]
fn keys_of_other_slots_are_refused_and_other_nodes_redirect() {
    let scene = Scene::set();
    let (mut here, mut there) = (scene.here(), scene.there());
    for call in ["SET other v", "FENCE 5 SET other v", "MGET {lock}k other", "STOCK.MDECR_ONCE id 2 {lock}a 1 other 1"]
    {
        here.expect(format!("LOCK.GUARD lock t {call}"), err("CROSSSLOT"));
    }
    here.expect("LOCK.GUARD lock t MGET {lock}k {lock}l", ANY);
    here.expect("LOCK.GUARD lock t PING", ANY);
    there.expect("LOCK.GUARD lock t PING", err("MOVED"));
    there.expect("LOCK.GUARD lock t GET {lock}k", err("MOVED"));
    // A script names its keys.
    let script = "return redis.call('LOCK.GUARD', KEYS[1], 't', 'GET', ARGV[1])";
    here.expect(["EVAL", script, "1", "lock", "{lock}k"], "v");
    assert!(here.cmd(["EVAL", script, "1", "lock", "other"]).is_error());
}

#[test]
fn while_a_slot_moves_key_by_key_a_guard_runs_where_all_its_keys_are() {
    let scene = Scene::set();
    let (mut here, mut there) = (scene.here(), scene.there());
    let fence = here.cmd("LOCK.INFO lock").field("holders").at(0).field("fence").int();
    let get = "LOCK.GUARD lock t GET {lock}k";
    scene.cluster.begin_move("lock", scene.from, scene.to);
    here.expect(get, "v");
    here.expect("LOCK.GUARD lock t SET {lock}new v", err("TRYAGAIN"));
    scene.cluster.move_key("{lock}k", scene.from, scene.to);
    // Apart from each other, neither node runs it.
    here.expect(get, err("TRYAGAIN"));
    there.expect(get, err("MOVED"));
    assert_eq!(asking(&mut there, get), "TRYAGAIN");
    here.expect("LOCK.GUARD lock t PING", ANY);
    scene.cluster.move_key("lock", scene.from, scene.to);
    here.expect("LOCK.GUARD lock t PING", err("ASK"));
    here.expect(get, err("ASK"));
    there.expect("ASKING", OK);
    there.expect(get, "v");
    there.expect("ASKING", OK);
    there.expect(format!("LOCK.GUARD lock t FENCE {fence} SET {{lock}}k w"), OK);
    there.expect("ASKING", OK);
    there.expect("LOCK.GUARD lock u SET {lock}k x", err("NOTHELD"));
    scene.cluster.end_move("lock", scene.from, scene.to);
    here.expect(get, err("MOVED"));
    there.expect(get, "w");
    there.expect("LOCK.GUARD lock t LOCK.RELEASE lock t", 1);
}

/// The beginning of the reply to a request that follows `ASKING`.
fn asking(client: &mut Client, call: &str) -> String {
    client.expect("ASKING", OK);
    match client.cmd(call) {
        Reply::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn it_follows_a_slot_that_moves_as_a_whole() {
    let scene = Scene::set();
    let (mut here, mut there) = (scene.here(), scene.there());
    let Some(begun) = scene.cluster.move_whole_slot("lock", scene.from, scene.to) else {
        // Only Redis 8.4 and Valkey 9.0 and later do that.
        return;
    };
    assert!(!begun.is_error(), "{begun:?}");
    let mut done = 0;
    eventually("the slot has moved", || match here.cmd("LOCK.GUARD lock t INCR {lock}n") {
        Reply::Int(number) => {
            done += 1;
            assert_eq!(number, done);
            false
        }
        Reply::Error(text) => text.starts_with("MOVED"),
        other => panic!("{other:?}"),
    });
    there.expect("LOCK.GUARD lock u INCR {lock}n", err("NOTHELD"));
    there.expect("LOCK.GUARD lock t INCR {lock}n", done + 1);
    there.expect("LOCK.GUARD lock t GET {lock}k", "v");
}
