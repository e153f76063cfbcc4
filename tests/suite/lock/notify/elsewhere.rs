//! Requests that wait by NOTIFY, seen from replicas, files and other nodes.

use std::time::{Duration, Instant};

use harness::{ANY, Client, Cluster, INT, OK, Reply, Server, Stage, Tap, eventually};

use super::channel::Channel;
use super::{ABOUT, ASK, held};
use crate::support::line::Line;

#[test]
fn subscribers_of_a_replica_hear_each_message_once_and_the_file_has_none() {
    let primary = Server::builder().aof("always").start();
    let replica = Server::start();
    replica.follow(&primary);
    replica.wait_in_sync(&primary);
    let mut tap = Tap::attach(&primary);
    let (mut holder, mut client) = (primary.client(), primary.client());
    let mut news = Channel::of(&replica, "news");
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect(ASK, 1);
    tap.drain();
    holder.expect("LOCK.RELEASE lock holder", 1);
    let told: Vec<String> = (0..4).map(|_| tap.next().name()).collect();
    assert_eq!(told, ["MULTI", "LOCK.APPLY", "PUBLISH", "EXEC"]);
    news.grants(ABOUT, 30_000);
    // A wait that ends is a message, and nothing else.
    holder.expect("LOCK.ACQUIRE lock TOKEN u WAIT 20 NOTIFY news", 1);
    news.says(r#"{"event":"timeout","key":"lock","token":"u"}"#);
    holder.expect("LOCK.ACQUIRE lock TOKEN u WAIT 0 NOTIFY news", 1);
    holder.expect("LOCK.RELEASE lock u", 0);
    news.fails(r#""key":"lock","token":"u""#, "CANCELLED ");
    assert_eq!([tap.next(), tap.next()].map(|words| words.name()), ["PUBLISH", "PUBLISH"]);
    let filed = harness::Aof::of(&primary).commands;
    assert!(!filed.iter().any(|words| words.name() == "PUBLISH"), "{filed:?}");
    primary.expect("PUBLISH news mark", ANY);
    news.says("mark");
}

#[test]
fn on_demotion_they_hear_of_it_at_once_and_are_granted_nothing() {
    let (server, mut holder, mut client, mut news) = held();
    let other = Server::start();
    client.expect(ASK, 1);
    client.expect("LOCK.MACQUIRE 2 lock b TOKEN m WAIT 0 NOTIFY news", 2);
    server.follow(&other);
    news.fails(ABOUT, "UNBLOCKED ");
    news.fails(r#""keys":["lock","b"],"token":"m""#, "UNBLOCKED ");
    assert_eq!(Line::at(&server).count("lock_waiters"), 0);
    server.promote();
    // Promoted again, it grants nothing to them, but to new requests. It may have taken over that the other server has no keys.
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ("holder", INT, 30_000));
    client.expect(ASK, 1);
    news.is_silent(&server, "news");
    holder.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
}

#[test]
fn under_a_pause_nothing_is_granted_or_over_and_right_after_it_all_is() {
    let (server, mut holder, mut client, mut news) = held();
    let mut tap = Tap::attach(&server);
    // In one go, so that nothing is over before the pause.
    let extended = "LOCK.EXTEND lock holder PX 40";
    let replies =
        client.pipeline(["LOCK.ACQUIRE lock TOKEN u WAIT 20 NOTIFY news", ASK, extended, "CLIENT PAUSE 60000 WRITE"]);
    assert_eq!(replies[..3], [1, 2, 1].map(Reply::Int));
    assert_eq!(news.0.try_read(Duration::from_millis(150)), None);
    holder.expect("CLIENT UNPAUSE", OK);
    news.says(r#"{"event":"timeout","key":"lock","token":"u"}"#);
    news.grants(ABOUT, 30_000);
    eventually("the replica is told", || tap.next().name() == "EXEC");
}

#[test]
fn with_publish_taken_away_the_subscribers_of_this_server_hear_all_the_same() {
    let server = Server::builder().config("rename-command PUBLISH \"\"").start();
    let (mut client, mut news) = (server.client(), Channel::of(&server, "news"));
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect(ASK, 1);
    client.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
}

#[test]
fn nothing_of_a_request_in_line_is_replicated() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    let mut client = stage.server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    stage.told();
    client.expect(ASK, 1);
    client.expect(ASK, 1);
    client.close();
    Line::at(&stage.server).until("lock_waiters", 0);
    stage.tells(&[]);
}

/// Keys of one slot, a node that serves it, and one that will.
fn moving() -> (Cluster, usize, usize) {
    let cluster = Cluster::start(3);
    let from = cluster.owner("lock");
    (cluster, from, (from + 1) % 3)
}

#[test]
fn subscribers_of_every_node_of_a_cluster_hear_each_message_once() {
    let (cluster, from, to) = moving();
    let mut listeners = [from, to].map(|node| Channel::of(cluster.node(node), "news"));
    let (mut holder, mut client) = (cluster.node(from).client(), cluster.node(from).client());
    // What is published before the nodes are connected is lost.
    eventually("the nodes are connected", || {
        holder.expect("PUBLISH news up", INT);
        listeners[1].0.try_read(Duration::from_millis(50)).is_some()
    });
    holder.expect("PUBLISH news begin", INT);
    for news in &mut listeners {
        while news.next() != "begin" {}
    }
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect(ASK, 1);
    holder.expect("LOCK.RELEASE lock holder", 1);
    holder.expect("PUBLISH news mark", INT);
    for news in &mut listeners {
        news.grants(ABOUT, 30_000);
        news.says("mark");
    }
}

#[test]
fn who_waits_for_a_slot_that_moves_is_redirected_and_never_granted_on_the_wrong_node() {
    let (cluster, from, to) = moving();
    let node = cluster.node(from);
    let (mut holder, mut client, mut news) = (node.client(), node.client(), Channel::of(node, "news"));
    let mut there = Channel::of(cluster.node(to), "news");
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect(ASK, 1);
    client.expect("LOCK.MACQUIRE 2 {lock}a lock TOKEN m WAIT 0 NOTIFY news", 2);
    cluster.begin_move("lock", from, to);
    cluster.move_key("lock", from, to);
    // The key is gone here, but it was not released.
    assert_eq!(news.0.try_read(Duration::from_millis(700)), None);
    let begun = Instant::now();
    cluster.end_move("lock", from, to);
    let address = cluster.node(to).address();
    let moved = format!("MOVED {} {address}\"", node.cmd("CLUSTER KEYSLOT lock").int());
    news.fails(ABOUT, &moved);
    news.fails(r#""keys":["{lock}a","lock"],"token":"m""#, &moved);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let mut line = Line::at(node);
    assert_eq!((line.count("lock_waiters"), line.count("lock_grants")), (0, 1));
    // Over there they stand in line again. A channel is the same on all nodes.
    there.fails(ABOUT, &moved);
    there.fails(r#""keys":["{lock}a","lock"],"token":"m""#, &moved);
    let mut client = cluster.node(to).client();
    client.expect(ASK, 1);
    client.expect("LOCK.RELEASE lock holder", 1);
    there.grants(ABOUT, 30_000);
}

#[test]
fn every_one_of_many_requests_hears_where_its_slot_has_gone() {
    let (cluster, from, to) = moving();
    let node = cluster.node(from);
    let (mut client, mut news) = (node.client(), Channel::of(node, "news"));
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let asks: Vec<String> = (0..500).map(|n| format!("LOCK.ACQUIRE lock TOKEN t-{n} WAIT 0 NOTIFY news")).collect();
    client.pipeline(&asks);
    cluster.begin_move("lock", from, to);
    cluster.move_key("lock", from, to);
    cluster.end_move("lock", from, to);
    let moved = format!("MOVED {} {}\"", cluster.slot("lock"), cluster.node(to).address());
    for n in 0..asks.len() {
        news.fails(&format!("\"key\":\"lock\",\"token\":\"t-{n}\""), &moved);
    }
}

#[test]
fn whoever_waits_on_a_node_that_keeps_its_slots_is_left_alone() {
    let (cluster, from, to) = moving();
    let node = cluster.node(from);
    let (mut client, mut news) = (node.client(), Channel::of(node, "news"));
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    client.expect("LOCK.ACQUIRE lock TOKEN t WAIT 1500 NOTIFY news", 1);
    // Another slot of this node moves.
    let other =
        (0..10_000).map(|n| format!("other-{n}")).find(|key| cluster.owner(key) == from).expect("a key of this node");
    cluster.begin_move(&other, from, to);
    cluster.end_move(&other, from, to);
    news.says(&format!("{{\"event\":\"timeout\",{ABOUT}}}"));
}

/// Longer than it takes until a request is told that its slot has gone.
const TOLD: Duration = Duration::from_millis(1_300);

/// The reply of a node to a request for a slot that it takes over.
#[track_caller]
fn ask(client: &mut Client, words: &str) -> Reply {
    client.pipeline(["ASKING", words]).pop().expect("a reply")
}

#[test]
fn a_request_on_the_node_that_takes_its_slot_over_waits_there() {
    let (cluster, from, to) = moving();
    let (mut client, mut news) = (cluster.node(to).client(), Channel::of(cluster.node(to), "news"));
    cluster.begin_move("lock", from, to);
    ask(&mut client, "LOCK.ACQUIRE lock TOKEN holder").is(("holder", INT, 30_000));
    ask(&mut client, ASK).is(1);
    assert_eq!(news.0.try_read(TOLD), None);
    cluster.end_move("lock", from, to);
    assert_eq!(news.0.try_read(TOLD), None);
    client.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
}

#[test]
fn a_request_on_a_node_that_did_not_take_its_slot_over_is_redirected() {
    // Once after some looks at the cluster, and once before the first.
    for pause in [TOLD, Duration::ZERO] {
        let (cluster, from, to) = moving();
        let (mut client, mut news) = (cluster.node(to).client(), Channel::of(cluster.node(to), "news"));
        let slot = cluster.slot("lock");
        cluster.begin_move("lock", from, to);
        ask(&mut client, "LOCK.ACQUIRE lock TOKEN holder").is(("holder", INT, 30_000));
        ask(&mut client, ASK).is(1);
        assert_eq!(news.0.try_read(pause), None);
        for node in [from, to] {
            cluster.node(node).expect(format!("CLUSTER SETSLOT {slot} STABLE"), OK);
        }
        news.fails(ABOUT, &format!("MOVED {slot} {}\"", cluster.node(from).address()));
        assert_eq!(Line::at(cluster.node(to)).count("lock_waiters"), 0);
    }
}

#[test]
fn a_request_hears_of_a_slot_that_nobody_serves_and_of_one_that_another_node_takes_up() {
    for taken_up in [false, true] {
        let (cluster, from, to) = moving();
        let node = cluster.node(from);
        let (mut client, mut news) = (node.client(), Channel::of(node, "news"));
        client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        client.expect(ASK, 1);
        assert_eq!(news.0.try_read(TOLD), None);
        let slot = cluster.slot("lock");
        node.expect(format!("CLUSTER DELSLOTS {slot}"), OK);
        if taken_up {
            // The module looks in between.
            assert_eq!(news.0.try_read(Duration::from_millis(700)), None);
            node.expect(format!("CLUSTER SETSLOT {slot} NODE {}", cluster.node(to).cmd("CLUSTER MYID").text()), OK);
            news.fails(ABOUT, &format!("MOVED {slot} {}\"", cluster.node(to).address()));
        } else {
            news.fails(ABOUT, "CLUSTERDOWN Hash slot not served\"");
        }
    }
}
