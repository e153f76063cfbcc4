//! `lockstock top` and `lockstock doctor`, with real servers. `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use harness::{ANY, Cluster, OK, PATIENCE, Server, eventually, free_port};
use serde_json::Value;

fn lockstock(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstock"));
    command.args(words).env("LOCKSTOCK_URL", url).stdin(Stdio::null());
    command
}

fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

fn output(url: &str, words: &[&str]) -> Output {
    lockstock(url, words).output().expect("lockstock runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(url: &str, words: &[&str]) -> Value {
    let output = output(url, &[&["top", "--once", "--json"], words].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn top_shows_locks_and_sales() {
    let server = Server::start();
    assert_eq!(json(&url(&server), &[]), serde_json::json!({"locks": [], "sales": []}));
    let none = output(&url(&server), &["top", "--once"]);
    assert_eq!(text(&none.stdout), "no locks\n\nno sales\n");
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE job TOKEN holder PX 60000 SESSION", ANY);
    let mut waiter = server.client();
    waiter.send("LOCK.ACQUIRE job TOKEN waiter WAIT 0");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    server.expect("LOCK.ACQUIRE page TOKEN reader PX 60000 SHARED", ANY);
    server.expect("STOCK.CREATE mug 10", OK);
    server.expect("STOCK.DECR_ONCE mug ann QTY 2 HOLD 60000", ANY);
    server.expect("STOCK.DECR_ONCE mug bob", ANY);
    server.expect("SET other 1", OK);
    let seen = json(&url(&server), &[]);
    let job = &seen["locks"][0];
    assert_eq!((&job["key"], &job["mode"], &job["waiting"]), (&"job".into(), &"exclusive".into(), &1.into()));
    let hold = &job["holders"][0];
    assert_eq!((&hold["token"], &hold["session"]), (&"holder".into(), &true.into()));
    assert!(hold["fence"].as_i64() > Some(0) && hold["lease_ms"].as_i64() > Some(50_000));
    assert_eq!(job["waiters"][0]["token"], "waiter");
    assert!(job["waiters"][0]["waited_ms"].is_u64());
    assert_eq!(seen["locks"][1]["mode"], "shared");
    let mug = serde_json::json!(
        {"key": "mug", "total": 10, "remaining": 7, "held": 2, "sold": 1, "waiting": 0, "orders": 2}
    );
    assert_eq!(seen["sales"], serde_json::json!([mug]));
    assert_eq!(json(&url(&server), &["--match", "m*"])["locks"], serde_json::json!([]));
    let table = text(&output(&url(&server), &["top", "--once"]).stdout);
    for words in ["LOCK", "holder (session)", "waiter", "ORDERS", "mug"] {
        assert!(table.contains(words), "{table}");
    }
}

#[test]
fn top_goes_on_and_shows_what_is_new() {
    let server = Server::start();
    let mut top =
        lockstock(&url(&server), &["top", "--json", "--every", "100ms"]).stdout(Stdio::piped()).spawn().expect("runs");
    let mut lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("it goes on").expect("text");
    assert!(!next().contains("job"));
    server.expect("LOCK.ACQUIRE job TOKEN me PX 60000", ANY);
    let begun = Instant::now();
    while !next().contains("\"job\"") {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    server.expect("DEL job", 1);
    while next().contains("\"job\"") {
        assert!(begun.elapsed() < PATIENCE);
    }
    top.kill().expect("it runs");
    top.wait().expect("it ends");
}

#[test]
fn top_looks_at_every_node_of_a_cluster() {
    let cluster = Cluster::start(3);
    for key in ["a", "b", "c", "d", "e", "f"] {
        cluster.node(cluster.owner(key)).expect(["LOCK.ACQUIRE", key, "PX", "60000"], ANY);
    }
    let seen = json(&format!("redis+cluster://{}", cluster.node(1).address()), &[]);
    assert_eq!(seen["locks"].as_array().map(Vec::len), Some(6));
}

#[test]
fn top_says_in_one_line_what_it_cannot_see() {
    for (url, words) in [("redis://127.0.0.1:1", "reached"), (&url(&Server::plain().start()), "module")] {
        let output = output(url, &["top", "--once"]);
        assert_eq!(output.status.code(), Some(69));
        let said = text(&output.stderr);
        assert!(said.starts_with("lockstock: ") && said.contains(words) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn doctor_finds_nothing_and_then_what_was_broken() {
    let server = Server::builder().aof("everysec").start();
    let healthy = output(&url(&server), &["doctor"]);
    assert_eq!((healthy.status.code(), text(&healthy.stdout)), (Some(0), "Nothing to mend.\n".into()));
    server.expect("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru", OK);
    server.expect("ACL SETUSER taker on >x ~* -@all +lock.acquire", OK);
    let ill = output(&url(&server), &["doctor"]);
    let said = text(&ill.stdout);
    assert_eq!(ill.status.code(), Some(1), "{said}");
    assert!(said.starts_with("BAD ") && said.contains("maxmemory-policy is allkeys-lru"), "{said}");
    assert!(said.contains("taker may LOCK.ACQUIRE and not LOCK.RELEASE"), "{said}");
}

#[test]
fn doctor_looks_at_replicas_too() {
    let primary = Server::builder().aof("everysec").start();
    let replica = Server::plain().replica_of(&primary).start();
    eventually("it follows", || primary.info_int("replication", "connected_slaves") == 1);
    let said = text(&output(&url(&primary), &["doctor"]).stdout);
    assert!(said.contains(&format!("{}: the module is not loaded", replica.address())), "{said}");
    assert!(said.contains("min-replicas-to-write"), "{said}");
}

#[test]
fn doctor_that_may_not_read_settings_says_so_and_guesses_nothing() {
    let server = Server::builder().config("save 900 1").start();
    server.expect("ACL SETUSER eye on >x ~* &* +@all -config", OK);
    let url = format!("redis://eye:x@{}", server.address());
    let said = text(&output(&url, &["doctor"]).stdout);
    assert!(said.contains("1 finding.") && said.contains("its settings cannot be read"), "{said}");
    server.expect("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru min-replicas-to-write 1", OK);
    for url in [url, self::url(&server)] {
        let said = text(&output(&url, &["doctor"]).stdout);
        assert!(said.contains("maxmemory-policy is allkeys-lru"), "{said}");
        assert!(said.contains("and 0 replicas are near enough"), "{said}");
    }
}

#[test]
fn doctor_examines_what_has_a_name_that_is_no_text() {
    let server = Server::builder().aof("everysec").start();
    for (sale, stream) in [(&b"sale\xff"[..], &b"old\xfe"[..]), (b"sale", b"older")] {
        server.expect([b"XADD".as_slice(), stream, b"1-1", b"some", b"thing"], ANY);
        server.expect([b"STOCK.CREATE".as_slice(), sale, b"10", b"STREAM", stream], OK);
    }
    let user: [&[u8]; 7] = [b"ACL", b"SETUSER", b"taker\xff", b"on", b"~*", b"-@all", b"+lock.acquire"];
    server.expect(user, OK);
    let said = text(&output(&url(&server), &["doctor"]).stdout);
    for name in [r"the stream old\xfe", "the stream older", r"the user taker\xff"] {
        assert!(said.contains(&format!("{name} ")), "{name}: {said}");
    }
}

#[test]
fn doctor_that_gets_no_answer() {
    let silent = output("redis://127.0.0.1:1", &["doctor"]);
    assert_eq!(silent.status.code(), Some(2));
    assert!(text(&silent.stderr).starts_with("lockstock: ") && silent.stdout.is_empty());
}

#[test]
fn top_needs_few_rights() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN me PX 60000", ANY);
    server.expect("ACL SETUSER eye on >x ~* -@all +lock.info +stock.info +scan +dbsize", OK);
    assert_eq!(json(&format!("redis://eye:x@{}", server.address()), &[])["locks"][0]["key"], "job");
}

/// A server with a certificate that signs itself, its URL, and the file of the certificate.
fn with_tls() -> (Server, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key",
            "-out",
            "certificate",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder.path())
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    let (port, file) = (free_port(), |name: &str| folder.path().join(name).display().to_string());
    let server = Server::builder()
        .config(&format!("tls-port {port}"))
        .config(&format!("tls-cert-file {}", file("certificate")))
        .config(&format!("tls-key-file {}", file("key")))
        .config(&format!("tls-ca-cert-file {}", file("certificate")))
        .config("tls-auth-clients no")
        .start();
    (server, format!("rediss://localhost:{port}"), folder)
}

#[test]
fn over_tls_it_runs_a_command_under_a_lock_and_trusts_no_other_certificate() {
    let (server, url, folder) = with_tls();
    let mut run = lockstock(&url, &["run", "job", "--", "sh", "-c", "echo held by $LOCKSTOCK_TOKEN"]);
    let refused = run.output().expect("lockstock runs");
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    assert!(text(&refused.stderr).starts_with("lockstock: ") && refused.stdout.is_empty(), "{refused:?}");
    let trusted = run.env("SSL_CERT_FILE", folder.path().join("certificate")).output().expect("lockstock runs");
    assert!(trusted.status.success() && text(&trusted.stdout).starts_with("held by "), "{trusted:?}");
    assert_eq!(server.info_int("lockstock", "lockstock_lock_grants"), 1);
}

#[test]
fn help_and_the_man_page_name_everything() {
    let help = text(&output("", &["run", "--help"]).stdout);
    let page = text(&output("", &["man"]).stdout).replace("\\-", "-");
    for words in ["--wait", "--lease", "--session", "--at-least", "--replicas", "--skip", "128 + n", "LOCKSTOCK_FENCE"]
    {
        assert!(help.contains(words) && page.contains(words), "{words}");
    }
    for words in ["COMMAND TOP", "COMMAND DOCTOR", "--once", "--match"] {
        assert!(page.contains(words), "{words}");
    }
}
