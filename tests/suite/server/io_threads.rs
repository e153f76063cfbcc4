//! Servers with several I/O threads. Some look for the keys of a command on such a thread, and crash if they have to ask a module for them.

use harness::{ANY, Client, Cluster, INT, OK, Server, Words, err};

const THREADS: &str = "io-threads 2";

const CLIENTS: usize = 40;

/// How often each client sends its calls.
const ROUNDS: usize = 25;

/// Prepares what the calls need.
fn prepare(client: &mut Client) {
    for sale in ["{t}one", "{t}two", "{t}three"] {
        client.expect(format!("STOCK.CREATE {sale} 1000000"), OK);
    }
    client.expect("LOCK.ACQUIRE {t}lock TOKEN holder PX 600000", ("holder", INT, 600_000));
}

/// Calls whose keys do not all stand at fixed places.
fn calls(order: usize) -> [String; 4] {
    [
        "LOCK.GUARD {t}lock holder SET {t}value v".into(),
        format!("STOCK.MDECR_ONCE order-{order} 3 {{t}}one 1 {{t}}two 1 {{t}}three 1"),
        "LOCK.MACQUIRE 2 {t}p {t}q TOKEN ann".into(),
        "LOCK.MEXTEND ann 2 {t}p {t}q PX 30000".into(),
    ]
}

/// Has many clients send such calls in pipelines, all at a time.
fn strain(server: &Server) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for round in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            let first = (round * CLIENTS + number) * 4;
            let calls: Vec<Words> = (first..first + 4).flat_map(calls).map(Words::from).collect();
            client.try_send(&calls).expect("the server takes them");
        }
        for client in &mut clients {
            for _ in 0..16 {
                client.read().is(ANY);
            }
        }
    }
    let sold = i64::try_from(CLIENTS * ROUNDS * 4).expect("a small number");
    server.cmd("STOCK.INFO {t}three").field("sold").is(sold);
}

/// The replica gets everything.
#[track_caller]
fn follows(primary: &Server, replica: &Server) {
    replica.wait_in_sync(primary);
    let mut reader = replica.client();
    reader.attempt("READONLY");
    assert_eq!(reader.cmd("STOCK.INFO {t}three").field("seq"), primary.cmd("STOCK.INFO {t}three").field("seq"));
}

#[test]
fn a_server_survives_calls_with_many_keys() {
    let primary = Server::builder().config(THREADS).start();
    let replica = Server::builder().replica_of(&primary).start();
    prepare(&mut primary.client());
    strain(&primary);
    follows(&primary, &replica);
}

#[test]
fn a_node_of_a_cluster_survives_them_if_it_gets_its_threads_later() {
    let cluster = Cluster::start(3);
    let at = cluster.owner("{t}");
    let primary = cluster.node(at);
    let can_get_threads = primary.is_valkey() && primary.version() >= [9, 0, 0];
    primary.client().expect("CONFIG SET io-threads 2", if can_get_threads { OK } else { err("ERR") });
    let replica = cluster.replica_of(at);
    prepare(&mut primary.client());
    strain(primary);
    follows(primary, &replica);
}

#[test]
fn a_node_of_a_cluster_survives_them_and_serves_only_keys_of_one_slot() {
    let cluster = Cluster::start_with(3, &[THREADS]);
    let (from, to) = (cluster.owner("{t}"), (cluster.owner("{t}") + 1) % 3);
    let primary = cluster.node(from);
    let replica = cluster.replica_of(from);
    let mut client = primary.client();
    prepare(&mut client);
    strain(primary);
    follows(primary, &replica);
    let apart = "CROSSSLOT Keys in request don't hash to the same slot";
    for call in [
        "LOCK.GUARD {t}lock holder SET elsewhere v",
        "LOCK.GUARD {t}lock holder LOCK.MACQUIRE 2 {u}p {u}q TOKEN bob",
        "STOCK.MDECR_ONCE o 2 {t}one 1 elsewhere 1",
        "LOCK.MACQUIRE 2 {t}p elsewhere TOKEN bob",
        "LOCK.MRELEASE ann 2 {t}p elsewhere",
        "STOCK.CREATE {t}new 5 STREAM elsewhere",
    ] {
        client.expect(call, err(apart));
        client.expect("LOCK.MEXTEND ann 2 {t}p {t}q PX 30000", 1);
    }
    // A user without the right to the last key.
    client.expect("ACL SETUSER guest on nopass +@all ~{t}one ~{t}two ~{t}p ~{t}lock", OK);
    let mut guest = primary.client();
    guest.expect("AUTH guest any", OK);
    for call in [
        "STOCK.MDECR_ONCE o 3 {t}one 1 {t}two 1 {t}three 1",
        "LOCK.MACQUIRE 2 {t}p {t}q TOKEN ann",
        "LOCK.GUARD {t}lock holder SET {t}value v",
        "STOCK.CREATE {t}two 5 STREAM {t}events",
    ] {
        guest.expect(call, err("NOPERM"));
    }
    guest.expect("STOCK.MDECR_ONCE o 2 {t}one 1 {t}two 1", ANY);
    // One of the keys is on its way.
    cluster.begin_move("{t}", from, to);
    cluster.move_key("{t}two", from, to);
    let call = "STOCK.MDECR_ONCE p 2 {t}one 1 {t}two 1";
    client.expect(call, err("TRYAGAIN Multiple keys request during rehashing of slot"));
    let mut other = cluster.node(to).client();
    other.expect("ASKING", OK);
    other.expect(call, err("TRYAGAIN Multiple keys request during rehashing of slot"));
    // A command for many keys that names only this one, and that no client sends itself.
    let alone = "STOCK.MDECR_ONCE q 1 {t}two 1";
    client.expect(format!("LOCK.GUARD {{t}}lock holder {alone}"), err("TRYAGAIN"));
    let script = "return redis.pcall('STOCK.MDECR_ONCE', 'q', '1', '{t}two', '1')";
    assert!(client.cmd(["EVAL", script, "1", "{t}lock"]).is_error());
    other.expect("ASKING", OK);
    other.expect(alone, ("OK", ANY));
}
