//! docs/operations.md is true: what an operator is told to type works, and what goes wrong without it does.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use harness::{ANY, Client, INT, OK, Reply, Server, Words, err, eventually, module_path, server_path};

use super::page::OPERATIONS;
use super::play::play_on;

#[test]
fn a_replica_without_the_module_looks_healthy_and_has_nothing() {
    let primary = Server::start();
    let replica = Server::plain().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    play_on(&OPERATIONS, &primary, &[("replica", &replica)]);
    assert_eq!(replica.info("replication")["master_link_status"], "up");
    eventually("it counts what it could not apply", || replica.info_int("stats", "unexpected_error_replies") > 0);
    assert!(replica.log().contains("is sending an error to its"), "{}", replica.log());
}

#[test]
fn a_replica_without_the_module_cannot_load_what_the_primary_has() {
    let primary = Server::start();
    primary.expect("LOCK.ACQUIRE job TOKEN ann", ANY);
    let mut replica = Server::plain().start();
    replica.follow(&primary);
    eventually("it says why", || ["no matching module", "lockstk-l"].iter().all(|word| replica.log().contains(word)));
    eventually("and ends", || TcpStream::connect(replica.address()).is_err());
    replica.kill9();
}

#[test]
fn a_replica_that_has_missed_effects_loads_everything_anew_when_it_has_the_module() {
    let primary = Server::start();
    let replica = Server::plain().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    primary.expect("LOCK.ACQUIRE job TOKEN ann", ANY);
    replica.wait_in_sync(&primary);
    replica.expect(["MODULE", "LOAD", &module_path().display().to_string()], OK);
    replica.expect("EXISTS job", 0);
    replica.expect("REPLICAOF NO ONE", OK);
    replica.expect(format!("REPLICAOF 127.0.0.1 {}", primary.port()), OK);
    eventually("it has the lock", || replica.cmd("EXISTS job") == Reply::Int(1));
}

#[test]
fn a_file_that_may_not_be_executed_is_not_loaded() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("liblockstock.so");
    fs::copy(module_path(), &file).expect("a copy");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("its mode");
    let started = Command::new(server_path())
        .args(["--port", "0", "--unixsocket", "never.sock", "--logfile", "", "--loadmodule"])
        .arg(&file)
        .current_dir(folder.path())
        .output();
    let started = started.expect("a server");
    let log = String::from_utf8_lossy(&started.stdout);
    assert!(!started.status.success() && log.contains("execute permissions"), "{log}");
}

#[test]
fn with_a_timeout_the_server_closes_idle_connections_and_their_sessions_end() {
    let server = Server::start();
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE job TOKEN ann EX 3600 SESSION", ANY);
    server.expect("CONFIG SET timeout 1", OK);
    let mut next = server.client();
    // A waiting client is not idle.
    next.expect("LOCK.ACQUIRE job TOKEN bob WAIT 0", ("bob", INT, 30_000));
}

#[test]
fn a_module_that_an_included_file_names_is_loaded_twice_after_a_rewrite() {
    let folder = tempfile::tempdir().expect("a directory");
    let included = folder.path().join("lockstock.conf");
    fs::write(&included, format!("loadmodule {}\n", module_path().display())).expect("a file");
    let server = Server::plain().config(&format!("include {}", included.display())).start();
    server.expect("LOCK.ACQUIRE job TOKEN ann", ("ann", INT, 30_000));
    server.expect("CONFIG REWRITE", OK);
    let again = Command::new(server_path())
        .arg(server.conf_path())
        .args(["--port", "0", "--unixsocket", "again.sock", "--logfile", ""])
        .output();
    let again = again.expect("a server");
    let log = String::from_utf8_lossy(&again.stdout);
    assert!(!again.status.success() && log.contains("lockstock is not loaded: it is loaded already"), "{log}");
}

#[test]
fn a_start_that_is_refused_is_explained_in_the_log() {
    let out_of_range = Server::builder().config("lockstock.max-keys 0").start_refused();
    let last: Vec<&str> = out_of_range.lines().skip_while(|line| !line.contains("must be between 1 and")).collect();
    assert!(last.get(1).is_some_and(|line| line.contains("lockstock is not loaded")), "{out_of_range}");
    let unknown = Server::builder().config("lockstock.max-key 5").start_refused();
    let words = "Module Configuration detected without loadmodule directive or no ApplyConfig call";
    assert!(OPERATIONS.text.contains(words) && unknown.contains(words), "{unknown}");
    assert_eq!(unknown.contains("lockstock.max-key"), !unknown.contains("version=7.0"), "{unknown}");
}

/// The figure of the row of the page's table that begins so, in bytes.
#[track_caller]
fn figure(row: &str) -> i64 {
    let start = format!("| {row} | ");
    let rest = OPERATIONS.text.lines().find_map(|line| line.strip_prefix(&start));
    let figure = rest.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("no row {start}"));
    figure.parse().expect("a number of bytes")
}

/// Does `call` so often with other numbers in place of `#`, and returns what one of them takes, in bytes.
#[track_caller]
fn each_takes(server: &Server, count: i64, call: &str) -> i64 {
    let used = || server.info_int("memory", "used_memory");
    let mut client = server.client();
    let before = used();
    for first in (0..count).step_by(1_000) {
        let calls = (first..first + 1_000).map(|number| Words::from(call.replace('#', &format!("{number:08}"))));
        for reply in client.pipeline(calls) {
            assert!(!reply.is_error(), "{call}: {reply:?}");
        }
    }
    (used() - before) / count
}

#[test]
fn what_is_kept_takes_no_more_than_the_page_says() {
    const UUID: &str = "67e55044-10b1-426f-9247-bb68#";
    let uuid = |call: &str| call.replace('%', UUID);
    for (row, call) in [
        ("a held lock", "LOCK.ACQUIRE lock:# TOKEN % EX 3600"),
        ("a lock held with `SESSION`", "LOCK.ACQUIRE lock:# TOKEN % EX 3600 SESSION"),
        ("one more holder of a `SHARED` or `LIMIT` lock", "LOCK.ACQUIRE lock TOKEN % EX 3600 SHARED"),
        ("a sale", "STOCK.CREATE sale:# 100"),
        ("an order, sold, without a buyer and a reference", "STOCK.DECR_ONCE goods %"),
        ("an order, held, with a buyer and a reference", "STOCK.DECR_ONCE goods % BUYER b:# HOLD 3600000 REF cart:#"),
        (
            "an order on the waitlist, with a buyer and a reference",
            "STOCK.DECR_ONCE none % BUYER b:# HOLD 3600000 REF cart:# WAITLIST",
        ),
        ("a request that waits, with `NOTIFY`", "LOCK.ACQUIRE busy TOKEN % WAIT 0 NOTIFY news"),
    ] {
        let server = Server::start();
        server.expect("STOCK.CREATE goods 1000000", OK);
        server.expect("STOCK.CREATE none 1", OK);
        server.expect("STOCK.DECR_ONCE none first", ("OK", 1, 0, -1, ""));
        server.expect("LOCK.ACQUIRE busy TOKEN holder EX 3600", ANY);
        let (taken, said) = (each_takes(&server, 30_000, &uuid(call)), figure(row));
        assert!(taken <= said && taken >= said / 3, "{row}: {taken} bytes, not {said}");
    }
}

#[test]
fn who_waits_takes_no_more_than_the_page_says() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE lock TOKEN holder EX 3600", ANY);
    let mut clients: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for client in &mut clients {
        client.expect("PING", ANY);
    }
    let used = || server.info_int("memory", "used_memory");
    let before = used();
    for client in &mut clients {
        client.send("LOCK.ACQUIRE lock WAIT 0");
    }
    eventually("all wait", || server.info_int("lockstock", "lockstock_lock_waiters") == 200);
    let (taken, said) = ((used() - before) / 200, figure("a request that waits, blocked"));
    assert!(taken <= said && taken >= said / 4, "{taken} bytes, not {said}");
}

#[test]
fn the_rules_for_users_let_each_do_its_work_and_nothing_else() {
    let mut server = Server::builder();
    let blocks = OPERATIONS.blocks("conf");
    let users = blocks.iter().flat_map(|block| &block.lines).filter(|(_, line)| line.starts_with("user "));
    for (_, line) in users {
        server = server.config(line);
    }
    let server = server.start();
    let mut owner = server.client();
    let login = |name: &str| {
        let mut client = server.client();
        client.expect(["AUTH", name, &format!("{name}-password")], OK);
        client.expect("PING", ANY);
        client
    };
    let (mut worker, mut shop, mut operator) = (login("worker"), login("shop"), login("operator"));

    worker.expect("LOCK.ACQUIRE job:1 TOKEN ann", ANY);
    worker.expect("LOCK.EXTEND job:1 ann", 1);
    worker.expect("LOCK.INFO job:1", ANY);
    worker.expect("LOCK.RELEASE job:1 ann", 1);
    worker.expect("LOCK.MACQUIRE 2 job:1 job:2 TOKEN ann", ANY);
    worker.expect("LOCK.MEXTEND ann 2 job:1 job:2 PX 60000", 1);
    let mut second = login("worker");
    // A channel of its own, and one as the packages for Python and Node make it up.
    for (file, channel) in [("python/lockstock/line.py", "f\"lockstock:{"), ("node/lib/listener.js", "lockstock:$")] {
        let source = fs::read_to_string(format!("clients/{file}")).expect("a file of the package");
        assert!(source.contains(channel), "{file} names its channels in another way");
    }
    for channel in ["job:news", "lockstock:news"] {
        second.expect(["LOCK.ACQUIRE", "job:1", "TOKEN", "bob", "WAIT", "60000", "NOTIFY", channel], 1);
        second.expect("LOCK.RELEASE job:1 bob", 0);
    }
    second.expect("LOCK.ACQUIRE job:1 TOKEN bob WAIT 60000 NOTIFY news", err("NOPERM"));
    second.expect("SUBSCRIBE job:news", ANY);
    worker.expect("LOCK.MRELEASE ann 2 job:1 job:2", 2);

    operator.expect("STOCK.CREATE sale:1 10 STREAM events:1", OK);
    operator.expect("STOCK.ADJUST sale:1 5", 15);
    shop.expect("STOCK.DECR_ONCE sale:1 a HOLD 60000", ("OK", 1, 14, INT, ""));
    for call in ["STOCK.EXTEND sale:1 a PX 5000", "STOCK.CONFIRM sale:1 a", "STOCK.CANCEL sale:1 a"] {
        shop.expect(call, ("OK", INT, INT, INT, ""));
    }
    shop.expect("STOCK.MDECR_ONCE c 1 sale:1 15 HOLD 60000", ("OK", ("OK", 15, 0, INT, "")));
    shop.expect("STOCK.DECR_ONCE sale:1 d WAITLIST", ("QUEUED", 0, 0, -1, ""));
    shop.expect("STOCK.MCONFIRM c 1 sale:1", ("OK", ("OK", 15, 0, -1, "")));
    shop.expect("STOCK.MCANCEL c 1 sale:1", ("OK", ("OK", 0, 14, -1, "")));
    shop.expect("STOCK.ORDER sale:1 a", ANY);
    shop.expect("STOCK.BUYER sale:1 a", ANY);
    operator.expect("STOCK.ORDERS sale:1 0", ANY);
    operator.expect("STOCK.ALTER sale:1 LIMIT 2", OK);
    operator.expect("LOCK.INFO job:1", ANY);
    operator.expect("INFO lockstock", ANY);
    operator.expect("CONFIG GET lockstock.*", ANY);

    owner.expect("LOCK.ACQUIRE job:9 TOKEN stuck", ANY);
    operator.expect("DEL job:9", 1);

    let refused = [
        (
            &mut worker,
            ["LOCK.ACQUIRE other", "DEL job:1", "STOCK.INFO sale:1", "LOCK.APPLY job:1 ENDED ann", "CLIENT KILL ID 1"],
        ),
        (
            &mut shop,
            [
                "STOCK.CREATE sale:2 5",
                "STOCK.ADJUST sale:1 5",
                "STOCK.ORDERS sale:1 0",
                "LOCK.INFO job:1",
                "DEL sale:1",
            ],
        ),
        (
            &mut operator,
            ["STOCK.APPLY sale:1 LAPSED a", "FLUSHALL", "CONFIG SET lockstock.max-keys 5", "ACL LIST", "SHUTDOWN"],
        ),
    ];
    for (client, calls) in refused {
        for call in calls {
            client.expect(call, err("NOPERM"));
        }
    }
}

#[test]
fn a_server_from_which_everything_was_removed_starts_without_the_module() {
    let server = Server::builder().aof("always").start();
    for call in
        ["LOCK.ACQUIRE job TOKEN ann EX 3600", "STOCK.CREATE sale:1 5", "STOCK.DECR_ONCE sale:1 a", "SET other v"]
    {
        server.expect(call, ANY);
    }
    let without = || {
        let mut words = Command::new(server_path());
        words.args(["--port", "0", "--unixsocket", "without.sock", "--logfile", "", "--appendonly", "yes", "--dir"]);
        words
    };
    let copy = |name: &str| {
        let to = tempfile::tempdir().expect("a directory");
        let copied = Command::new("cp").arg("-r").arg(server.dir()).arg(to.path().join(name)).status();
        assert!(copied.expect("cp").success());
        to
    };
    // As it is, a server without the module refuses the files.
    let before = copy("files");
    let output = without().arg(before.path().join("files")).output().expect("a server");
    assert!(!output.status.success(), "{output:?}");

    for kind in ["lockstk-l", "lockstk-s"] {
        for key in server.cmd(["SCAN", "0", "COUNT", "1000", "TYPE", kind]).at(1).items() {
            server.expect(["UNLINK", &key.text()], 1);
        }
    }
    for call in OPERATIONS.text.lines().filter_map(|line| line.strip_prefix("redis-cli ")) {
        server.expect(call, ANY);
    }
    server.wait_for_rewrite();
    let after = copy("files");
    let files = after.path().join("files");
    let mut started = without().arg(&files).stdout(Stdio::null()).spawn().expect("a server");
    let ask = || Command::new("redis-cli").arg("-s").arg(files.join("without.sock")).args(["GET", "other"]).output();
    eventually("it starts and has the rest", || ask().expect("redis-cli").stdout == b"v\n");
    started.kill().expect("it ends");
    started.wait().expect("it ends");
}
