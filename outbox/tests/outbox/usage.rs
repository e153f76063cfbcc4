//! What is asked for wrongly, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;

use harness::{ANY, Cluster, OK, Server, eventually, free_port};

use crate::databases::{Database, Kind};
use crate::support::{EVERYTHING, Outbox, agree, once, sell, url};

/// Ends with this status and one line that has these words in it.
#[track_caller]
fn refused(server: &str, database: &str, words: &[&str], status: i32, reason: &str) {
    let ended = Outbox::at(server, database, words).ended();
    assert_eq!(ended.status, Some(status), "{ended:?}");
    let last = ended.said.lines().last().unwrap_or_default();
    assert!(last.starts_with("lockstock-outbox: ") && last.contains(reason), "{ended:?}");
    assert!(ended.said.lines().count() == 1, "{ended:?}");
}

#[test]
fn wrong_words_have_status_64() {
    let (server, to) = ("redis://127.0.0.1:1", "sqlite:orders.db");
    for (words, reason) in [
        (&[][..], "--sale"),
        (&["--sale", "a", "--batch", "0"], "--batch"),
        (&["--sale", "a", "--keep", "5"], "expected a time such as"),
        (&["--sale", "a", "--prefix", "a-b"], "--prefix"),
        (&["--sale", "a", "--sometimes"], "--sometimes"),
    ] {
        refused(server, to, words, 64, reason);
    }
    for wrong in ["http://localhost", "orders.db", "sqlite"] {
        refused(server, wrong, &["--sale", "a"], 64, "--to: ");
    }
    refused("http://localhost", to, &["--sale", "a"], 64, "--redis: ");
}

#[test]
fn who_refuses_is_named() {
    let (server, plain, database) = (Server::start(), Server::plain().start(), Database::start(Kind::Sqlite));
    let words = &["--sale", "a"];
    let wrong = format!("redis://ann:wrong@{}", server.address());
    refused(&wrong, &database.url(), words, 78, "the server refuses: WRONGPASS invalid");
    refused(&url(&plain), &database.url(), words, 78, "has not loaded the lockstock module");
    refused(&url(&server), "sqlite:/nowhere/at/all.db", words, 78, "the database refuses: ");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refused(&url(&server), &database.url(), &["--sale", "a", "--metrics", &address], 78, "--metrics ");
    server.expect("ACL SETUSER weak on >x ~* +@read -@all +info +hello", OK);
    let weak = format!("redis://weak:x@{}", server.address());
    refused(&weak, &database.url(), words, 78, "the server refuses: ");
}

#[test]
fn all_nodes_of_a_cluster_are_followed() {
    let (cluster, database) = (Cluster::start(3), Database::start(Kind::Sqlite));
    let sales = ["a", "b", "c", "d", "e", "f"].map(|name| format!("sale:{{{name}}}"));
    let mut owners = Vec::new();
    for sale in &sales {
        let mut client = cluster.node(cluster.owner(sale)).client();
        client.expect(format!("STOCK.CREATE {sale} 100 STREAM events:{sale} DEADLINES"), OK);
        sell(&mut client, sale, "a", 3);
        owners.push(cluster.owner(sale));
    }
    owners.sort_unstable();
    owners.dedup();
    assert!(owners.len() > 1, "{owners:?}");
    let url = format!("redis+cluster://{}", cluster.node(0).address());
    let outbox = Outbox::at(&url, &database.url(), &["--sale", "sale:*", "--keep", "0s"]);
    for sale in &sales {
        let mut client = cluster.node(cluster.owner(sale)).client();
        agree(&database, &mut client, sale);
        sell(&mut client, sale, "b", 3);
        agree(&database, &mut client, sale);
        eventually("it is trimmed", || client.cmd(format!("XLEN events:{sale}")).int() == 0);
    }
    outbox.end();
}

#[test]
fn its_user_needs_few_rights() {
    let (server, database) = (Server::start(), Database::start(Kind::Sqlite));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100 STREAM events", OK);
    sell(&mut client, "sale", "a", 3);
    let rights = "+lock.acquire +lock.release +lock.extend +lock.info +stock.info +stock.order +stock.orders +xrange +xrevrange \
                  +xinfo|stream +scan +time +xtrim";
    server.expect(format!("ACL SETUSER outbox on >x ~* -@all {rights}"), OK);
    let words = ["--sale", "s*", "--once", "--reconcile", "--events", "--keep", "0s"];
    let ended = Outbox::at(&format!("redis://outbox:x@{}", server.address()), &database.url(), &words).ended();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(crate::support::agrees(&database, &mut client, "sale"));
    client.expect("XLEN events", 0);
}

#[test]
fn a_password_that_a_database_does_not_know_is_refused() {
    let (server, postgres, mariadb) =
        (Server::start(), Database::start(Kind::Postgres), Database::start(Kind::MariaDb));
    let words = &["--sale", "a"];
    refused(&url(&server), &postgres.url_of("missing"), words, 78, "the database refuses: ");
    refused(&url(&server), &mariadb.url_of("missing"), words, 78, "the database refuses: ");
    let nobody = |database: &Database, name: &str| database.url().replacen(name, "nobody:wrong", 1);
    refused(
        &url(&server),
        &nobody(&postgres, "postgres@").replace("wrong", "wrong@"),
        words,
        78,
        "the database refuses: ",
    );
    refused(&url(&server), &nobody(&mariadb, "root"), words, 78, "the database refuses: ");
}

pub fn a_table_of_another_shape_is_refused(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    database.change("CREATE TABLE lockstock_orders (id INTEGER)");
    refused(&url(&server), &database.url(), &["--sale", "a"], 78, "the database refuses: ");
    database.change("DROP TABLE lockstock_orders");
    assert_eq!(once(&server, &database, &["--sale", "a"]), "lockstock-outbox: no sale matches\n");
    database.change("UPDATE lockstock_schema SET version = 2");
    refused(&url(&server), &database.url(), &["--sale", "a"], 78, "version 2");
}

pub fn another_prefix_has_tables_of_its_own(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 100 STREAM events DEADLINES", OK);
    sell(&mut client, "sale", "a", 3);
    once(&server, &database, &["--sale", "sale", "--prefix", "shop_"]);
    assert_eq!(database.rows("SELECT count(*) FROM shop_orders"), [["3"]]);
    assert_eq!(database.rows("SELECT seq FROM shop_sales"), [["3"]]);
    assert!(database.try_rows("SELECT * FROM lockstock_orders").is_err());
    assert!(database.try_rows("SELECT * FROM shop_events").is_err());
}

/// What it serves at this path.
fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a metric.
pub fn metric(address: &str, name: &str) -> f64 {
    let text = ask(address, "/metrics");
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0.0)
}

#[test]
fn prometheus_reads_the_lag() {
    let (server, database) = (Server::start(), Database::start(Kind::Sqlite));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    sell(&mut client, "sale", "a", 50);
    let address = format!("127.0.0.1:{}", free_port());
    let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--metrics", &address]].concat());
    agree(&database, &mut client, "sale");
    let ask = |path: &str| ask(&address, path);
    let has = |line: &str| ask("/metrics").lines().any(|found| found == line);
    assert!(ask("/metrics").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask("/").starts_with("HTTP/1.1 404 "));
    eventually("the lag is none", || has(r#"lockstock_outbox_lag_events{sale="sale"} 0"#));
    for line in [
        r#"lockstock_outbox_events_total{sale="sale"} 50"#,
        r#"lockstock_outbox_lag_seconds{sale="sale"} 0.000"#,
        r#"lockstock_outbox_stopped{sale="sale"} 0"#,
        r#"lockstock_outbox_errors_total{place="server"} 0"#,
    ] {
        assert!(has(line), "{line}: {}", ask("/metrics"));
    }
    // The sale goes on while the outbox is frozen, and its stream loses the events.
    outbox.signal(rustix::process::Signal::STOP);
    sell(&mut client, "sale", "b", 2);
    client.expect("XTRIM events MAXLEN 0", ANY);
    outbox.signal(rustix::process::Signal::CONT);
    eventually("it says that it has stopped", || has(r#"lockstock_outbox_stopped{sale="sale"} 1"#));
    assert!(has(r#"lockstock_outbox_lag_events{sale="sale"} 2"#), "{}", ask("/metrics"));
    assert!(!has(r#"lockstock_outbox_lag_seconds{sale="sale"} 0.000"#), "{}", ask("/metrics"));
    // A sale that is gone has no events.
    client.expect("DEL sale", 1);
    eventually("it is forgotten", || !ask("/metrics").contains("sale=\"sale\""));
    outbox.end();
}

#[test]
fn an_outbox_that_stands_in_line_tells_no_lag() {
    let (server, database) = (Server::start(), Database::start(Kind::Sqlite));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    let address = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let start = |address: &str| Outbox::start(&server, &database, &[EVERYTHING, &["--metrics", address]].concat());
    let lag = |address: &str| {
        ask(address, "/metrics").lines().filter(|line| line.starts_with("lockstock_outbox_lag_")).count()
    };
    let first = start(&address[0]);
    agree(&database, &mut client, "sale");
    eventually("the lag is known", || lag(&address[0]) == 2);
    let second = start(&address[1]);
    second.says("stands in line");
    assert_eq!(lag(&address[1]), 0);
    // Whose lock is taken away stands in line, too.
    first.signal(rustix::process::Signal::STOP);
    eventually("the other has it", || lag(&address[1]) == 2);
    first.signal(rustix::process::Signal::CONT);
    first.says("stands in line");
    assert_eq!(lag(&address[0]), 0);
    second.end();
    eventually("it has it again", || lag(&address[0]) == 2);
    first.end();
}

pub fn a_failure_is_reported_once_a_minute(kind: Kind) {
    let (server, database) = (Server::start(), Database::start(kind));
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 1000 STREAM events DEADLINES", OK);
    let address = format!("127.0.0.1:{}", free_port());
    let start = || Outbox::start(&server, &database, &[EVERYTHING, &["--metrics", &address]].concat());
    let fails = |outbox: Outbox, place: &str, mend: &dyn Fn()| {
        let tries = format!("lockstock_outbox_errors_total{{place=\"{place}\"}}");
        outbox.says("is away");
        eventually("it tries again", || metric(&address, &tries) >= 10.0);
        let said = outbox.said();
        assert_eq!((said.matches("is away").count(), said.matches("answers").count()), (1, 0), "{said}");
        mend();
        outbox.says(&format!("the {place} answers again"));
        outbox.end();
    };
    // The server answers what changes nothing.
    server.expect("CONFIG SET min-replicas-to-write 1", OK);
    fails(start(), "server", &|| drop(server.expect("CONFIG SET min-replicas-to-write 0", OK)));
    agree(&database, &mut client, "sale");
    if kind == Kind::Postgres {
        // The database takes the claim, and not the orders.
        database.change("CREATE FUNCTION fail() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$ LANGUAGE plpgsql");
        database.change("CREATE TRIGGER fails BEFORE INSERT ON lockstock_orders EXECUTE FUNCTION fail()");
        sell(&mut client, "sale", "a", 3);
        fails(start(), "database", &|| database.change("DROP TRIGGER fails ON lockstock_orders"));
        agree(&database, &mut client, "sale");
    }
}

#[test]
fn help_and_the_man_page_name_everything() {
    let output = |word: &str| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_lockstock-outbox")).arg(word).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").replace("\\-", "-")
    };
    for text in [output("--help"), output("--man")] {
        for words in [
            "--redis",
            "--to",
            "--sale",
            "--once",
            "--reconcile",
            "--keep",
            "--batch",
            "--metrics",
            "--events",
            "--prefix",
            "78",
            "lockstock_orders",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
