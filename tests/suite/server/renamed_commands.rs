//! Servers whose operator has renamed or disabled commands that the module needs (`rename-command`).

use harness::shop::{Replay, books, events};
use harness::{ANY, Client, Cluster, INT, OK, Server, err, eventually, module_path};

use crate::support::line::Line;

/// A node of a cluster without these commands, and a key that it serves.
fn node_without(commands: &[&str]) -> (Cluster, usize) {
    let lines: Vec<String> = commands.iter().map(|command| format!("rename-command {command} \"\"")).collect();
    let cluster = Cluster::start_with(3, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let owner = cluster.owner("lock");
    (cluster, owner)
}

/// The lines of a server's log that name `command`.
fn warnings(server: &Server, command: &str) -> Vec<String> {
    let log = server.log();
    log.lines().filter(|line| line.contains("lockstock: ") && line.contains(command)).map(str::to_owned).collect()
}

#[test]
fn a_cluster_without_exists_hands_over_and_sells_as_ever() {
    let (cluster, owner) = node_without(&["EXISTS", "TOUCH", "MGET"]);
    let node = cluster.node(owner);
    node.expect("EXISTS lock", err("ERR unknown command"));
    let (mut line, mut holder) = (Line::at(node), node.client());
    let mut waiter = line.join_behind(&mut holder, 100);
    waiter.read().is(("waiter", INT, 60_000));
    waiter.expect("LOCK.RELEASE lock waiter", 1);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000 SESSION", ANY);
    let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    holder.close();
    waiter.read().is(("waiter", INT, 30_000));

    waiter.expect("STOCK.CREATE {lock}sale 5 STREAM {lock}events", OK);
    waiter.expect("STOCK.DECR_ONCE {lock}sale ann HOLD 1", ("OK", 1, 4, INT, ""));
    eventually("the hold lapses", || waiter.cmd("XLEN {lock}events").int() == 2);
    waiter.expect("STOCK.DECR_ONCE {lock}sale bob", ("OK", 1, 4, -1, ""));
    Replay::of(5, &events(&mut waiter, "{lock}events")).agrees_with(&mut waiter, "{lock}sale");
    // A slot on its way is still left to the node that gets it.
    let to = (owner + 1) % 3;
    cluster.begin_move("lock", owner, to);
    waiter.expect("STOCK.DECR_ONCE {lock}sale eve", ("OK", 1, 3, -1, ""));
    cluster.move_key("{lock}events", owner, to);
    waiter.expect("STOCK.DECR_ONCE {lock}sale fay", err("TRYAGAIN "));
    assert_eq!(warnings(node, "EXISTS"), [""; 0], "nothing is lacking");
}

/// Some servers find only the first key of a command of the module. They are asked about several keys by another command.
#[test]
fn a_cluster_without_unlink_hands_over_and_lets_holds_end_as_ever() {
    let (cluster, owner) = node_without(&["UNLINK"]);
    let node = cluster.node(owner);
    let (mut line, mut holder) = (Line::at(node), node.client());
    let mut waiter = line.join_behind(&mut holder, 100);
    waiter.read().is(("waiter", INT, 60_000));
    waiter.expect("STOCK.CREATE {lock}sale 5", OK);
    waiter.expect("STOCK.DECR_ONCE {lock}sale ann HOLD 1", ("OK", 1, 4, INT, ""));
    line.until("stock_lapses", 1);
    assert_eq!(warnings(node, "UNLINK").len(), 1);
}

#[test]
fn a_server_without_xadd_says_so_and_sells_nothing_from_a_sale_with_a_stream() {
    let server = Server::builder().config("rename-command XADD \"\"").start();
    let told = warnings(&server, "XADD");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("rename-command") && told[0].contains("STREAM"), "{told:?}");
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5 STREAM events", OK);
    let refused = "ERR the sale's stream does not take the event, so nothing was done: XADD is renamed or disabled";
    client.expect("STOCK.DECR_ONCE sale ann", err(refused));
    client.expect("STOCK.ADJUST sale 1", err(refused));
    assert_eq!((books(&mut client, "sale").remaining, client.cmd("DBSIZE").int()), (5, 1));
    client.expect("STOCK.CREATE plain 5", OK);
    client.expect("STOCK.DECR_ONCE plain ann", ("OK", 1, 4, -1, ""));
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
}

#[test]
fn each_command_that_is_missed_is_named_once_with_what_will_not_work() {
    let lacks = |lines: &[&str]| {
        let builder = lines.iter().fold(Server::builder(), |builder, command| {
            builder.config(&format!("rename-command {command} {command}-OF-THE-HOUSE"))
        });
        let server = builder.start();
        let log = server.log();
        let told = log.lines().filter(|line| line.contains("is renamed or disabled")).count();
        (server, told)
    };
    assert_eq!(lacks(&[]).1, 0);
    assert_eq!(lacks(&["EXISTS", "GET", "DEL", "FLUSHALL"]).1, 0);
    let commands = ["XADD", "XDEL", "UNLINK"];
    let (server, told) = lacks(&commands);
    assert_eq!(told, commands.len(), "{}", server.log());
    for command in commands {
        assert_eq!(warnings(&server, command).len(), 1, "{command}");
    }
    let mut client: Client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    // Some are needed by some servers only.
    for (command, is_needed) in
        [("PUBLISH", true), ("FUNCTION", server.version()[0] == 7), ("CLIENT", server.is_valkey()), ("CLUSTER", false)]
    {
        assert_eq!(lacks(&[command]).1, usize::from(is_needed), "{command}");
    }
}

/// No server of the tests has the setting. Here MGET stands in for CONFIG, so the server answers CONFIG GET with the value of a key.
#[test]
fn a_server_that_is_set_up_to_save_without_a_fork_is_warned_once() {
    // As every server of the tests answers.
    let server = Server::start();
    assert!(warnings(&server, "forkless").is_empty());
    if server.is_valkey() && server.version()[0] >= 9 {
        // It does not start with another command in CONFIG's place.
        return;
    }
    let told = |value: &str| {
        let server = Server::plain()
            .config("rename-command CONFIG \"\"")
            .config("rename-command MGET CONFIG")
            .config("enable-module-command yes")
            .start();
        server.expect(["SET", "forkless-infrastructure-enabled", value], OK);
        server.expect(["MODULE", "LOAD", module_path().to_str().expect("a path")], OK);
        server.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
        warnings(&server, "forkless-infrastructure-enabled is yes: ").len()
    };
    assert_eq!(told("yes"), 1);
    assert_eq!(told("no"), 0);
}
