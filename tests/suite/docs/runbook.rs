//! docs/runbook.md: its commands, run as they are printed, and its lines of the log.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use harness::{ANY, Cluster, INT, NULL, OK, Server, err, eventually, free_port, repository, server_path};

use super::page::RUNBOOK;

/// A folder in which the commands of the page are run, with the programs that belong to the server.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let beside = server_path();
        let beside = beside.parent().expect("the server's folder");
        for program in ["cli", "check-rdb"] {
            let its_own = ["redis", "valkey"].map(|product| beside.join(format!("{product}-{program}")));
            // Programs of a server that is named without a path are in the PATH.
            if let Some(path) = its_own.iter().find(|path| path.is_absolute() && path.exists()) {
                symlink(path, folder.path().join(format!("redis-{program}"))).expect("a link");
            }
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the block of the page that begins so, with other words in place of some; returns what it printed.
    #[track_caller]
    fn run(&self, start: &str, instead: &[(&str, &str)]) -> String {
        let blocks = RUNBOOK.blocks("sh");
        let block = blocks.iter().find(|block| block.lines[0].1.starts_with(start));
        let block = block.unwrap_or_else(|| panic!("no block begins with {start}"));
        let text = instead.iter().fold(block.text(), |text, (old, new)| {
            assert!(text.contains(old), "{text}: no {old}");
            text.replace(old, new)
        });
        let path = format!("{}:{}", self.path().display(), std::env::var("PATH").expect("a PATH"));
        let output = Command::new("bash")
            .args(["-euc", &text])
            .current_dir(self.path())
            .env("PATH", path)
            .output()
            .expect("bash");
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}\n{said}\n{complained}");
        said.into_owned()
    }
}

#[test]
fn over_tls_a_lock_is_acquired_and_handed_over() {
    let desk = Desk::new();
    desk.run("openssl", &[]);
    let tls_port = free_port();
    let conf = RUNBOOK.blocks("conf");
    let conf = conf[0].lines.iter().map(|(_, line)| *line).filter(|line| *line != "port 0");
    let file = |name: &str| desk.path().join(name).display().to_string();
    let (certificate, key) = (file("server.crt"), file("server.key"));
    let server = conf.fold(Server::builder(), |builder, line| {
        let line = line.replace("6380", &tls_port.to_string());
        builder.config(&line.replace("server.crt", &certificate).replace("server.key", &key))
    });
    let server = server.start();
    let port = tls_port.to_string();
    let said = desk.run("redis-cli --tls", &[("6380", &port)]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 3 && lines[0] == "ann" && lines[2] == "30000", "{said}");
    let waiter = Command::new("bash")
        .args([
            "-c",
            "redis-cli --tls --cacert server.crt -h localhost -p \"$1\" LOCK.ACQUIRE job:1 TOKEN bob WAIT 0",
            "-",
        ])
        .arg(&port)
        .current_dir(desk.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("bash");
    eventually("bob waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    server.expect("LOCK.RELEASE job:1 ann", 1);
    let output = waiter.wait_with_output().expect("its end");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("bob\n"), "{output:?}");
}

#[test]
fn a_backup_is_restored_with_its_locks_and_orders() {
    let desk = Desk::new();
    let server = Server::start();
    let fence = server.expect("LOCK.ACQUIRE job TOKEN ann PX 600000", ("ann", INT, 600_000)).at(1).int();
    server.expect("LOCK.ACQUIRE short TOKEN ann PX 1", ANY);
    server.expect("STOCK.CREATE mug 10", OK);
    server.expect("STOCK.DECR_ONCE mug order:1 QTY 2", ANY);
    let port = server.port().to_string();
    desk.run("redis-cli -p 6379 --rdb", &[("6379", &port)]);
    server.expect("STOCK.DECR_ONCE mug order:2 QTY 3", ANY);

    let mut restored = Server::builder().config("appendonly no").start();
    restored.kill9();
    fs::copy(desk.path().join("backup.rdb"), restored.dir().join("dump.rdb")).expect("a copy");
    restored.start_again();
    let port = restored.port().to_string();
    desk.run("redis-cli -p 6379 CONFIG SET", &[("6379", &port)]);
    eventually("the file is written anew", || restored.info_int("persistence", "aof_rewrite_in_progress") == 0);
    assert_eq!(restored.info_int("persistence", "aof_enabled"), 1);

    restored.expect("LOCK.ACQUIRE job TOKEN bob", NULL);
    let next = restored.expect("LOCK.ACQUIRE short TOKEN bob", ("bob", INT, 30_000)).at(1).int();
    assert!(next > fence, "{next} {fence}");
    assert_eq!(restored.cmd("STOCK.DECR_ONCE mug order:1 QTY 2").at(0).text(), "DUPLICATE");
    assert_eq!(restored.cmd("STOCK.DECR_ONCE mug order:2 QTY 3").at(0).text(), "OK");
    assert_eq!(restored.cmd("STOCK.INFO mug").field("remaining"), server.cmd("STOCK.INFO mug").field("remaining"));
}

#[test]
fn a_new_node_takes_slots_with_their_locks_and_sales_from_a_node_in_use() {
    let desk = Desk::new();
    let cluster = Cluster::start(2);
    let new = Server::builder().cluster().start();
    let old = cluster.node(0);
    let (first, added) = (old.address().to_string(), new.address().to_string());
    let mut client = old.client();
    // The lowest slots are moved first.
    let tag = (0..10_000).find(|n| client.cmd(format!("CLUSTER KEYSLOT {{{n}}}")).int() < 100).expect("a tag");
    let (lock, sale) = (format!("{{{tag}}}lock"), format!("{{{tag}}}sale"));
    let fence = client.cmd(format!("LOCK.ACQUIRE {lock} TOKEN ann PX 600000")).at(1).int();
    client.expect(format!("STOCK.CREATE {sale} 5"), OK);
    client.expect(format!("STOCK.DECR_ONCE {sale} order:1 HOLD 600000"), ANY);
    let mut waiter = old.client();
    waiter.send(format!("LOCK.ACQUIRE {lock} TOKEN bob WAIT 0"));
    eventually("bob waits", || old.info_int("lockstock", "lockstock_lock_waiters") == 1);

    desk.run("redis-cli --cluster add-node", &[("127.0.0.1:7003", &added), ("127.0.0.1:7000", &first)]);
    eventually("all know the new node, and it knows all", || {
        let infos = [old, cluster.node(1), &new].map(|node| node.cmd("CLUSTER INFO").text());
        infos.iter().all(|info| info.contains("cluster_known_nodes:3") && info.contains("cluster_state:ok"))
    });
    let [from, to] = [old, &new].map(|node| node.cmd("CLUSTER MYID").text());
    let reshard = [("127.0.0.1:7000", first.as_str()), ("$FROM", &from), ("$TO", &to)];
    desk.run("redis-cli --cluster reshard", &reshard);

    waiter.read().is(err("MOVED"));
    assert_eq!(new.cmd(format!("LOCK.INFO {lock}")).field("holders").at(0).field("fence").int(), fence);
    new.expect(format!("LOCK.RELEASE {lock} ann"), 1);
    assert!(new.cmd(format!("LOCK.ACQUIRE {lock} TOKEN bob")).at(1).int() > fence);
    assert_eq!(new.cmd(format!("STOCK.DECR_ONCE {sale} order:1")).at(0).text(), "DUPLICATE");
    assert_eq!(new.cmd(format!("STOCK.INFO {sale}")).field("held").int(), 1);
}

/// All text of the sources below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap_or_default() })
        .collect()
}

#[test]
fn the_lines_of_the_log_are_those_that_the_module_writes() {
    // A text may be broken over lines of the source, and names in braces stand where the page has an ellipsis.
    let sources = sources(&repository().join("src")).replace("\\\n", " ");
    let sources = sources.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, after) = RUNBOOK.text.split_once("## Lines in the log").expect("the heading");
    let (section, _) = after.split_once("\n## ").expect("the next heading");
    let lines: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next()).collect();
    assert!(lines.len() >= 14, "{lines:?}");
    for line in lines {
        for part in line.split('`').flat_map(|line| line.split('…')).map(str::trim).filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "no source has: {part}");
        }
    }
}
