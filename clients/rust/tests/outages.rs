//! What the crate does when a network or a node is silent for a while. `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{ANY, Cluster, OK, Server};
use lockstock::{Client, Error};
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

mod support;

use support::{asked, signal, until};

const SECOND: Duration = Duration::from_secs(1);

/// A network before a server. What it holds up stays in the client's system for the most part.
struct Network {
    made: Arc<AtomicUsize>,
    /// The first connection of which something passes.
    passes: watch::Sender<usize>,
}

impl Network {
    fn new(server: &Server) -> (Self, Client) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(100).expect("a listener");
        let url = format!("redis://{}", listener.local_addr().expect("an address"));
        let network = Self { made: Arc::default(), passes: watch::Sender::new(0) };
        let (made, passes, address) = (network.made.clone(), network.passes.clone(), server.address());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&address).await else { continue };
                let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
                let number = made.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(carry(from_near, to_far, number, passes.subscribe()));
                tokio::spawn(carry(from_far, to_near, number, passes.subscribe()));
            }
        });
        (network, Client::open(&url).expect("a URL"))
    }

    fn is_away(&self) {
        self.passes.send_replace(usize::MAX);
    }

    /// For connections that are made from now on.
    fn is_back(&self) {
        self.passes.send_replace(self.made.load(Ordering::Relaxed));
    }

    /// For all connections.
    fn brings_all(&self) {
        self.passes.send_replace(0);
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, number: usize, mut passes: watch::Receiver<usize>) {
    let mut bytes = vec![0; 4096];
    loop {
        let count = from.read(&mut bytes).await.unwrap_or_default();
        let passed = passes.wait_for(|first| *first <= number).await.is_ok();
        if !passed || count == 0 || to.write_all(bytes.get(..count).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

/// Linux alone lets a program say when its system gives up what a network holds up.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_network_held_up_does_not_end_a_later_hold_of_its_token() {
    let server = Server::start();
    let (network, client) = Network::new(&server);
    let [released, withdrawn] = ["released", "withdrawn"].map(|key| client.lock(key).token("me").wait(10 * SECOND));
    let hold = released.acquire().await.expect("free");
    server.expect("LOCK.ACQUIRE withdrawn TOKEN other PX 60000", ANY);
    let waits = asked(withdrawn.clone());
    until("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1).await;
    network.is_away();
    let (other, long) = (client.clone(), "x".repeat(1 << 16));
    tokio::spawn(async move { other.query::<redis::Value>("released", cmd("ECHO").arg(long)).await.map(drop) });
    sleep(SECOND / 5).await;
    waits.abort();
    let lost = hold.release().await;
    assert!(matches!(lost, Err(Error::Unreachable(_))), "{lost:?}");
    server.expect("LOCK.RELEASE withdrawn other", 1);
    network.is_back();
    let [first, second] = [&released, &withdrawn].map(|lock| asked(lock.clone()));
    let first = first.await.expect("no panic").expect("its own");
    let second = second.await.expect("no panic").expect("free");
    network.brings_all();
    sleep(SECOND).await;
    let owned = [first.is_owned().await, second.is_owned().await].map(|owned| owned.expect("an answer"));
    assert_eq!(owned, [true; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_of_several_keys_that_has_lost_one_gives_the_others_back() {
    let server = Server::start();
    let (network, client) = Network::new(&server);
    server.expect("LOCK.ACQUIRE a TOKEN other PX 60000", ANY);
    let waits = asked(client.locks(["a", "b"]).wait(3 * SECOND));
    until("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1).await;
    network.is_away();
    server.expect("LOCK.RELEASE a other", 1);
    server.expect("EXISTS b", 1);
    server.expect("DEL a", 1);
    server.expect("LOCK.ACQUIRE a TOKEN other PX 60000", ANY);
    network.brings_all();
    let outcome = waits.await.expect("no panic");
    assert!(matches!(outcome, Err(Error::NotGranted)), "{outcome:?}");
    server.expect("EXISTS b", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_network_lost_is_not_taken_for_the_end_of_the_hold() {
    let server = Server::start();
    let (network, client) = Network::new(&server);
    let [deleted, expired] = ["deleted", "expired"].map(|key| client.lock(key));
    let (deleted, expired) = (deleted.acquire().await.expect("free"), expired.acquire().await.expect("free"));
    network.is_away();
    let deleted = tokio::spawn(deleted.release());
    let expired = tokio::spawn(expired.release_after(10 * SECOND));
    sleep(SECOND / 5).await;
    server.expect("DEL deleted expired", 2);
    network.is_back();
    for ended in [deleted, expired] {
        // Another token may have had the lock since.
        let released = ended.await.expect("no panic");
        assert!(matches!(released, Err(Error::NotReleased)), "{released:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_before_the_last_release_of_the_token_belongs_to_the_wait() {
    let server = Server::start();
    let client = Client::open(&format!("redis://{}", server.address())).expect("a URL");
    let lock = client.lock("page").token("me").wait(3 * SECOND);
    server.expect("LOCK.ACQUIRE page TOKEN other PX 60000 SHARED", ANY);
    let reader = lock.clone().shared().acquire().await.expect("readers share");
    server.expect("CONFIG SET min-replicas-to-write 1", OK);
    drop(reader);
    let begun = Instant::now();
    let waits = asked(lock);
    sleep(SECOND * 5 / 2).await;
    server.expect("CONFIG SET min-replicas-to-write 0", OK);
    let outcome = waits.await.expect("no panic");
    assert!(matches!(outcome, Err(Error::NotGranted)), "{outcome:?}");
    assert!(begun.elapsed() < 4 * SECOND, "{:?}", begun.elapsed());
}

/// How long it takes to hear that the server cannot be reached.
async fn silence<T: std::fmt::Debug>(asked: impl Future<Output = Result<T, Error>>) -> Duration {
    let begun = Instant::now();
    let said = asked.await;
    assert!(matches!(said, Err(Error::Unreachable(_))), "{said:?}");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_at_a_frozen_server_ends_in_time() {
    let server = Server::start();
    let client = Client::open(&format!("redis://{}", server.address())).expect("a URL");
    let lock = |key: &str| client.lock(key).lease(60 * SECOND);
    let [held, released] =
        [lock("held"), lock("released")].map(|lock| async move { lock.acquire().await.expect("free") });
    let (held, released) = (held.await, released.await);
    let brief = client.lock("brief").lease(SECOND).acquire().await.expect("free");
    let blocking = lockstock::blocking::Lock::from(lock("blocking")).acquire().expect("free");
    signal(&server, "-STOP");
    let (free, taken, stock) = (lock("free"), lock("held"), client.stock("sale"));
    let (ping, order) = (cmd("PING"), lockstock::Order::default());
    let soon = async {
        tokio::join!(
            silence(free.acquire()),
            silence(taken.is_locked()),
            silence(held.is_owned()),
            silence(held.extend()),
            silence(held.guard::<redis::Value>(&ping)),
            silence(stock.info()),
            silence(stock.order("1", &order)),
            silence(brief.release()),
        )
    };
    let dropped = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        drop(blocking);
        begun.elapsed()
    });
    let (soon, released, dropped) = tokio::join!(soon, silence(released.release()), dropped);
    let (free, taken, owned, extended, guarded, info, ordered, brief) = soon;
    // By promise two seconds, and five for a release: the rest is for a busy machine.
    for took in [free, taken, owned, extended, guarded, info, ordered, brief] {
        assert!(took < Duration::from_millis(3_500), "{took:?}");
    }
    for took in [released, dropped.expect("no panic")] {
        assert!(took < Duration::from_millis(6_500), "{took:?}");
    }
    signal(&server, "-CONT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_costs_the_keys_of_others_nothing_even_those_that_were_its_own() {
    let cluster = Cluster::start_with(3, &["cluster-require-full-coverage no", "cluster-node-timeout 60000"]);
    let keys = |of: &[usize]| -> Vec<String> {
        (0..).map(|number| format!("job {number}")).filter(|key| of.contains(&cluster.owner(key))).take(8).collect()
    };
    let (its_own, of_others) = (keys(&[0]), keys(&[1, 2]));
    let [zero, one, two] = [0, 1, 2].map(|number| cluster.node(number).address());
    let first = Client::open(&format!("redis+cluster://{zero},{one},{two}")).expect("a URL");
    let last = Client::open(&format!("redis+cluster://{one},{two}")).expect("a URL");
    for key in &its_own {
        // One of the clients learns from a redirection where the slots are.
        for client in [&first, &last] {
            assert!(!client.lock(key.as_str()).is_locked().await.expect("an answer"));
        }
    }
    let asked = |client: &Client, keys: &[String]| -> Vec<JoinHandle<Result<bool, Error>>> {
        let ask = |key: &String| {
            let lock = client.lock(key.as_str());
            tokio::spawn(async move { lock.is_locked().await })
        };
        keys.iter().map(ask).collect()
    };
    signal(cluster.node(0), "-STOP");
    for client in [&first, &last] {
        let silent = client.lock(its_own.first().expect("a key").as_str()).is_locked().await;
        assert!(matches!(silent, Err(Error::Unreachable(_))), "{silent:?}");
    }
    for key in &its_own {
        let lock = first.lock(key.as_str());
        tokio::spawn(async move { while lock.is_locked().await.is_err() {} });
    }
    sleep(SECOND * 5 / 2).await;
    for asked in asked(&first, &of_others) {
        asked.await.expect("no panic").expect("another node has the key");
    }
    let id = cluster.node(1).cmd("CLUSTER MYID").text();
    for key in &its_own {
        let slot = cluster.node(1).cmd(["CLUSTER", "KEYSLOT", key.as_str()]).int();
        for number in [1, 2] {
            cluster.node(number).expect(format!("CLUSTER SETSLOT {slot} NODE {id}"), OK);
        }
    }
    for asked in asked(&last, &its_own) {
        asked.await.expect("no panic").expect("another node has the key now");
    }
    signal(cluster.node(0), "-CONT");
}
