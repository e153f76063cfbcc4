//! Waiting without parking: the place in line at once, and the outcome as a message.

pub mod channel;
mod elsewhere;

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err, unix_ms};

use self::channel::{Channel, text};
use crate::support::line::Line;

const ASK: &str = "LOCK.ACQUIRE lock TOKEN t WAIT 0 NOTIFY news";
const ABOUT: &str = r#""key":"lock","token":"t""#;

fn held() -> (Server, Client, Client, Channel) {
    let server = Server::start();
    let (mut holder, client, channel) = (server.client(), server.client(), Channel::of(&server, "news"));
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    (server, holder, client, channel)
}

#[test]
fn the_reply_is_the_place_and_the_grant_is_published_in_the_step_of_the_release() {
    let (server, mut holder, mut client, mut news) = held();
    let mut line = Line::at(&server);
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 70000 WAIT 60000 NOTIFY news", 1);
    // The connection is free, and others stand in the same line.
    client.expect("PING", ANY);
    let mut parked = line.join("LOCK.ACQUIRE lock TOKEN parked WAIT 0");
    client.expect("LOCK.ACQUIRE lock TOKEN last WAIT 0 NOTIFY news", 3);
    assert_eq!(line.waiters("lock"), ["t", "parked", "last"]);
    assert_eq!((line.count("lock_waiters"), line.count("lock_waiters_notified")), (3, 2));
    let id = client.id();
    let info = client.cmd("LOCK.INFO lock");
    assert_eq!(info.field("waiters").at(0).field("client").int(), id);
    let left = info.field("waiters").at(0).field("wait-left-ms").int();
    assert!((1..=60_000).contains(&left));
    let replies = holder.pipeline(["MULTI", "LOCK.RELEASE lock holder", "PUBLISH news mark", "EXEC"]);
    replies[3].clone().is((1, 1));
    let fence = news.grants(ABOUT, 70_000);
    news.says("mark");
    client.expect("LOCK.ACQUIRE lock TOKEN t PX 90000", ("t", fence, 90_000));
    client.expect("LOCK.RELEASE lock t", 1);
    parked.read().is(("parked", INT, 30_000));
    parked.expect("LOCK.RELEASE lock parked", 1);
    news.grants(r#""key":"lock","token":"last""#, 30_000);
    news.is_silent(&server, "news");
    assert_eq!((line.count("lock_waits"), line.count("lock_handover_release")), (3, 3));
}

#[test]
fn what_is_granted_at_once_is_not_published() {
    let server = Server::start();
    let (mut client, mut news) = (server.client(), Channel::of(&server, "news"));
    let fence = client.expect(ASK, ("t", INT, 30_000)).at(1).int();
    client.expect(ASK, ("t", fence, 30_000));
    client.expect("LOCK.MACQUIRE 2 a b TOKEN t WAIT 5 NOTIFY news", ("t", INT, 30_000));
    news.is_silent(&server, "news");
}

#[test]
fn bad_requests_are_refused_whether_or_not_the_lock_is_free() {
    let (server, _, mut client, mut news) = held();
    for lock in ["lock", "free"] {
        for options in [
            "TOKEN t NOTIFY news",
            "WAIT 0 NOTIFY news",
            "NOTIFY news",
            "TOKEN t WAIT 0 NOTIFY",
            "TOKEN t WAIT 0 NOTIFY a NOTIFY b",
        ] {
            client.expect(format!("LOCK.ACQUIRE {lock} {options}"), err("ERR syntax error"));
            client.expect(format!("LOCK.MACQUIRE 1 {lock} {options}"), err("ERR syntax error"));
        }
        let words = |key: &[u8], token: &[u8]| -> Vec<Vec<u8>> {
            [b"LOCK.ACQUIRE", key, b"TOKEN", token, b"WAIT", b"0", b"NOTIFY", b"news"].map(<[u8]>::to_vec).to_vec()
        };
        client.expect(words(b"\xff", b"t"), err("ERR NOTIFY needs keys and a token in valid UTF-8"));
        client.expect(words(lock.as_bytes(), b"\xc3"), err("ERR NOTIFY needs keys and a token in valid UTF-8"));
        server.expect("ACL SETUSER user reset on nopass ~* +@all &mine:*", OK);
        let mut user = server.client();
        user.expect("AUTH user any", OK);
        let ask = |channel: &str| format!("LOCK.ACQUIRE {lock} TOKEN u WAIT 0 NOTIFY {channel}");
        user.expect(ask("news"), err("NOPERM"));
        let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'TOKEN', 'u', 'WAIT', 0, 'NOTIFY', ARGV[1])";
        user.expect(["EVAL", script, "1", lock, "news"], err("NOPERM"));
        let replies = user.pipeline(["MULTI", &ask("news"), "EXEC"]);
        replies[2].at(0).clone().is(err("NOPERM"));
        let log = server.cmd("ACL LOG").items()[0].clone();
        assert_eq!((log.field("reason").text(), log.field("object").text()), ("channel".into(), "news".into()));
        user.expect(ask("mine:1"), ANY);
        user.expect(["EVAL", script, "1", lock, "mine:2"], ANY);
        user.expect(format!("LOCK.RELEASE {lock} u"), INT);
    }
    server.expect("EXISTS free", 0);
    news.is_silent(&server, "news");
}

#[test]
fn a_wait_ends_at_its_time_with_no_traffic() {
    let (server, _holder, mut client, mut news) = held();
    // A busy machine makes some of them late, and a fault all.
    let took = [0, 1, 2, 3, 4].map(|_| {
        let begun = unix_ms();
        client.expect("LOCK.ACQUIRE lock TOKEN t WAIT 60 NOTIFY news", 1);
        news.says(&format!("{{\"event\":\"timeout\",{ABOUT}}}"));
        unix_ms() - begun
    });
    assert!(took.iter().all(|took| *took >= 60) && took.iter().any(|took| *took < 160), "{took:?}");
    let mut line = Line::at(&server);
    assert_eq!((line.count("lock_waiters"), line.count("lock_timeouts")), (0, 5));
    // An ended request holds up no request behind it.
    client.expect("LOCK.ACQUIRE lock TOKEN t WAIT 9007199254740991 NOTIFY news", 1);
}

#[test]
fn a_release_a_second_request_and_a_text_under_its_name_end_it() {
    let (server, mut holder, mut client, mut news) = held();
    let mut other = Channel::of(&server, "other");
    let mut line = Line::at(&server);
    client.expect(ASK, 1);
    holder.expect("LOCK.RELEASE lock t", 0);
    news.fails(ABOUT, "CANCELLED ");
    client.expect(ASK, 1);
    // The same request once more: its place, and no message.
    client.expect("LOCK.ACQUIRE lock TOKEN behind WAIT 0 NOTIFY other", 2);
    client.expect(ASK, 1);
    news.is_silent(&server, "news");
    // Another channel, another connection, parked, and back.
    client.expect("LOCK.ACQUIRE lock TOKEN t WAIT 0 NOTIFY other", 1);
    news.fails(ABOUT, "REPLACED ");
    holder.expect("LOCK.ACQUIRE lock TOKEN t WAIT 0 NOTIFY other", 1);
    other.fails(ABOUT, "REPLACED ");
    let mut parked = line.join("LOCK.ACQUIRE lock TOKEN t WAIT 0");
    other.fails(ABOUT, "REPLACED ");
    client.expect(ASK, 1);
    parked.read().is(NULL);
    assert_eq!(line.waiters("lock"), ["t", "behind"]);
    holder.expect("SET lock text", OK);
    news.fails(ABOUT, "WRONGTYPE ");
    other.fails(r#""key":"lock","token":"behind""#, "WRONGTYPE ");
    assert_eq!(line.count("lock_waiters"), 0);
}

#[test]
fn it_is_gone_with_its_connection_and_nobody_is_told() {
    let (server, mut holder, client, mut news) = held();
    let mut line = Line::at(&server);
    for kill in [false, true] {
        let (mut waiter, mut behind) = (server.client(), server.client());
        waiter.expect("LOCK.ACQUIRE lock TOKEN gone WAIT 0 NOTIFY news SESSION", 1);
        waiter.expect("LOCK.MACQUIRE 2 lock free TOKEN gone WAIT 0 NOTIFY news", INT);
        behind.expect(ASK, INT);
        if kill {
            // In the turn of the grant.
            let id = waiter.id();
            let kill = format!("CLIENT KILL ID {id}");
            holder.pipeline(["MULTI", &kill, "LOCK.RELEASE lock holder", "EXEC"])[3].clone().is((1, 1));
        } else {
            waiter.close();
            line.until("lock_waiters", 1);
            holder.expect("LOCK.RELEASE lock holder", 1);
        }
        news.grants(ABOUT, 30_000);
        behind.expect("LOCK.RELEASE lock t", 1);
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    }
    news.is_silent(&server, "news");
    drop(client);
}

#[test]
fn a_session_ends_with_the_connection_that_asked() {
    let (server, mut holder, mut client, mut news) = held();
    client.expect(format!("{ASK} SESSION"), 1);
    holder.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder WAIT 0 NOTIFY news", 1);
    client.reset();
    news.grants(r#""key":"lock","token":"holder""#, 30_000);
    let mut script = server.client();
    let call = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'TOKEN', 't', 'WAIT', 0, 'NOTIFY', 'news', 'SESSION')";
    script.expect(["EVAL", call, "1", "lock"], err("ERR SESSION needs a connection"));
}

#[test]
fn a_published_grant_stays_though_its_connection_ends() {
    let (_server, mut holder, mut client, mut news) = held();
    client.expect(ASK, 1);
    holder.expect("LOCK.RELEASE lock holder", 1);
    let fence = news.grants(ABOUT, 30_000);
    client.reset();
    holder.expect("LOCK.ACQUIRE lock TOKEN other", NULL);
    holder.expect("LOCK.ACQUIRE lock TOKEN t", ("t", fence, 30_000));
}

#[test]
fn transactions_and_scripts_can_stand_in_line_so() {
    let (server, mut holder, mut client, mut news) = held();
    let replies = client.pipeline(["MULTI", ASK, "LOCK.MACQUIRE 2 free lock TOKEN m WAIT 0 NOTIFY news", "EXEC"]);
    replies[3].clone().is((1, 2));
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'TOKEN', 's', 'WAIT', 0, 'NOTIFY', 'news')";
    client.expect(["EVAL", script, "1", "lock"], 3);
    let waiters = server.cmd("LOCK.INFO lock").field("waiters");
    assert_eq!(waiters.at(0).field("client").int(), client.id());
    assert_eq!(waiters.at(2).field("client").int(), 0, "a script is no connection");
    holder.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
    holder.expect("LOCK.RELEASE lock t", 1);
    news.grants(r#""keys":["free","lock"],"token":"m""#, 30_000);
    holder.expect("LOCK.MRELEASE m 2 free lock", 2);
    news.grants(r#""key":"lock","token":"s""#, 30_000);
}

#[test]
fn several_locks_are_granted_together_and_one_message_names_them_as_the_request_did() {
    let (server, mut holder, mut client, mut news) = held();
    client.expect("LOCK.MACQUIRE 4 b lock b a TOKEN m PX 5000 WAIT 0 NOTIFY news", 1);
    client.expect("LOCK.ACQUIRE a TOKEN t WAIT 0 NOTIFY news", 2);
    client.expect("LOCK.MACQUIRE 2 c a TOKEN n WAIT 80 NOTIFY news", 3);
    let about = r#""keys":["b","lock","a"],"token":"m""#;
    news.says(r#"{"event":"timeout","keys":["c","a"],"token":"n"}"#);
    holder.expect("LOCK.RELEASE lock holder", 1);
    let fence = news.grants(about, 5_000);
    client.expect("LOCK.MACQUIRE 3 a b lock TOKEN m PX 5000 WAIT 0 NOTIFY news", ("m", fence, 5_000));
    holder.expect("LOCK.MRELEASE m 3 a b lock", 3);
    news.grants(r#""key":"a","token":"t""#, 30_000);
    client.expect("LOCK.MACQUIRE 2 a b TOKEN m WAIT 0 NOTIFY news", 1);
    holder.expect("LOCK.RELEASE b m", 0);
    news.fails(r#""keys":["a","b"],"token":"m""#, "CANCELLED ");
    news.is_silent(&server, "news");
}

#[test]
fn an_upgrade_goes_first_and_keeps_its_hold_until_then() {
    let server = Server::start();
    let (mut client, mut news) = (server.client(), Channel::of(&server, "news"));
    for token in ["t", "other"] {
        client.expect(format!("LOCK.ACQUIRE lock TOKEN {token} SHARED"), ANY);
    }
    client.expect("LOCK.ACQUIRE lock TOKEN early WAIT 0 NOTIFY news", 1);
    client.expect(ASK, 1);
    client.expect("LOCK.ACQUIRE lock TOKEN other WAIT 0 NOTIFY news", err("DEADLOCK"));
    client.expect("LOCK.ACQUIRE lock TOKEN early WAIT 0 NOTIFY news", 2);
    client.expect("LOCK.RELEASE lock other", 1);
    news.grants(ABOUT, 30_000);
    client.expect("LOCK.RELEASE lock t", 1);
    news.grants(r#""key":"lock","token":"early""#, 30_000);
}

#[test]
fn names_are_json_strings() {
    let server = Server::start();
    let (mut client, mut news) = (server.client(), Channel::of(&server, "a channel \"\n"));
    let (key, token) = ("a \"b\"\\\u{1}\r\n%s Ü 🔒".as_bytes(), "\t\u{7f}\u{0}/".as_bytes());
    let other: [&[u8]; 4] = [b"LOCK.ACQUIRE", key, b"TOKEN", b"holder"];
    client.expect(other.to_vec(), ANY);
    let ask: [&[u8]; 8] = [b"LOCK.ACQUIRE", key, b"TOKEN", token, b"WAIT", b"1", b"NOTIFY", b"a channel \"\n"];
    client.expect(ask.to_vec(), 1);
    news.says(
        "{\"event\":\"timeout\",\"key\":\"a \\\"b\\\"\\\\\\u0001\\r\\n%s Ü 🔒\",\"token\":\"\\t\u{7f}\\u0000/\"}",
    );
}

#[test]
fn whatever_ends_a_hold_serves_them() {
    let (server, mut holder, mut client, mut news) = held();
    for end in ["DEL lock", "FLUSHALL", "FLUSHDB ASYNC", "PEXPIRE lock 1", "RENAME lock gone", "SWAPDB 0 1"] {
        client.expect(ASK, 1);
        holder.expect(end, ANY);
        news.grants(ABOUT, 30_000);
        holder.expect("LOCK.RELEASE lock t", 1);
        holder.expect("FLUSHALL", OK);
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    }
    // A lease that ends.
    client.expect(ASK, 1);
    holder.expect("LOCK.EXTEND lock holder PX 30", 1);
    news.grants(ABOUT, 30_000);
    assert_eq!(Line::at(&server).count("lock_handover_expiry"), 1);
}

#[test]
fn no_more_of_them_wait_than_may() {
    let (server, mut holder, mut client, mut news) = held();
    server.expect("CONFIG SET lockstock.max-waiters 1", OK);
    client.expect(ASK, 1);
    client.expect("LOCK.ACQUIRE lock TOKEN u WAIT 0 NOTIFY news", err("ERR too many requests wait already"));
    client.expect("LOCK.ACQUIRE lock TOKEN u WAIT 0", err("ERR too many requests wait already"));
    holder.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
}

#[test]
fn client_unblock_does_not_concern_it() {
    let (_server, mut holder, mut client, mut news) = held();
    client.expect(ASK, 1);
    let id = client.id();
    holder.expect(format!("CLIENT UNBLOCK {id}"), 0);
    holder.expect("LOCK.RELEASE lock holder", 1);
    news.grants(ABOUT, 30_000);
}

#[test]
fn over_a_connection_that_listens_too_the_place_comes_before_the_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.hello3();
    client.expect("SUBSCRIBE news", ANY);
    client.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    let replies = client.pipeline([ASK, "LOCK.RELEASE lock holder"]);
    replies[0].clone().is(1);
    // Redis 7.0 sends a message before the reply to the command that caused it, the others behind it.
    let last = client.read();
    let (message, reply) = if matches!(last, Reply::Push(_)) { (&last, &replies[1]) } else { (&replies[1], &last) };
    assert!(text(message).contains("granted"), "{message:?}");
    reply.clone().is(1);
}

#[test]
fn ten_thousand_of_them_wait_on_one_connection() {
    const MANY: i64 = 10_000;
    let (server, mut holder, mut client, mut news) = held();
    let mut line = Line::at(&server);
    let before = server.info_int("memory", "used_memory");
    let ask = |number: i64| format!("LOCK.ACQUIRE lock TOKEN task-{number:05} PX 60000 WAIT 600000 NOTIFY news");
    let places = client.pipeline((0..MANY).map(ask));
    assert!((1..).zip(&places).all(|(number, place)| place.int() == number));
    assert_eq!(line.count("lock_waiters_notified"), MANY);
    let each = (server.info_int("memory", "used_memory") - before) / MANY;
    assert!(each < 1_000, "{each} bytes each");
    holder.expect("LOCK.RELEASE lock holder", 1);
    for number in 0..MANY {
        news.grants(&format!("\"key\":\"lock\",\"token\":\"task-{number:05}\""), 60_000);
        holder.expect(format!("LOCK.RELEASE lock task-{number:05}"), 1);
    }
    news.is_silent(&server, "news");
    server.expect("DBSIZE", 0);
}
