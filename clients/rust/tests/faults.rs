//! What the crate does when answers are lost, cut or refused, and when primaries are replaced. `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{ANY, Cluster, OK, Reply, Server, eventually};
use lockstock::{Client, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

mod support;

use support::{asked, signal, until};

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &Server) -> Client {
    Client::open(&format!("redis://{}", server.address())).expect("a URL")
}

fn waiters(server: &Server) -> i64 {
    server.info_int("lockstock", "lockstock_lock_waiters")
}

/// What a relay does with the answers of connections that were made before the one of this number: none of them passes; and with those
/// of all connections, if `cut`: half of an answer passes, and then the connection ends. `cuts` counts these.
#[derive(Default)]
struct Faults {
    mute: AtomicUsize,
    made: AtomicUsize,
    cut: std::sync::atomic::AtomicBool,
    cuts: AtomicUsize,
}

impl Faults {
    fn mute(&self) {
        self.mute.store(self.made.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A client of the server behind such a relay.
async fn behind(server: &Server, faults: &Arc<Faults>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (own, address, faults) = (listener.local_addr().expect("an address"), server.address(), faults.clone());
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(&address).await else { continue };
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            let (number, faults) = (faults.made.fetch_add(1, Ordering::Relaxed), faults.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = carry(from_near, to_far, None) => {}
                    () = carry(from_far, to_near, Some((number, faults))) => {}
                }
            });
        }
    });
    Client::open(&format!("redis://{own}")).expect("a URL")
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, faults: Option<(usize, Arc<Faults>)>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let mut passes = count;
        if let Some((number, faults)) = &faults {
            if *number < faults.mute.load(Ordering::Relaxed) {
                continue;
            }
            if faults.cut.load(Ordering::Relaxed) {
                passes = count / 2;
                faults.cuts.fetch_add(1, Ordering::Relaxed);
            }
        }
        if to.write_all(bytes.get(..passes).unwrap_or_default()).await.is_err() || passes < count {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_extension_is_refused_is_given_back() {
    let server = Server::start();
    server.expect("ACL SETUSER weak on >word ~* &* +@all -lock.extend", OK);
    let weak = Client::open(&format!("redis://weak:word@{}", server.address())).expect("a URL");
    server.expect("LOCK.ACQUIRE job TOKEN other PX 500", ANY);
    let waited = weak.lock("job").wait(5 * SECOND).acquire().await;
    assert!(matches!(waited, Err(Error::Refused(_))), "{waited:?}");
    server.expect("EXISTS job", 0);
    let lock = client(&server).lock("job").replicas(usize::MAX);
    assert!(matches!(lock.acquire().await, Err(Error::Refused(_))));
    server.expect("EXISTS job", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_hide_a_grant_that_was_not_heard() {
    let server = Server::start();
    let faults = Arc::new(Faults::default());
    let client = behind(&server, &faults).await;
    assert!(!client.lock("job").is_locked().await.expect("an answer"));
    faults.mute();
    let asked = asked(client.lock("job").wait(5 * SECOND));
    until("it is granted", || server.cmd("EXISTS job").int() == 1).await;
    server.expect("CONFIG SET maxmemory 1", OK);
    assert!(matches!(asked.await.expect("no panic"), Err(Error::Refused(_))));
    until("it is withdrawn", || server.cmd("EXISTS job").int() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_whose_grant_was_not_heard_are_given_back_when_another_has_one_of_them() {
    let server = Server::start();
    let faults = Arc::new(Faults::default());
    let client = behind(&server, &faults).await;
    assert!(!client.lock("job").is_locked().await.expect("an answer"));
    faults.mute();
    let asked = asked(client.locks(["a", "b"]).wait(4 * SECOND));
    until("both are granted", || server.cmd("EXISTS a b").int() == 2).await;
    server.expect("DEL a", 1);
    server.expect("LOCK.ACQUIRE a TOKEN other PX 60000", ANY);
    assert!(matches!(asked.await.expect("no panic"), Err(Error::NotGranted)));
    until("the other key is given back", || server.cmd("EXISTS b").int() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_so_they_are_when_one_of_them_has_another_value() {
    let server = Server::start();
    let faults = Arc::new(Faults::default());
    let client = behind(&server, &faults).await;
    assert!(!client.lock("job").is_locked().await.expect("an answer"));
    faults.mute();
    let asked = asked(client.locks(["a", "b"]).lease(60 * SECOND).wait(4 * SECOND));
    until("both are granted", || server.cmd("EXISTS a b").int() == 2).await;
    server.expect("SET a text", OK);
    assert!(matches!(asked.await.expect("no panic"), Err(Error::Refused(_))));
    until("the other key is given back", || server.cmd("EXISTS b").int() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_in_the_middle_is_none() {
    let server = Server::start();
    let faults = Arc::new(Faults::default());
    let client = behind(&server, &faults).await;
    assert!(!client.lock("job").is_locked().await.expect("an answer"));
    let lasting = client.lock("other").acquire().await.expect("free");
    faults.cut.store(true, Ordering::Relaxed);
    let asked = asked(client.lock("job").wait(5 * SECOND));
    until("it is granted", || server.cmd("EXISTS job").int() == 1).await;
    faults.cut.store(false, Ordering::Relaxed);
    asked.await.expect("no panic").expect("it is asked for again").release().await.expect("held");
    faults.cut.store(true, Ordering::Relaxed);
    let before = faults.cuts.load(Ordering::Relaxed);
    let release = tokio::spawn(lasting.release());
    until("it is released", || server.cmd("EXISTS other").int() == 0).await;
    until("the answer is cut", || faults.cuts.load(Ordering::Relaxed) > before).await;
    faults.cut.store(false, Ordering::Relaxed);
    let released = release.await.expect("no panic");
    assert!(matches!(released, Err(Error::NotReleased)), "{released:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_serve_now_is_asked_again() {
    let server = Server::builder().config("busy-reply-threshold 100").start();
    let client = client(&server);
    let [one, two] = [client.lock("one"), client.lock("two")].map(|lock| lock.wait(8 * SECOND));
    let (first, second) = (one.acquire().await.expect("free"), two.acquire().await.expect("free"));
    let script = "local t = redis.call('TIME')[1] + 2 while redis.call('TIME')[1] + 0 < t do end";
    let mut busy = server.client();
    busy.send(["EVAL", script, "0"]);
    sleep(SECOND / 2).await;
    first.release().await.expect("after the script");
    busy.read();
    busy.send(["EVAL", script, "0"]);
    sleep(SECOND / 2).await;
    let again = one.acquire().await.expect("after the script");
    server.expect("CONFIG SET min-replicas-to-write 1", OK);
    let release = tokio::spawn(second.release());
    sleep(SECOND).await;
    server.expect("CONFIG SET min-replicas-to-write 0", OK);
    release.await.expect("no panic").expect("when the server takes it");
    again.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_goes_on_though_its_connection_has_vanished() {
    let server = Server::start();
    let faults = Arc::new(Faults::default());
    let client = behind(&server, &faults).await;
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", ANY);
    let asked = asked(client.lock("job").wait_forever());
    until("it waits", || waiters(&server) == 1).await;
    faults.mute();
    // The shared connection is made anew, and works.
    drop(client.lock("job").is_locked().await);
    assert!(client.lock("job").is_locked().await.expect("an answer"));
    server.expect("DEL job", 1);
    let hold = timeout(25 * SECOND, asked).await.expect("soon").expect("no panic").expect("granted");
    hold.release().await.expect("held");
}

/// A primary, its replica, and a Sentinel that decides alone.
struct Guarded {
    primary: Server,
    replica: Server,
    sentinel: Server,
}

impl Guarded {
    fn start() -> Self {
        let (primary, replica) = (Server::start(), Server::start());
        replica.follow(&primary);
        let sentinel = Server::plain().sentinel();
        let sentinel = sentinel.config(&format!("sentinel monitor lead 127.0.0.1 {} 1", primary.port()));
        let sentinel = sentinel.config("sentinel down-after-milliseconds lead 2000").start();
        eventually("it knows the replica", || sentinel.cmd("SENTINEL MASTER lead").field("num-slaves").text() == "1");
        Self { primary, replica, sentinel }
    }

    fn client(&self) -> Client {
        Client::open(&format!("redis+sentinel://{}/lead", self.sentinel.address())).expect("a URL")
    }

    fn has_promoted(&self) -> bool {
        let named = self.sentinel.cmd("SENTINEL GET-MASTER-ADDR-BY-NAME lead");
        matches!(named, Reply::Array(_)) && named.at(1).text() == self.replica.port().to_string()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_at_a_frozen_primary_goes_on_at_the_promoted_one() {
    let servers = Guarded::start();
    let (client, other) = (servers.client(), servers.client());
    let hold = other.lock("job").acquire().await.expect("free");
    servers.replica.wait_in_sync(&servers.primary);
    let asked = asked(client.lock("job").wait_forever());
    until("it waits", || waiters(&servers.primary) == 1).await;
    signal(&servers.primary, "-STOP");
    until("the replica is promoted", || servers.has_promoted()).await;
    // Other requests of this client find the new primary before the wait is looked after.
    let found = async { while client.lock("job").is_locked().await.is_err() {} };
    timeout(30 * SECOND, found).await.expect("the new primary");
    until("the wait goes on there", || {
        std::thread::sleep(Duration::from_millis(50));
        waiters(&servers.replica) == 1
    })
    .await;
    hold.release().await.expect("held to the end");
    asked.await.expect("no panic").expect("granted").release().await.expect("held");
    signal(&servers.primary, "-CONT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_while_it_was_frozen_grants_nothing_to_a_wait() {
    let servers = Guarded::start();
    let (client, other) = (servers.client(), servers.client());
    let hold = other.lock("job").lease(8 * SECOND).acquire().await.expect("free");
    servers.replica.wait_in_sync(&servers.primary);
    let asked = asked(client.lock("job").wait(60 * SECOND));
    until("it waits", || waiters(&servers.primary) == 1).await;
    signal(&servers.primary, "-STOP");
    until("the replica is promoted", || servers.has_promoted()).await;
    sleep(5 * SECOND).await;
    // There the lease is over, and the wait is the next. Here the hold was extended meanwhile.
    signal(&servers.primary, "-CONT");
    sleep(2 * SECOND).await;
    assert!(hold.is_held() && !asked.is_finished(), "{}", hold.is_held());
    hold.release().await.expect("held to the end");
    asked.await.expect("no panic").expect("granted").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_hangs_though_no_node_and_no_sentinel_answers() {
    let (servers, cluster) = (Guarded::start(), Cluster::start_with(3, &["cluster-node-timeout 60000"]));
    let of_cluster = Client::open(&format!("redis+cluster://{}", cluster.node(0).address())).expect("a URL");
    let mut held = Vec::new();
    for client in [servers.client(), of_cluster] {
        held.push((client.lock("job").wait(5 * SECOND).acquire().await.expect("free"), client));
    }
    let nodes = (0..3).map(|number| cluster.node(number));
    let silent: Vec<_> = [&servers.primary, &servers.replica, &servers.sentinel].into_iter().chain(nodes).collect();
    for server in &silent {
        signal(server, "-STOP");
    }
    for (hold, client) in held {
        let (begun, other) = (std::time::Instant::now(), client.lock("other").wait(SECOND));
        let looked = client.lock("other").is_locked().await;
        assert!(matches!(looked, Err(Error::Unreachable(_))) && begun.elapsed() < 3 * SECOND, "{looked:?}");
        let begun = std::time::Instant::now();
        let waits = async { (other.acquire().await.map(drop), begun.elapsed()) };
        let releases = async { (hold.release().await, begun.elapsed()) };
        let (waited, released) = tokio::join!(waits, releases);
        assert!(matches!(waited, (Err(Error::Unreachable(_)), took) if took < Duration::from_secs(4)), "{waited:?}");
        assert!(
            matches!(released, (Err(Error::Unreachable(_)), took) if took < Duration::from_secs(6)),
            "{released:?}"
        );
    }
    for server in &silent {
        signal(server, "-CONT");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_follows_a_slot_that_moves_and_a_plain_url_none() {
    let cluster = Cluster::start(3);
    let key = "job";
    let from = cluster.owner(key);
    let [old, new] = [from, (from + 1) % 3].map(|number| cluster.node(number));
    let client = Client::open(&format!("redis+cluster://{}", old.address())).expect("a URL");
    let hold = client.lock(key).acquire().await.expect("free");
    cluster.begin_move(key, from, (from + 1) % 3);
    cluster.move_key(key, from, (from + 1) % 3);
    let session = client.lock(format!("{{{key}}}2")).session().acquire().await.expect("free where the slot goes");
    session.release().await.expect("held");
    let asked = asked(client.lock(key).wait(20 * SECOND));
    until("it waits where the key is", || waiters(new) == 1).await;
    hold.release().await.expect("held");
    asked.await.expect("no panic").expect("granted").release().await.expect("held");
    cluster.end_move(key, from, (from + 1) % 3);
    let plain = self::client(old).lock(key).acquire().await.map(drop);
    assert!(plain.is_err_and(|error| error.to_string().contains("Moved")), "it is not asked again and again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_lost_when_another_value_takes_its_key() {
    let server = Server::start();
    let hold = client(&server).lock("job").lease(6 * SECOND).acquire().await.expect("free");
    server.expect("SET job text", OK);
    timeout(4 * SECOND, hold.lost()).await.expect("at the next extension");
    assert!(matches!(hold.release().await, Err(Error::Lost)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_keys_of_a_hold_are_released_though_one_has_another_value() {
    let server = Server::start();
    let lock = client(&server).locks(["a", "b", "c"]).lease(60 * SECOND);
    let taken = || server.expect("SET b text", OK);
    let others_are_free = async |how: &str| {
        until(how, || server.cmd("EXISTS a c").int() == 0).await;
        server.expect("DEL b", 1);
    };
    let hold = lock.acquire().await.expect("free");
    taken();
    assert!(matches!(hold.release().await, Err(Error::Lost)));
    others_are_free("released").await;
    let hold = lock.acquire().await.expect("free");
    taken();
    drop(hold);
    others_are_free("dropped").await;
    let hold = lock.acquire().await.expect("free");
    taken();
    assert!(matches!(hold.extend().await, Err(Error::Lost)));
    drop(hold);
    others_are_free("lost, and dropped").await;
    let hold = lock.acquire().await.expect("free");
    taken();
    assert!(matches!(hold.release_after(30 * SECOND).await, Err(Error::Lost)));
    others_are_free("to be released later").await;
    let blocking = lockstock::blocking::Lock::from(lock);
    let hold = blocking.acquire().expect("free");
    taken();
    drop(hold);
    server.expect("EXISTS a c", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_the_server_denies_is_lost_at_once() {
    let server = Server::start();
    let client = client(&server);
    let mut holds = Vec::new();
    for key in ["asked", "guarded", "text"] {
        holds.push(client.lock(key).acquire().await.expect("free"));
        server.expect(["DEL", key], 1);
    }
    server.expect("SET text x", OK);
    let [asked, guarded, text] = holds.try_into().expect("three");
    assert!(!asked.is_owned().await.expect("an answer"));
    assert!(!text.is_owned().await.expect("the key has another value"));
    assert!(matches!(guarded.guard::<redis::Value>(&redis::cmd("PING")).await, Err(Error::Lost)));
    for hold in [asked, guarded, text] {
        assert!(!hold.is_held());
        timeout(SECOND, hold.lost()).await.expect("at once");
        assert!(matches!(hold.release().await, Err(Error::Lost)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_no_doubt_and_a_lost_hold_stays_lost() {
    let server = Server::start();
    let client = client(&server);
    for (key, known) in [("known", true), ("unknown", false)] {
        let hold = client.lock(key).acquire().await.expect("free");
        server.expect(["DEL", key], 1);
        assert!(!known || matches!(hold.extend().await, Err(Error::Lost)));
        server.expect("CONFIG SET min-replicas-to-write 1", OK);
        let release = tokio::spawn(hold.release());
        sleep(SECOND / 10).await;
        server.expect("CONFIG SET min-replicas-to-write 0", OK);
        let released = release.await.expect("no panic");
        // A release of a hold that is known to be lost does not wait long for an answer.
        let told = matches!(released, Err(Error::Lost)) || known && matches!(released, Err(Error::Unreachable(_)));
        assert!(told, "{key}: {released:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_begin_together_share_one_connection() {
    let server = Server::start();
    let client = client(&server);
    let made = || server.info_int("stats", "total_connections_received");
    let mut control = server.client();
    for round in 0..2 {
        let before = made();
        let asked: Vec<_> = (0..100).map(|number| asked(client.lock(format!("{round} {number}")))).collect();
        for asked in asked {
            asked.await.expect("no panic").expect("free").release().await.expect("held");
        }
        // The harness has a connection for each question.
        assert!(made() - before <= 3, "{} connections in round {round}", made() - before);
        control.expect("CLIENT KILL TYPE normal SKIPME yes", ANY);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_command_of_others_does_not_mean_that_the_module_is_missing() {
    let server = Server::start();
    let client = client(&server);
    let hold = client.lock("job").acquire().await.expect("free");
    let foo = redis::cmd("FOO");
    assert!(matches!(hold.guard::<redis::Value>(&foo).await, Err(Error::Refused(_))));
    assert!(matches!(client.query::<redis::Value>("job", &foo).await, Err(Error::Refused(_))));
    hold.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_released_later_lasts_until_then() {
    let server = Server::start();
    let hold = client(&server).lock("job").session().acquire().await.expect("free");
    hold.release_after(2 * SECOND).await.expect("held");
    sleep(SECOND).await;
    server.expect("EXISTS job", 1);
    until("its time is over", || server.cmd("EXISTS job").int() == 0).await;
}
