//! Where the server is.

use harness::{Cluster, Server, eventually};

use super::support::{at, ended, refused};

#[test]
fn a_cluster() {
    let cluster = Cluster::start(3);
    let nodes = [0, 1, 2].map(|number| cluster.node(number).address().to_string());
    for (number, node) in nodes.iter().enumerate() {
        // A node that is not there is passed over.
        let url = format!("redis+cluster://127.0.0.1:1,{node}");
        // The first lock is extended once.
        for (key, time) in [("a", "1.2"), ("b", "0"), ("c", "0"), ("d", "0")] {
            let run = ended(at(&url, &["run", key, "--wait", "5s", "--lease", "3s", "--", "sleep", time]));
            assert_eq!((run.status, run.err.as_str()), (Some(0), ""), "{number} {key}");
        }
    }
    let url = format!("redis+cluster://{}", nodes.join(","));
    assert_eq!(ended(at(&url, &["run", "{x}a", "{x}b", "--", "true"])).status, Some(0));
    refused(at(&url, &["run", "a", "b", "--", "true"]), 64, "slot");
}

#[test]
fn sentinel_and_a_failover_while_the_command_runs() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let sentinel = primary.watched_with(&replica);
    let url = format!("redis+sentinel://127.0.0.1:1,{}/main", sentinel.address());
    let dir = tempfile::tempdir().expect("a directory");
    let waits = "while [ ! -e $DIR/go ]; do sleep 0.05; done";
    let mut run = at(&url, &["run", "job", "--lease", "20s", "--", "sh", "-c", waits]);
    let run = run.env("DIR", dir.path()).spawn().expect("it runs");
    eventually("the replica has it", || replica.cmd("EXISTS job").int() == 1);
    eventually("it fails over", || !sentinel.cmd("SENTINEL FAILOVER main").is_error());
    // Sentinel closes the connections of both.
    let role = |server: &Server| format!("{:?}", server.client().ask("ROLE"));
    eventually("the replica is the primary", || role(&replica).contains("master"));
    eventually("the primary is a replica", || role(&primary).contains("slave"));
    std::fs::write(dir.path().join("go"), "").expect("written");
    let ended: super::support::Ended = run.wait_with_output().expect("it ends").into();
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
    assert_eq!(replica.cmd("EXISTS job").int(), 0);
    refused(at(&format!("redis+sentinel://{}/other", sentinel.address()), &["run", "a", "--", "true"]), 69, "");
}
