//! What the crate does when a network or a node is silent for a while. `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{ANY, Server};
use lockstock::{Client, Error, Hold};
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(condition(), "{what}");
}

fn asked(lock: lockstock::Lock) -> JoinHandle<Result<Hold, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}

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
