//! Commands that are sent as they are, among all others and on every road: every receiver has what the primary has.

use harness::{ANY, Client, Cluster, OK, Reply, Server, eventually, random, unix_ms};

use super::replica::{equal, only_long_leases};

/// How many commands there are in a load.
const COMMANDS: usize = 3_000;

/// What is sent as it is, and what makes the difference for it: limits, windows, lines, streams, deadlines.
fn anything(random: &mut fastrand::Rng) -> String {
    let (sale, id, lock, token) = (random.u8(..4), random.u8(..25), random.u8(..8), random.u8(..6));
    let now = unix_ms();
    match random.u8(..40) {
        0..6 => format!("STOCK.DECR_ONCE s{sale} i{id} QTY {} BUYER b{} REF r", random.u8(1..4), id % 7),
        6..9 => format!("stock.decr_once s{sale} i{id}"),
        9 | 10 => format!("STOCK.DECR_ONCE s{sale} i{id} WAITLIST"),
        11..14 => format!("STOCK.DECR_ONCE s{sale} i{id} HOLD {}", [1, 10, 30, 3_600_000][random.usize(..4)]),
        14..18 => format!("STOCK.CONFIRM s{sale} i{id}"),
        18..22 => format!("STOCK.CANCEL s{sale} i{id}"),
        22 => format!("STOCK.ADJUST s{sale} {} ID a{}", random.i8(-4..6), random.u8(..20)),
        23 => format!("STOCK.ADJUST s{sale} {}", random.i8(-4..6)),
        24 => {
            let (limit, end) = (random.u8(..9), [0, 0, now - 1, now + 10, now + 30][random.usize(..5)]);
            format!("STOCK.ALTER s{sale} LIMIT {limit} END {end} REBUY {}", ["yes", "no"][random.usize(..2)])
        }
        25 => format!("PEXPIRE {}{sale} {}", ["s", "l"][random.usize(..2)], random.u16(1..300)),
        26 => format!("DEL s{sale}"),
        27..30 => {
            let stream = ["", "", "STREAM events", "STREAM all DEADLINES"][usize::from(sale)];
            format!("STOCK.CREATE s{sale} {} {stream}", random.u8(..60))
        }
        30..34 => {
            let mode = ["", "SHARED", "LIMIT 3"][random.usize(..3)];
            format!("LOCK.ACQUIRE l{lock} TOKEN t{token} PX {} {mode}", [10, 3_600_000][random.usize(..2)])
        }
        34..37 => format!("LOCK.RELEASE l{lock} t{token}"),
        37 => format!("LOCK.MRELEASE t{token} 3 l{lock} l{} l0", random.u8(..8)),
        38 if random.u8(..4) == 0 => format!("SET {}{sale} x", ["s", "l"][random.usize(..2)]),
        _ => format!("CONFIG SET lockstock.replicate-commands {}", ["yes", "no"][usize::from(random.u8(..4) == 0)]),
    }
}

/// Runs `command` alone, in a transaction, in a script, or from another module.
fn somehow(client: &mut Client, command: &str, random: &mut fastrand::Rng) {
    let written = !command.starts_with("CONFIG");
    match random.u8(..8) {
        0 => drop(client.pipeline(["MULTI", command, "SET other x", command, "EXEC"])),
        1 if written => {
            let script = format!("redis.pcall('{}') return 1", command.replace(' ', "','"));
            client.expect(["EVAL", &script, "0"], 1);
        }
        2 if written => drop(client.cmd(format!("LISTENER.CALL {command}"))),
        _ => drop(client.cmd(command)),
    }
}

/// Waits until nothing ends any more because time goes on.
#[track_caller]
fn at_rest(server: &Server) {
    eventually("what ends soon is over", || only_long_leases(server));
}

/// Fails the test unless each replica has what its primary has, and has refused nothing.
#[track_caller]
fn all_have_the_same(pairs: [(&Server, &Server); 2]) {
    at_rest(pairs[0].0);
    for (primary, replica) in pairs {
        equal(primary, replica);
        assert!(!replica.log().contains("is sending an error"), "{}", replica.log());
    }
}

#[test]
fn every_replica_and_every_file_has_what_the_primary_has() {
    let mut random = random();
    let first = Server::builder().aof("always").config(&harness::listener::line()).start();
    let second = Server::builder().aof("always").config("aof-use-rdb-preamble no").replica_of(&first).start();
    second.wait_in_sync(&first);
    let third = Server::builder().aof("always").replica_of(&second).start();
    third.wait_in_sync(&second);
    let mut client = first.client();
    for number in 0..COMMANDS {
        let command = anything(&mut random);
        somehow(&mut client, &command, &mut random);
        match number % 500 {
            100 => drop(client.cmd("BGREWRITEAOF")),
            200 => drop(second.cmd("BGREWRITEAOF")),
            300 => drop(client.cmd("CLIENT KILL TYPE replica")),
            400 => drop(second.cmd("CLIENT KILL TYPE replica")),
            _ => {}
        }
    }
    all_have_the_same([(&first, &second), (&second, &third)]);
    let keys = first.keys();
    // Files that were rewritten in the middle, with and without a preamble, and what came since.
    for server in [third, second, first] {
        server.expect("REPLICAOF NO ONE", OK);
        server.wait_for_rewrite();
        server.expect("DEBUG LOADAOF", OK);
        server.keys().are(&keys);
    }
}

#[test]
fn a_replica_that_is_promoted_in_the_middle_goes_on_from_there() {
    let mut random = random();
    let first = Server::builder().aof("always").config(&harness::listener::line()).start();
    let second = Server::builder().aof("always").config(&harness::listener::line()).replica_of(&first).start();
    let third = Server::builder().replica_of(&second).start();
    third.wait_in_sync(&second);
    let mut servers = [&first, &second];
    for _ in 0..4 {
        let mut client = servers[0].client();
        for _ in 0..COMMANDS / 4 {
            let command = anything(&mut random);
            somehow(&mut client, &command, &mut random);
        }
        if servers[0].port() == first.port() {
            all_have_the_same([(&first, &second), (&second, &third)]);
        } else {
            all_have_the_same([(&second, &first), (&second, &third)]);
        }
        servers.swap(0, 1);
        servers[0].promote();
        servers[1].follow(servers[0]);
        servers[1].wait_in_sync(servers[0]);
    }
}

#[test]
fn a_slot_that_moves_as_a_whole_takes_them_along() {
    let cluster = Cluster::start(3);
    let from = cluster.owner("{m}");
    let to = (from + 1) % 3;
    let mut writer = cluster.node(from).client();
    writer.expect("STOCK.CREATE {m}sale 1000000 LIMIT 1", OK);
    let mut fill = |range: std::ops::Range<usize>| {
        let taken = range.clone().map(|n| format!("STOCK.DECR_ONCE {{m}}sale before{n} HOLD 3600000"));
        let held = range.map(|n| format!("LOCK.ACQUIRE {{m}}{n} TOKEN t PX 3600000"));
        writer.pipeline(taken.chain(held)).into_iter().for_each(|reply| drop(reply.is(ANY)));
    };
    (0..10).for_each(|piece| fill(piece * 5_000..(piece + 1) * 5_000));
    let Some(begun) = cluster.move_whole_slot("{m}", from, to) else { return };
    assert!(!begun.is_error(), "{begun:?}");
    // Until the slot has gone.
    let (mut done, mut gone) = (0, false);
    while !gone {
        let replies = writer.pipeline([
            format!("STOCK.DECR_ONCE {{m}}sale during{done}"),
            format!("STOCK.CONFIRM {{m}}sale before{done}"),
            format!("STOCK.CANCEL {{m}}sale before{}", done + 25_000),
            format!("LOCK.RELEASE {{m}}{done} t"),
            format!("LOCK.MRELEASE t 2 {{m}}{} {{m}}{}", 49_999 - done, 25_000 + done),
        ]);
        gone = replies.iter().any(Reply::is_error);
        if !gone {
            done += 1;
            assert!(done < 12_000, "the slot does not move");
        }
    }
    assert!(done > 0);
    println!("{done} rounds while the slot was moving");
    let mut there = cluster.node(to).client();
    eventually("the new owner serves", || !there.cmd("EXISTS {m}sale").is_error());
    for number in 0..done {
        let state =
            |id: String, client: &mut Client| client.cmd(format!("STOCK.ORDER {{m}}sale {id}")).field("state").text();
        assert_eq!(state(format!("during{number}"), &mut there), "sold");
        assert_eq!(state(format!("before{number}"), &mut there), "sold");
        assert_eq!(state(format!("before{}", number + 25_000), &mut there), "cancelled");
        for lock in [number, 49_999 - number, 25_000 + number] {
            there.expect(format!("EXISTS {{m}}{lock}"), 0);
        }
    }
    let sale = there.cmd("STOCK.INFO {m}sale");
    let field = |name: &str| sale.field(name).int();
    assert_eq!(field("total"), field("remaining") + field("held") + field("sold"));
    assert!(!cluster.node(to).log().contains("is sending an error"));
}
