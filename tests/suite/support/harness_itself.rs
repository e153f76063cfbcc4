//! The harness on trial: what the other tests lean on holds on the server at hand, without the module.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Duration;

use harness::*;

#[test]
fn a_server_serves_and_says_what_it_is() {
    let server = Server::plain().start();
    assert!(server.version() >= [7, 0, 0], "{:?}", server.version());
    let info = server.info("server");
    assert_eq!(info.contains_key("valkey_version"), server.is_valkey());
    assert_eq!(info["process_id"], server.pid().to_string());
    assert!(server.log().contains("eady to accept connections"), "{}", server.log());
    assert!(server.conf_path().is_file());
    server.expect("DEBUG SLEEP 0", OK);
}

#[test]
fn a_server_can_be_run_by_another_program() {
    let niceness = |process: &str| -> i32 {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        // The name in parentheses may have spaces; 16 fields after it comes the niceness.
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(16)).unwrap().parse().unwrap()
    };
    let server = Server::plain().under(&["nice", "-n", "3"]).start();
    assert_eq!(niceness(&server.pid().to_string()), (niceness("self") + 3).min(19));
}

#[test]
fn nothing_is_left_of_a_dropped_server() {
    let server = Server::plain().start();
    let (dir, port) = (server.dir().to_owned(), server.port());
    drop(server);
    assert!(!dir.exists());
    assert!(Client::try_connect(port).is_err());
}

#[test]
fn what_is_to_stay_stays() {
    let mut server = Server::plain().start();
    server.keep();
    let dir = server.dir().to_owned();
    drop(server);
    assert!(dir.join("server.log").is_file());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_server_listens_where_it_is_told_and_is_started_by_what_it_is_told() {
    let server = Server::plain().host([127, 0, 0, 2].into()).under(&["env", "TZ=UTC"]).start();
    assert!(Client::try_connect(server.port()).is_err());
    assert_eq!(server.info_int("server", "process_id"), i64::from(server.pid()));
    let replica = Server::plain().host([127, 0, 0, 3].into()).replica_of(&server).start();
    replica.wait_in_sync(&server);
}

#[test]
fn a_sentinel_watches() {
    let server = Server::plain().start();
    let watched = format!("sentinel monitor lead 127.0.0.1 {} 1", server.port());
    let sentinel = Server::plain().sentinel().config(&watched).start();
    let address = sentinel.cmd("SENTINEL GET-MASTER-ADDR-BY-NAME lead");
    assert_eq!(address.at(1).text(), server.port().to_string());
}

#[test]
fn silence_is_told_from_a_connection_that_ended() {
    let mut server = Server::plain().start();
    let mut client = server.client();
    assert_eq!(client.ask_within("BLPOP list 0", Duration::from_millis(10)), Err(Nothing::Silence));
    server.kill9();
    assert_eq!(client.ask_within("PING", PATIENCE), Err(Nothing::Closed));
}

#[test]
fn a_crash_that_the_test_did_not_see_fails_it_and_keeps_the_evidence() {
    let failed = catch_unwind(|| {
        let server = Server::plain().start();
        let mut client = server.client();
        client.send("DEBUG SEGFAULT");
        client.read_to_end();
        let dir = server.dir().to_owned();
        let died = catch_unwind(move || drop(server)).unwrap_err();
        (dir, *died.downcast::<String>().unwrap())
    });
    let (dir, message) = failed.unwrap();
    assert!(message.contains("the server died") && message.contains("BUG REPORT START"), "{message}");
    assert!(dir.join("server.log").is_file());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn whoever_asks_for_a_crash_is_told_of_it_and_the_drop_is_not() {
    let mut server = Server::plain().start();
    assert_eq!(server.crash(), None);
    server.client().send("DEBUG SEGFAULT");
    let story = eventually_some("the server crashes", || server.crash().filter(|story| story.contains("died")));
    assert!(story.contains("BUG REPORT START"), "{story}");
    drop(server);
    // So is a server that another process killed.
    let mut server = Server::plain().start();
    let pid = i32::try_from(server.pid()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the server is found dead", || server.crash().is_some());
}

#[test]
fn commands_are_sent_in_one_go_to_a_server_that_may_be_gone() {
    let mut server = Server::plain().start();
    let mut client = server.client();
    assert_eq!(client.try_send(&["ECHO a".into(), "ECHO b".into()]), Ok(()));
    assert_eq!([client.hear(PATIENCE), client.hear(PATIENCE)], ["a", "b"].map(|text| Ok(Reply::Bulk(text.into()))));
    assert_eq!(client.hear(Duration::from_millis(5)), Err(Nothing::Silence));
    server.kill9();
    assert_eq!(client.hear(PATIENCE), Err(Nothing::Closed));
}

#[test]
fn a_refused_start_gives_the_log() {
    let log = Server::plain().config("no-such-setting 1").start_refused();
    assert!(log.contains("no-such-setting"), "{log}");
}

#[test]
fn a_taken_port_is_avoided_unless_the_test_insists() {
    let first = Server::plain().start();
    let second = Server::plain().start();
    assert_ne!(first.port(), second.port());
    let insisted = catch_unwind(|| Server::plain().port(first.port()).start());
    let message = *insisted.err().unwrap().downcast::<String>().unwrap();
    assert!(message.contains("is taken"), "{message}");
    // The failed start leaves its log for a person to read, as it should; here nobody will.
    let log = message.lines().find_map(|line| line.strip_prefix("--- end of ")).unwrap();
    fs::remove_dir_all(Path::new(log).parent().unwrap()).unwrap();
}

#[test]
fn data_outlives_a_restart_by_rdb_and_a_power_cut_by_aof() {
    let mut rdb = Server::plain().start();
    rdb.expect("SET k v", OK);
    rdb.restart();
    rdb.expect("GET k", "v");

    let mut aof = Server::plain().aof("always").start();
    aof.expect("SET k v", OK);
    aof.kill9();
    aof.start_again();
    aof.expect("GET k", "v");
}

#[test]
fn the_aof_reads_as_commands_with_either_base() {
    let server = Server::plain().aof("always").start();
    server.expect("SET a 1", OK);
    assert_eq!(Aof::of(&server).commands, ["SET a 1"]);

    for (preamble, rdb) in [("yes", true), ("no", false)] {
        server.expect(format!("CONFIG SET aof-use-rdb-preamble {preamble}"), OK);
        server.expect("BGREWRITEAOF", ANY);
        eventually("the rewrite is done", || {
            let info = server.info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        server.expect("SET b 2", OK);
        let aof = Aof::of(&server);
        assert_eq!(aof.commands, ["SET b 2"]);
        match aof.base {
            Base::Rdb(bytes) => assert!(rdb && bytes.len() > 9, "{bytes:?}"),
            Base::Commands(commands) => assert!(!rdb && commands.contains(&"SET a 1".into()), "{commands:?}"),
            Base::Nothing => panic!("a rewrite leaves a base"),
        }
    }
}

#[test]
fn a_replica_catches_up_and_can_be_promoted() {
    let primary = Server::plain().start();
    let replica = Server::plain().replica_of(&primary).start();
    primary.expect("SET k v", OK);
    replica.wait_in_sync(&primary);
    replica.expect("GET k", "v");
    replica.expect("SET k w", err("READONLY"));
    replica.promote();
    replica.expect("SET k w", OK);
    primary.follow(&replica);
    primary.wait_in_sync(&replica);
    primary.expect("GET k", "w");
}

#[test]
fn a_tap_sees_what_a_replica_gets() {
    let server = Server::plain().start();
    server.expect("SET before 1", OK);
    let mut tap = Tap::attach(&server);
    let mut client = server.client();
    assert_eq!(tap.drain(), [""; 0]);
    client.expect("SET a 1", OK);
    client.expect("GET a", "1");
    client.pipeline(["MULTI", "SET b 2", "DEL a", "EXEC"]);
    assert_eq!(tap.drain(), ["SET a 1", "MULTI", "SET b 2", "DEL a", "EXEC"]);
    client.pipeline(["SELECT 3", "INCR n"]);
    assert_eq!([tap.next(), tap.next()], ["SELECT 3", "INCR n"]);
}

#[test]
fn a_client_sees_every_byte_and_loses_none() {
    let server = Server::plain().start();
    let mut client = server.client();
    client.send("SET k v");
    assert_eq!(client.read_raw(), b"+OK\r\n");
    client.send_raw(b"GET k\r\nPING\r\n");
    assert_eq!(client.read_bytes(10), b"$1\r\nv\r\n+PO");
    assert_eq!(client.read_line(), b"NG");
    client.expect([&b"SET"[..], b"bin\0ary", b"\xff\r\n"], OK);
    client.expect([&b"GET"[..], b"bin\0ary"], &b"\xff\r\n"[..]);
    client.expect("MGET k none", (TEXT, NULL));
    client.expect("MGET k none", items([Want::from("v"), NULL]));
    client.expect("DBSIZE", INT);
    assert_eq!(client.cmd("GET none"), Reply::Nil(Nil::Bulk));
    client.hello3();
    assert_eq!(client.cmd("GET none"), Reply::Nil(Nil::Resp3));
    client.expect("HSET h f v", 1);
    assert_eq!(client.cmd("HGETALL h").field("f"), Reply::Bulk(b"v".to_vec()));
    assert_eq!(client.pipeline(["PING x", "INCR n", "INCR n"]).last(), Some(&Reply::Int(2)));
}

#[test]
fn a_waiting_client_is_told_from_a_served_one() {
    let server = Server::plain().start();
    let (mut waiter, mut other) = (server.client(), server.client());
    waiter.send("BLPOP list 0");
    eventually("the waiter is parked", || server.info_int("clients", "blocked_clients") == 1);
    assert_eq!(waiter.try_read(Duration::from_millis(1)), None);
    other.expect("RPUSH list x", 1);
    waiter.read().is(("list", "x"));

    let id = waiter.id();
    waiter.send("BLPOP list 0");
    // The server notices the command when it gets to it: try until it has.
    eventually_some("the waiter is sent away", || {
        (other.cmd(format!("CLIENT UNBLOCK {id}")).int() == 1).then(|| waiter.read().is(NULL))
    });
}

#[test]
fn both_ways_to_hang_up_reach_the_server() {
    let server = Server::plain().start();
    let hang_up: [fn(Client); 2] = [Client::close, Client::reset];
    for hang_up in hang_up {
        let mut client = server.client();
        let id = client.id();
        hang_up(client);
        eventually("the connection is gone", || server.cmd(format!("CLIENT LIST ID {id}")).bytes().is_empty());
    }
    let mut victim = server.client();
    let id = victim.id();
    server.expect(format!("CLIENT KILL ID {id}"), 1);
    assert_eq!(victim.read_to_end(), []);
}

#[test]
fn a_cluster_serves_its_slots() {
    let mut cluster = Cluster::start(1);
    let [server] = cluster.nodes_mut() else { panic!("one node") };
    assert!(server.cluster_port().is_some());
    server.expect("SET k v", OK);
}
