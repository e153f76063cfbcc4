//! What the server itself knows of each command: how many words, which keys, which rights, and how it is documented.

use harness::{ANY, NULL, OK, Reply, Server, Words, err};

use crate::support::forms::{FORMS, Form, Kind};

/// The words of a list of strings.
fn texts(list: &Reply) -> Vec<String> {
    list.items().iter().map(Reply::text).collect()
}

#[test]
fn arity_flags_and_keys_are_declared() {
    let server = Server::start();
    let mut client = server.client();
    for form in FORMS {
        let reply = client.cmd(["COMMAND", "INFO", form.name]);
        let info = reply.at(0);
        assert_eq!(info.at(0).text(), form.name.to_lowercase());
        assert_eq!(info.at(1), &Reply::Int(form.arity()), "{}", form.name);
        let flags = texts(info.at(2));
        let has = |flag: &str| flags.iter().any(|found| found == flag);
        assert!(has("module"), "{}: {flags:?}", form.name);
        assert_eq!(has("readonly"), form.reads, "{}: {flags:?}", form.name);
        assert_eq!(has("write"), !form.reads, "{}: {flags:?}", form.name);
        // Giving something up works in a full server.
        let gives = ["LOCK.RELEASE", "LOCK.EXTEND", "STOCK.CONFIRM", "STOCK.CANCEL", "STOCK.EXTEND"];
        let takes = !form.reads && !gives.contains(&form.name);
        assert_eq!(has("denyoom"), takes, "{}: {flags:?}", form.name);
        assert_eq!(has("blocking"), form.name == "LOCK.ACQUIRE", "{}: {flags:?}", form.name);
        // First key, last key, step: what clients without key specs go by.
        assert_eq!(info.items()[3..6], [1, 1, 1].map(Reply::Int), "{}", form.name);
    }
}

#[test]
fn the_server_finds_the_keys_of_every_call() {
    let server = Server::start();
    let mut client = server.client();
    for form in FORMS {
        let mut call = vec![b"COMMAND".to_vec(), b"GETKEYS".to_vec()];
        call.extend(form.shortest("the-key"));
        client.expect(&call, ("the-key",));
        for (name, kind) in form.options {
            let keys = client.cmd([call.clone(), form.option(name)].concat());
            let want: &[&str] = if *kind == Kind::Key { &["the-key", "stream"] } else { &["the-key"] };
            assert_eq!(texts(&keys), want, "{} {name}", form.name);
        }
    }
}

#[test]
fn every_command_is_documented_with_all_its_options() {
    let server = Server::start();
    let mut client = server.client();
    client.hello3();
    for form in FORMS {
        let docs = client.cmd(["COMMAND", "DOCS", form.name]).field(&form.name.to_lowercase());
        for line in ["summary", "complexity", "since", "group"] {
            assert!(!docs.field(line).text().is_empty(), "{}: {line}", form.name);
        }
        assert_eq!(docs.field("group").text(), "module");
        let mut tokens = vec![];
        let positional = tokens_of(&docs.field("arguments"), &mut tokens);
        let words = form.positional.iter().filter(|(_, kind)| *kind == Kind::Word);
        let options: Vec<&str> = form.options.iter().chain(words.clone()).map(|(name, _)| *name).collect();
        tokens.sort_unstable();
        let mut sorted = options.clone();
        sorted.sort_unstable();
        assert_eq!(tokens, sorted, "{}", form.name);
        assert_eq!(positional, form.positional.len() - 2 * words.count(), "{}", form.name);
    }
}

#[test]
fn what_is_newer_than_the_first_version_says_so() {
    let server = Server::start();
    let mut client = server.client();
    client.hello3();
    let mut newer = vec![];
    let names = texts(&client.cmd("COMMAND LIST FILTERBY MODULE lockstock"));
    for name in names.iter().filter(|name| !name.ends_with("apply") && !name.ends_with("fault")) {
        let docs = client.cmd(["COMMAND", "DOCS", name]).field(name);
        for line in ["summary", "complexity", "group"] {
            assert!(!docs.field(line).text().is_empty(), "{name}: {line}");
        }
        let (name, since) = (name.to_uppercase(), docs.field("since").text());
        newer_options(&name, &docs.field("arguments"), &mut newer);
        newer.extend((since != "0.1.0").then_some((name, since)));
    }
    newer.sort();
    let of_0_2 = [
        "LOCK.ACQUIRE NOTIFY",
        "LOCK.MACQUIRE NOTIFY",
        "LOCK.MEXTEND",
        "STOCK.ADJUST ID",
        "STOCK.DECR_ONCE WAITLIST",
        "STOCK.MCANCEL",
        "STOCK.MCONFIRM",
        "STOCK.MDECR_ONCE",
        "STOCK.ORDERS waiting",
    ];
    let of_0_3 = [
        "LOCK.EXTEND FENCE",
        "LOCK.GUARD",
        "LOCK.GUARD FENCE",
        "LOCK.MEXTEND FENCE",
        "LOCK.MRELEASE FENCE",
        "LOCK.RELEASE FENCE",
        "STOCK.CANCEL KEEP",
        "STOCK.CONFIRM KEEP",
    ];
    let mut want: Vec<_> =
        of_0_2.map(|name| (name, "0.2.0")).into_iter().chain(of_0_3.map(|name| (name, "0.3.0"))).collect();
    want.sort_unstable();
    assert_eq!(newer, want.into_iter().map(|(name, since)| (name.to_owned(), since.to_owned())).collect::<Vec<_>>());
}

/// Collects the options among documented arguments that have a version of their own.
fn newer_options(command: &str, arguments: &Reply, newer: &mut Vec<(String, String)>) {
    for argument in arguments.items() {
        let fields = argument.fields();
        newer.extend(fields.get("since").map(|since| (format!("{command} {}", fields["token"].text()), since.text())));
        if let Some(inner) = fields.get("arguments") {
            newer_options(command, inner, newer);
        }
    }
}

/// Collects the options' names among documented arguments, and counts the arguments that stand without one.
pub fn tokens_of(arguments: &Reply, tokens: &mut Vec<String>) -> usize {
    let mut positional = 0;
    for argument in arguments.items() {
        let fields = argument.fields();
        let (token, inner) = (fields.get("token"), fields.get("arguments"));
        tokens.extend(token.map(Reply::text));
        match inner {
            // The choices behind an option are its values.
            Some(inner) if token.is_none() || fields["type"].text() == "block" => drop(tokens_of(inner, tokens)),
            None if token.is_none() => positional += 1,
            _ => {}
        }
    }
    positional
}

/// Redis 7.0 knows no categories for the commands of modules.
fn has_categories(server: &Server) -> bool {
    server.is_valkey() || server.version() >= [7, 2, 0]
}

#[test]
fn every_command_is_in_its_acl_categories() {
    let server = Server::start();
    let mut client = server.client();
    if !has_categories(&server) {
        // All there is to say by category: none of them is reachable.
        client.expect("ACL SETUSER reader on nopass ~* +@read +@write", OK);
        client
            .expect("ACL DRYRUN reader LOCK.INFO k", ANY)
            .is("This user has no permissions to run the 'lock.info' command");
        return;
    }
    for form in FORMS {
        let reply = client.cmd(["COMMAND", "INFO", form.name]);
        let categories = texts(reply.at(0).at(6));
        for category in form.acl {
            assert!(categories.contains(&format!("@{category}")), "{}: {categories:?}", form.name);
        }
        let other = if form.reads { "@write" } else { "@read" };
        assert!(!categories.iter().any(|found| found == other), "{}: {categories:?}", form.name);
    }
}

#[test]
fn acl_rules_for_keys_hold_for_the_keys_of_every_call() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("ACL SETUSER clerk on nopass +@all ~mine:*", OK);
    client.expect("ACL SETUSER auditor on nopass +@all %R~mine:*", OK);
    let mut may = |user: &str, call: Vec<Vec<u8>>| {
        let words = [vec![b"ACL".to_vec(), b"DRYRUN".to_vec(), user.into()], call].concat();
        client.cmd(words) == Reply::Simple("OK".into())
    };
    for form in FORMS {
        assert!(may("clerk", form.shortest("mine:1")), "{}", form.name);
        assert!(!may("clerk", form.shortest("yours:1")), "{}", form.name);
        assert_eq!(may("auditor", form.shortest("mine:1")), form.reads, "{}", form.name);
    }
    // A stream is a key like any other.
    assert!(!may("clerk", words("STOCK.CREATE mine:1 5 STREAM yours:1")));
    assert!(may("clerk", words("STOCK.CREATE mine:1 5 STREAM mine:stream")));
}

fn words(text: &str) -> Vec<Vec<u8>> {
    Words::from(text).0
}

#[test]
fn a_full_server_still_lets_go() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale a HOLD 60000", ANY);
    client.expect("STOCK.DECR_ONCE sale b HOLD 60000", ANY);
    client.expect("CONFIG SET maxmemory 1", OK);
    client.expect("LOCK.ACQUIRE other", err("OOM"));
    client.expect("LOCK.ACQUIRE lock TOKEN t", err("OOM"));
    client.expect("STOCK.CREATE other 5", err("OOM"));
    client.expect("STOCK.DECR_ONCE sale id", err("OOM"));
    client.expect("STOCK.ADJUST sale 1", err("OOM"));
    client.expect("STOCK.ALTER sale LIMIT 1", err("OOM"));
    client.expect("STOCK.INFO sale", ANY);
    client.expect("STOCK.EXTEND sale a PX 70000", ANY);
    client.expect("STOCK.CONFIRM sale a", ("OK", 1, 3, -1, ""));
    client.expect("STOCK.CANCEL sale b", ("OK", 0, 4, -1, ""));
    client.expect("LOCK.INFO lock", ANY);
    client.expect("LOCK.EXTEND lock t", 1);
    client.expect("LOCK.RELEASE lock t", 1);
    client.expect("LOCK.INFO lock", NULL);
}

#[test]
fn a_replica_reads_and_refuses_to_decide() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    primary.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    primary.expect("STOCK.CREATE sale 5", OK);
    replica.wait_in_sync(&primary);
    for form in FORMS {
        let key = if form.name.starts_with("LOCK.") { "lock" } else { "sale" };
        let reply = replica.cmd(form.shortest(key));
        assert_eq!(reply.is_error(), !form.reads, "{}: {reply:?}", form.name);
        if !form.reads {
            reply.is(err("READONLY"));
        }
    }
}

#[test]
fn an_unknown_or_bad_setting_refuses_the_start() {
    for args in ["default-lease-ms 0", "default-lease-ms -1", "default-lease-ms x", "default-lease-ms", "no-such 1"] {
        let log = Server::builder().module_args(args).start_refused();
        let name = args.split(' ').next().unwrap_or_default();
        assert!(log.contains(name), "{args}: {log}");
    }
    Server::builder().config("lockstock.default-lease-ms 0").start_refused();
}

#[test]
fn the_default_lease_is_set_in_three_ways() {
    let lease_of = |server: &Server| server.expect("LOCK.ACQUIRE lock", ANY).at(2).int();
    let server = Server::builder().module_args("default-lease-ms 5000").start();
    assert_eq!(lease_of(&server), 5_000);
    server.expect("CONFIG GET lockstock.default-lease-ms", ("lockstock.default-lease-ms", "5000"));
    let server = Server::builder().config("lockstock.default-lease-ms 6000").start();
    assert_eq!(lease_of(&server), 6_000);
    server.expect("DEL lock", 1);
    server.expect("CONFIG SET lockstock.default-lease-ms 7000", OK);
    assert_eq!(lease_of(&server), 7_000);
    server.expect("CONFIG SET lockstock.default-lease-ms 0", err("ERR"));
    server.expect("CONFIG GET lockstock.default-lease-ms", ("lockstock.default-lease-ms", "7000"));
}

#[test]
fn a_form_knows_its_command() {
    assert_eq!(Form::of("LOCK.EXTEND").arity(), -3);
    assert_eq!(Form::of("STOCK.ORDER").arity(), 3);
}
