//! What contrib/ has for monitoring fits the module: `make test-monitoring` runs it with its own programs.

use std::collections::{BTreeMap, BTreeSet};

use harness::{Reply, Server};

const SCRIPT: &str = include_str!("../../../contrib/redis_exporter/lockstock.lua");
const FILES: [&str; 3] = [
    include_str!("../../../contrib/prometheus/lockstock.rules.yml"),
    include_str!("../../../contrib/grafana/lockstock.json"),
    include_str!("../../../docs/operations.md"),
];

/// What the script tells `redis_exporter`.
#[track_caller]
fn values(server: &Server) -> BTreeMap<String, String> {
    let values: Vec<String> = server.cmd(["EVAL", SCRIPT, "0"]).items().iter().map(Reply::text).collect();
    values.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

#[test]
fn the_script_tells_every_number_of_info() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    replica.wait_in_sync(&primary);
    for server in [&primary, &replica] {
        let info = server.info("lockstock");
        let fields = info.keys().filter_map(|field| field.strip_prefix("lockstock_"));
        let values = values(server);
        assert_eq!(fields.collect::<BTreeSet<_>>(), values.keys().map(String::as_str).collect());
        let modules = server.cmd("MODULE LIST");
        let ours = modules.items().iter().find(|module| module.field("name").text() == "lockstock");
        assert_eq!(values["version"], ours.expect("it is listed").field("ver").int().to_string());
    }
    assert_eq!(values(&Server::plain().start())["version"], "0");
}

#[test]
fn the_dashboard_shows_every_value() {
    let board = FILES[1].replace("\\\"", "\"");
    for key in values(&Server::start()).keys() {
        assert!(board.contains(&format!("key=\"{key}\"")), "{key} is not shown");
    }
}

#[test]
fn rules_and_dashboard_name_values_that_are_told() {
    let values = values(&Server::start());
    for file in FILES {
        let named = file.replace("\\\"", "\"");
        let named: BTreeSet<&str> = named.split("key=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(!named.is_empty());
        for key in named {
            assert!(values.contains_key(key), "there is no value {key}");
        }
    }
}
