//! Requests to several sales in a cluster: all of them and their streams are in one slot and on one node, or nothing is taken.

use harness::{ANY, Client, Cluster, OK, Reply, err};

const SALES: [&str; 2] = ["{shop}one", "{shop}two"];
const EVENTS: [&str; 2] = ["{shop}one:events", "{shop}two:events"];

fn take(id: &str) -> String {
    format!("STOCK.MDECR_ONCE {id} 2 {} 1 {} 1", SALES[0], SALES[1])
}

fn taken() -> harness::Want {
    ("OK", ANY, ANY).into()
}

/// Whether the nodes redirect a request by its first key alone, as those of Valkey 9 do.
fn redirects_by_the_first(cluster: &Cluster) -> bool {
    let node = cluster.node(0);
    node.is_valkey() && node.version() >= [9, 0, 0]
}

#[track_caller]
fn told(client: &mut Client, stream: &str) -> i64 {
    client.cmd(["XLEN", stream]).int()
}

#[test]
fn sales_of_several_slots_are_not_sold_together() {
    let cluster = Cluster::start(3);
    let at = cluster.owner("{a}s");
    let (mut client, mut elsewhere) = (cluster.node(at).client(), cluster.node((at + 1) % 3).client());
    for call in ["STOCK.MDECR_ONCE id 2 {a}s 1 {b}s 1", "STOCK.MCONFIRM id 2 {a}s {b}s", "STOCK.MCANCEL id 2 {a}s {b}s"]
    {
        client.expect(call, err("CROSSSLOT"));
        elsewhere.expect(call, err(if redirects_by_the_first(&cluster) { "MOVED " } else { "CROSSSLOT" }));
    }
    // A client is sent to where the sales are, whatever stands between them.
    let owner = cluster.owner("{b}s");
    let mut other = cluster.node((owner + 1) % 3).client();
    other.expect("STOCK.MDECR_ONCE {a}id 2 {b}s 1 {b}t 1", err("MOVED "));
    cluster.node(owner).client().expect("STOCK.MDECR_ONCE {a}id 2 {b}s 1 {b}t 1", ("NOSTOCK", ANY, ANY));
}

#[test]
fn a_stream_in_another_slot_takes_nothing_of_the_cart() {
    let cluster = Cluster::start(3);
    let mut client = cluster.node(cluster.owner("{a}s")).client();
    client.expect("STOCK.CREATE {a}s 5 STREAM {a}e", OK);
    // A copy of a sale of another slot.
    let mut other = cluster.node(cluster.owner("{b}t")).client();
    other.expect("STOCK.CREATE {b}t 5 STREAM {b}e", OK);
    let dump = other.cmd("DUMP {b}t").bytes();
    client.expect([&b"RESTORE"[..], b"{a}t", b"0", &dump], OK);
    client.expect("STOCK.MDECR_ONCE id 2 {a}s 1 {a}t 1", err("CROSSSLOT the sale's stream does not take the event"));
    assert_eq!(told(&mut client, "{a}e"), 0);
    client.expect("STOCK.ORDER {a}s id", harness::NULL);
    // Valkey 9.1 would refuse this, too, had it been asked about keys of two slots before.
    client.expect("STOCK.DECR_ONCE {a}t id", err("CROSSSLOT"));
    client.expect("STOCK.DECR_ONCE {a}s id", ("OK", 1, 4, -1, ""));
}

#[test]
fn while_the_slot_moves_all_of_it_is_here_or_nothing_is_taken() {
    // Whatever has left already, and wherever it is.
    for gone in [EVENTS[1], EVENTS[0], SALES[1], SALES[0]] {
        let cluster = Cluster::start(3);
        let from = cluster.owner(SALES[0]);
        let to = (from + 1) % 3;
        let (mut here, mut there) = (cluster.node(from).client(), cluster.node(to).client());
        for (sale, stream) in SALES.into_iter().zip(EVENTS) {
            here.expect(format!("STOCK.CREATE {sale} 10 STREAM {stream}"), OK);
        }
        here.expect(take("before"), taken());
        cluster.begin_move(SALES[0], from, to);
        here.expect(take("all-here"), taken());
        cluster.move_key(gone, from, to);
        for call in [take("apart"), format!("STOCK.MCANCEL before 2 {} {}", SALES[0], SALES[1])] {
            let is_sent_there = gone == SALES[0] && redirects_by_the_first(&cluster);
            here.expect(call.as_str(), err(if is_sent_there { "ASK " } else { "TRYAGAIN " }));
            there.expect("ASKING", OK);
            let reply = there.cmd(call.as_str());
            // The node that imports has no sale yet, or lacks a key.
            let nothing = matches!(&reply, Reply::Error(text) if text.starts_with("TRYAGAIN "))
                || reply.at(0).text() == "NOSTOCK";
            assert!(nothing, "{gone}: {reply:?}");
        }
        for key in SALES.into_iter().chain(EVENTS).filter(|key| *key != gone) {
            cluster.move_key(key, from, to);
        }
        cluster.end_move(SALES[0], from, to);
        there.expect(take("after"), taken());
        for (sale, stream) in SALES.into_iter().zip(EVENTS) {
            assert_eq!(told(&mut there, stream), 3, "{gone}: {sale}");
            there.expect(["STOCK.ORDER", sale, "apart"], harness::NULL);
            there.expect(["STOCK.ORDER", sale, "before"], ANY).field("state").clone().is("sold");
        }
    }
}

/// From then on, Valkey 9.1 refuses every key that a script or a module names, and can serve what needs no such call.
#[test]
fn after_a_script_over_two_slots_carts_without_streams_are_still_sold() {
    let cluster = Cluster::start(1);
    let mut client = cluster.node(0).client();
    for sale in SALES {
        client.expect(format!("STOCK.CREATE {sale} 10"), OK);
    }
    let script = "return redis.pcall('LMPOP', 2, '{a}x', '{b}x', 'LEFT')";
    assert!(client.cmd(["EVAL", script, "0"]).is_error());
    client.expect(take("id"), taken());
    client.expect(format!("STOCK.MCANCEL id 2 {} {}", SALES[0], SALES[1]), taken());
    for lock in ["{shop}a", "{shop}b"] {
        client.expect(format!("LOCK.ACQUIRE {lock} TOKEN ann"), ANY);
    }
    client.expect("LOCK.MEXTEND ann 2 {shop}a {shop}b PX 30000", 1);
    client.expect("LOCK.MRELEASE ann 2 {shop}a {shop}b", 2);
}
