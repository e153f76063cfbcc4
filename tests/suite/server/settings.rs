//! Settings count wherever they are given; an unknown name or a value out of range refuses the start.

use std::fs;

use harness::{ANY, INT, OK, Reply, Server, TEXT, err, module_path};

const NAME: &str = "lockstock.default-lease-ms";

/// What the setting is, by what the server says and by what it does.
#[track_caller]
fn default_lease(server: &Server) -> i64 {
    let said = server.cmd(format!("CONFIG GET {NAME}")).at(1).text();
    let given = server.expect("LOCK.ACQUIRE probe", (TEXT, INT, INT)).at(2).int();
    server.expect("DEL probe", 1);
    assert_eq!(said, given.to_string());
    given
}

#[test]
fn a_default_needs_no_setting_and_config_set_changes_it_at_once() {
    let server = Server::start();
    assert_eq!(default_lease(&server), 30_000);
    for lease in [1_000, 9_007_199_254_740_991, 250_000] {
        server.expect(format!("CONFIG SET {NAME} {lease}"), OK);
        assert_eq!(default_lease(&server), lease);
    }
    for wrong in ["0", "-1", "9007199254740992", "x", "1.5", "1s", "18446744073709551616"] {
        server.expect(format!("CONFIG SET {NAME} {wrong}"), err("ERR"));
    }
    server.expect("CONFIG SET lockstock.no-such-thing 1", err("ERR"));
    assert_eq!(default_lease(&server), 250_000);
    // Either all of a command counts or nothing.
    server.expect(format!("CONFIG SET {NAME} 1000 maxmemory-samples x"), err("ERR"));
    assert_eq!(default_lease(&server), 250_000);
    assert_eq!(server.cmd("CONFIG GET lockstock.*").field(NAME).text(), "250000");
    server.expect("CONFIG GET LOCKSTOCK.default-LEASE-ms", ANY);
    server.expect("CONFIG RESETSTAT", OK);
}

/// Every setting: its name, its default, the least and the most it may be.
const ALL: [(&str, i64, i64, i64); 4] = [
    (NAME, 30_000, 1, 9_007_199_254_740_991),
    ("lockstock.max-waiters", 100_000, 0, 9_007_199_254_740_991),
    ("lockstock.max-keys", 1_000, 1, 1_000_000),
    ("lockstock.place-grace-ms", 1_000, 0, 3_600_000),
];

/// Every setting that is yes or no, and its default.
const SWITCHES: [(&str, &str); 3] = [
    ("lockstock.detect-deadlocks", "yes"),
    ("lockstock.accept-effects", "no"),
    ("lockstock.replicate-commands", "yes"),
];

#[test]
fn each_has_a_default_and_bounds_and_is_documented() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("CONFIG GET lockstock.*").fields().len(), ALL.len() + SWITCHES.len());
    let [page, example] = ["docs/commands.md", "redis.conf.example"].map(|name| fs::read_to_string(name).unwrap());
    for (name, default) in SWITCHES {
        client.expect(format!("CONFIG GET {name}"), (name, default));
    }
    for (name, default, least, most) in ALL {
        let mut value = |want: i64| client.expect(format!("CONFIG GET {name}"), (name, want.to_string().as_str()));
        value(default);
        assert!(
            page.lines().any(|line| line.starts_with(&format!("| `{name}` | {default} | "))),
            "{name} in docs/commands.md"
        );
        assert!(example.lines().any(|line| line == format!("{name} {default}")), "{name} in redis.conf.example");
        assert!(example.contains(&format!("From {least} to {most}.")), "the range of {name} in redis.conf.example");
        for within in [least, most] {
            server.expect(format!("CONFIG SET {name} {within}"), OK);
            value(within);
        }
        for beyond in [least - 1, most + 1] {
            server.expect(format!("CONFIG SET {name} {beyond}"), err("ERR"));
            value(most);
        }
    }
}

#[test]
fn a_switch_is_yes_or_no_wherever_it_is_given() {
    const SWITCH: &str = "lockstock.accept-effects";
    let server = Server::start();
    let is = |server: &Server, value: &str| {
        server.expect(format!("CONFIG GET {SWITCH}"), (SWITCH, value));
        let effect = server.cmd("LOCK.APPLY probe ENDED t");
        assert_eq!(effect == Reply::Simple("OK".into()), value == "yes", "{effect:?}");
    };
    is(&server, "no");
    for value in ["yes", "no", "YES"] {
        server.expect(format!("CONFIG SET {SWITCH} {value}"), OK);
        is(&server, &value.to_lowercase());
    }
    for wrong in ["1", "true", "x"] {
        server.expect(format!("CONFIG SET {SWITCH} {wrong}"), err("ERR"));
    }
    is(&server, "yes");
    is(&Server::builder().module_args("accept-effects yes").start(), "yes");
    is(&Server::builder().config(&format!("{SWITCH} yes")).start(), "yes");
    let log = Server::builder().module_args("accept-effects maybe").start_refused();
    assert!(log.contains("accept-effects must be yes or no, not 'maybe'"), "{log}");
    let [page, example] = ["docs/commands.md", "redis.conf.example"].map(|name| fs::read_to_string(name).unwrap());
    for (switch, default) in SWITCHES {
        assert!(page.contains(&format!("| `{switch}` | {default} | ")));
        assert!(example.contains(&format!("\n{switch} {default}\n")));
    }
}

#[test]
fn the_lease_of_extend_is_the_default_too() {
    let server = Server::builder().module_args("default-lease-ms 5000").start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 3000", ("t", INT, 3_000));
    client.expect("LOCK.EXTEND lock t", 1);
    let left = client.cmd("LOCK.INFO lock").field("holders").at(0).field("lease-ms").int();
    assert!((3_001..=5_000).contains(&left), "{left}");
}

#[test]
fn behind_loadmodule_and_in_the_configuration() {
    let server = Server::builder().module_args("default-lease-ms 5000").start();
    assert_eq!(default_lease(&server), 5_000);
    let server = Server::builder().module_args("Default-Lease-MS 5000").start();
    assert_eq!(default_lease(&server), 5_000);
    let server = Server::builder().config(&format!("{NAME} 7000")).start();
    assert_eq!(default_lease(&server), 7_000);
    // The line of its own is the later word, and the one that CONFIG REWRITE keeps.
    let server = Server::builder().module_args("default-lease-ms 5000").config(&format!("{NAME} 7000")).start();
    assert_eq!(default_lease(&server), 7_000);
}

#[test]
fn behind_module_load_in_a_running_server() {
    let server = Server::plain().start();
    server.expect(format!("MODULE LOAD {} default-lease-ms 5000", module_path().display()), OK);
    assert_eq!(default_lease(&server), 5_000);
}

#[test]
fn config_rewrite_keeps_what_was_set() {
    let server = Server::builder().module_args("default-lease-ms 5000").start();
    server.expect(format!("CONFIG SET {NAME} 9000"), OK);
    server.expect("CONFIG REWRITE", OK);
    let file = fs::read_to_string(server.conf_path()).unwrap();
    assert!(file.lines().any(|line| line == format!("{NAME} 9000")), "{file}");
    let module = file.lines().find(|line| line.starts_with("loadmodule")).unwrap();
    assert!(module.ends_with("default-lease-ms 5000"), "{module}");
    // What is left of the file makes the same server again.
    let again = Server::builder().module_args("default-lease-ms 5000").config(&format!("{NAME} 9000")).start();
    assert_eq!(default_lease(&again), 9_000);
}

#[test]
fn a_bad_one_refuses_the_start_and_the_log_names_it() {
    for (words, complaint) in [
        ("no-such-thing 1", "'no-such-thing' behind loadmodule is no setting of lockstock"),
        ("default-lease-ms", "'default-lease-ms' behind loadmodule has no value"),
        ("default-lease-ms 5000 extra", "'extra' behind loadmodule has no value"),
        ("default-lease-ms 0", "default-lease-ms must be an integer from 1 to 9007199254740991, not '0'"),
        ("default-lease-ms 9007199254740992", "not '9007199254740992'"),
        ("default-lease-ms 5s", "not '5s'"),
        ("default-lease-ms %s%n", "not '%s%n'"),
    ] {
        let log = Server::builder().module_args(words).start_refused();
        assert!(log.contains("lockstock is not loaded: ") && log.contains(complaint), "{words}: {log}");
    }
    for (line, complaint) in [
        // Redis 7.0 does not name the setting.
        ("lockstock.no-such-thing 1", "Module Configuration detected without loadmodule directive"),
        (
            "lockstock.default-lease-ms 0",
            "lockstock is not loaded: a lockstock.* setting of the configuration is refused",
        ),
        (
            "lockstock.default-lease-ms x",
            "lockstock is not loaded: a lockstock.* setting of the configuration is refused",
        ),
    ] {
        let log = Server::builder().config(line).start_refused();
        assert!(log.contains(complaint), "{line}: {log}");
    }
}

#[test]
fn the_version_is_the_same_wherever_it_is_shown() {
    let server = Server::start();
    let version = env!("CARGO_PKG_VERSION");
    assert!(server.log().contains(&format!("lockstock {version} is ready")), "{}", server.log());
    let text = server.cmd("INFO lockstock").text();
    let first = text.lines().find(|line| line.contains(':'));
    assert_eq!(first, Some(format!("lockstock_version:{version}").as_str()), "{text}");
    let parts: Vec<i64> = version.split('.').map(|part| part.parse().expect("a number")).collect();
    let modules = server.cmd("MODULE LIST");
    let ours = modules.items().iter().find(|module| module.field("name") == Reply::Bulk(b"lockstock".to_vec()));
    // 10203 for 1.2.3.
    assert_eq!(ours.expect("it is listed").field("ver").int(), parts[0] * 10_000 + parts[1] * 100 + parts[2]);
}

#[test]
fn a_module_that_is_loaded_stays_and_is_listed_once() {
    let server = Server::start();
    let modules = server.cmd("MODULE LIST");
    let ours = modules.items().iter().filter(|module| module.field("name") == Reply::Bulk(b"lockstock".to_vec()));
    assert_eq!(ours.count(), 1);
    server.expect("MODULE UNLOAD lockstock", err("ERR"));
    server.expect("PING", ANY);
}
