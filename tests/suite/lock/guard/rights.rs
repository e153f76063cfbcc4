//! A guarded command runs with the rights of its caller.

use harness::{ANY, Client, OK, Reply, Server, err};

use super::held;

/// A connection of the user "user" with these rules.
#[track_caller]
fn as_user(server: &Server, rules: &str) -> Client {
    server.expect(format!("ACL SETUSER user reset on nopass {rules}"), OK);
    let mut client = server.client();
    client.expect("AUTH user any", OK);
    client
}

/// The newest entry of the ACL LOG: its reason and its object.
#[track_caller]
fn logged(server: &Server) -> (String, String) {
    let log = server.cmd("ACL LOG");
    let entry = log.at(0);
    assert_eq!(entry.field("username").text(), "user");
    (entry.field("reason").text(), entry.field("object").text())
}

#[test]
fn command_keys_and_channels_are_those_of_the_caller() {
    let server = Server::start();
    let _holder = held(&server);
    let rules = "+lock.guard +get +set +getdel +publish %R~lock ~mine:* %R~seen:* %W~told:* resetchannels &news:*";
    let mut user = as_user(&server, rules);
    server.expect("SET seen:1 s", OK);
    for (command, want) in [
        ("SET mine:1 v", OK),
        ("GET mine:1", "v".into()),
        ("SET mine:1 w GET", "v".into()),
        ("GET seen:1", "s".into()),
        ("SET told:1 v", OK),
        ("PUBLISH news:1 hello", 0.into()),
    ] {
        user.expect(format!("LOCK.GUARD lock t {command}"), want);
    }
    for (command, reason, object) in [
        ("DEL mine:1", "command", "del"),
        ("SET seen:1 v", "key", "seen:1"),
        ("GETDEL seen:1", "key", "seen:1"),
        ("GET told:1", "key", "told:1"),
        ("SET told:1 v GET", "key", "told:1"),
        ("GET yours:1", "key", "yours:1"),
        ("PUBLISH other hello", "channel", "other"),
    ] {
        server.expect("ACL LOG RESET", OK);
        user.expect(format!("LOCK.GUARD lock t {command}"), err("NOPERM"));
        assert_eq!(logged(&server), (reason.into(), object.into()), "{command}");
    }
    // An arity that is wrong is no question of rights.
    user.expect("LOCK.GUARD lock t GET", err("ERR wrong number of arguments for 'get' command"));
    user.expect("LOCK.GUARD lock t NO-SUCH x", err("ERR unknown command"));
    // Nor is the holder of the lock told to a user without the right to read it.
    user.expect("LOCK.GUARD yours t PING", err("NOPERM"));
    server.expect("GET mine:1", "w");
    server.expect("EXISTS seen:1", 1);
}

#[test]
fn the_lock_needs_the_right_to_read_and_one_selector_has_to_give_it_with_the_keys() {
    let server = Server::start();
    let mut holder = held(&server);
    as_user(&server, "+lock.guard +set ~*").expect("LOCK.GUARD lock t SET k v", OK);
    as_user(&server, "+lock.guard +set ~k %W~lock").expect("LOCK.GUARD lock t SET k v", err("NOPERM"));
    as_user(&server, "+set ~* ").expect("LOCK.GUARD lock t SET k v", err("NOPERM"));
    as_user(&server, "+lock.guard +set %R~lock (+lock.guard +set ~k)")
        .expect("LOCK.GUARD lock t SET k v", err("NOPERM"));
    as_user(&server, "(+lock.guard +set %R~lock ~k)").expect("LOCK.GUARD lock t SET k v", OK);
    // The lock itself as the guarded command's key asks for what that does.
    let mut reader = as_user(&server, "+@all %R~lock");
    reader.expect("LOCK.GUARD lock t LOCK.INFO lock", ANY);
    reader.expect("LOCK.GUARD lock t LOCK.RELEASE lock t", err("NOPERM"));
    holder.expect("LOCK.GUARD lock t LOCK.RELEASE lock t", 1);
}

#[test]
fn in_transactions_scripts_and_for_another_module_too() {
    let server = Server::builder().config(&harness::listener::line()).start();
    let _holder = held(&server);
    let mut user = as_user(&server, "+lock.guard +set +eval +multi +exec +listener.call ~lock ~mine:* -del");
    let script = "return redis.call('LOCK.GUARD', KEYS[1], 't', 'DEL', KEYS[2])";
    user.expect(["EVAL", script, "2", "lock", "mine:1"], err("NOPERM"));
    let script = "return redis.call('LOCK.GUARD', KEYS[1], 't', 'SET', 'yours:1', 'v')";
    let refused = user.cmd(["EVAL", script, "1", "lock"]);
    assert!(refused.is_error(), "{refused:?}");
    let replies = user.pipeline(["MULTI", "LOCK.GUARD lock t SET mine:1 v", "LOCK.GUARD lock t DEL mine:1", "EXEC"]);
    replies[3].at(0).clone().is(OK);
    replies[3].at(1).clone().is(err("NOPERM"));
    // A module that does not ask for a user may do everything, and so does a timer of its, which has none.
    user.expect("LISTENER.CALL LOCK.GUARD lock t SET mine:2 v", OK);
    server.expect("LISTENER.LATER LOCK.GUARD lock t SET later v", ANY);
    harness::eventually("the timer has run", || server.cmd("GET later") == Reply::Bulk("v".into()));
    server.expect("EXISTS mine:1 yours:1", 1);
}

#[test]
fn the_server_knows_the_keys_of_both() {
    let server = Server::start();
    let mut client = server.client();
    for (words, keys) in [
        ("SET k v", vec!["lock", "k"]),
        ("FENCE 5 SET k v", vec!["lock", "k"]),
        ("fence 5 MSET a 1 b 2 c 3", vec!["lock", "a", "b", "c"]),
        ("ZUNIONSTORE out 2 a b", vec!["lock", "out", "a", "b"]),
        ("PING", vec!["lock"]),
        ("GET", vec!["lock"]),
        ("NO-SUCH k", vec!["lock"]),
        ("FENCE 5", vec!["lock"]),
        ("LOCK.MRELEASE t 2 a b", vec!["lock", "a", "b"]),
        ("STOCK.CREATE sale 5 STREAM events", vec!["lock", "sale", "events"]),
        ("LOCK.GUARD inner t GET k", vec!["lock", "inner"]),
    ] {
        let found = client.cmd(format!("COMMAND GETKEYS LOCK.GUARD lock t {words}"));
        let mut found: Vec<String> = found.items().iter().map(Reply::text).collect();
        // Servers differ in the order in which they name the target of a union.
        found[1..].sort();
        let mut keys = keys;
        keys[1..].sort_unstable();
        assert_eq!(found, keys, "{words}");
    }
    let flags = client.cmd("COMMAND GETKEYSANDFLAGS LOCK.GUARD lock t SET k v");
    let flags = |at: usize| flags.at(at).at(1).items().iter().map(Reply::text).collect::<Vec<_>>();
    assert_eq!(flags(0), ["RO", "access"]);
    if server.is_valkey() || server.version() >= [7, 2, 0] {
        assert!(flags(1).contains(&"update".to_owned()), "{:?}", flags(1));
    }
}
