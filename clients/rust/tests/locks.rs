//! The promises of the crate, against a real server: `LOCKSTOCK_SERVER` names it.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harness::{Cluster, INT, Server, eventually};
use lockstock::{Client, Error};
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const SECOND: Duration = Duration::from_secs(1);

fn client(server: &Server) -> Client {
    Client::open(&format!("redis://{}", server.address())).expect("a URL")
}

/// Stops the server's process until this is dropped.
struct Frozen(u32);

fn signal(pid: u32, name: &str) {
    assert!(
        Command::new("kill").arg(name).arg(pid.to_string()).process_group(0).status().expect("kill runs").success()
    );
}

impl Frozen {
    fn new(server: &Server) -> Self {
        signal(server.pid(), "-STOP");
        Self(server.pid())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.0, "-CONT");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_extended_while_it_lives_and_released_when_it_is_dropped() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.lock("job").lease(SECOND);
    let hold = lock.acquire().await.expect("free");
    let first = hold.fence();
    tokio::time::sleep(2 * SECOND).await;
    assert!(hold.is_held());
    assert!(matches!(lock.acquire().await, Err(Error::NotGranted)));
    drop(hold);
    let again = lock.clone().wait(SECOND).acquire().await.expect("released by the drop");
    assert!(again.fence() > first);
    again.release().await.expect("held");
    server.expect("EXISTS job", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_one_description_and_are_inside_one_by_one() {
    let server = Server::start();
    let lock = client(&server).lock("job").wait(20 * SECOND);
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (lock, inside) = (lock.clone(), inside.clone());
        tasks.push(tokio::spawn(async move {
            let hold = lock.acquire().await.expect("in time");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            hold.release().await.expect("held");
        }));
    }
    for task in tasks {
        task.await.expect("it ends well");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_an_administrator_ended_is_lost() {
    let server = Server::start();
    let hold = client(&server).lock("job").lease(SECOND).acquire().await.expect("free");
    let lost = hold.lost();
    server.expect("DEL job", 1);
    tokio::time::timeout(SECOND, lost).await.expect("within a third of the lease");
    assert!(!hold.is_held());
    assert!(matches!(hold.release().await, Err(Error::Lost)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_lost_with_its_connection_at_once() {
    let server = Server::start();
    let hold = client(&server).lock("job").session().acquire().await.expect("free");
    let lost = hold.lost();
    server.client().expect("CLIENT KILL TYPE normal SKIPME yes", INT);
    tokio::time::timeout(SECOND, lost).await.expect("at once");
    eventually("the lock is free", || server.cmd("EXISTS job").int() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_could_extend_is_lost_by_the_clock() {
    let server = Server::start();
    let hold = client(&server).lock("job").lease(SECOND).acquire().await.expect("free");
    let begun = Instant::now();
    let frozen = Frozen::new(&server);
    hold.lost().await;
    assert!(begun.elapsed() <= SECOND + SECOND / 5, "{:?}", begun.elapsed());
    assert!(matches!(hold.release().await, Err(Error::Unreachable(_))));
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_in_time_whatever_the_server_does() {
    let server = Server::start();
    let client = client(&server);
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
    let lock = client.lock("job").wait(SECOND / 2);
    let begun = Instant::now();
    assert!(matches!(lock.acquire().await, Err(Error::NotGranted)));
    assert!(begun.elapsed() >= SECOND / 2);
    let asked = tokio::spawn(async move {
        let begun = Instant::now();
        (lock.wait(SECOND).acquire().await, begun.elapsed())
    });
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1 || asked.is_finished());
    let frozen = Frozen::new(&server);
    let (outcome, took) = asked.await.expect("it ends");
    assert!(matches!(outcome, Err(Error::Unreachable(_) | Error::NotGranted)), "{outcome:?}");
    assert!(took <= 3 * SECOND, "{took:?}");
    drop(frozen);
    let begun = Instant::now();
    let nobody = Client::open("redis://127.0.0.1:1").expect("a URL");
    assert!(matches!(nobody.lock("job").wait(SECOND).acquire().await, Err(Error::Unreachable(_))));
    assert!(begun.elapsed() <= 3 * SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_line() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
    let lock = client(&server).lock("job").wait_forever();
    let waits = |number| move |server: &Server| server.info_int("lockstock", "lockstock_lock_waiters") == number;
    let asked = tokio::spawn(async move { lock.acquire().await.map(drop) });
    while !waits(1)(&server) {
        tokio::time::sleep(SECOND / 100).await;
    }
    asked.abort();
    while !waits(0)(&server) {
        tokio::time::sleep(SECOND / 100).await;
    }
    server.expect("LOCK.RELEASE job other", 1);
    server.expect("EXISTS job", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_ends_at_once_even_if_the_server_is_frozen() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
    let lock = client(&server).lock("job").wait_forever();
    let mut frozen = None;
    for _ in 0..2 {
        // A busy machine may be late now and then, but not each time.
        let mut late = Duration::MAX;
        for _ in 0..10 {
            let begun = Instant::now();
            assert!(tokio::time::timeout(SECOND / 5, lock.acquire()).await.is_err());
            late = late.min(begun.elapsed().saturating_sub(SECOND / 5));
        }
        assert!(late < SECOND / 10, "{late:?}");
        frozen = frozen.or_else(|| Some(Frozen::new(&server)));
    }
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_and_several_keys() {
    let server = Server::start();
    let client = client(&server);
    let reader = client.lock("page").shared().acquire().await.expect("free");
    let other = client.lock("page").shared().acquire().await.expect("readers share");
    assert!(matches!(client.lock("page").acquire().await, Err(Error::NotGranted)));
    drop((reader, other));
    let _one = client.lock("pool").limit(1).acquire().await.expect("free");
    assert!(matches!(client.lock("pool").limit(1).acquire().await, Err(Error::NotGranted)));
    let both = client.locks(["a", "b", "a"]).acquire().await.expect("free");
    assert!(matches!(client.lock("b").acquire().await, Err(Error::NotGranted)));
    server.expect("DEL a", 1);
    assert!(matches!(both.release().await, Err(Error::Lost)));
    for wrong in [
        client.lock(""),
        client.locks(Vec::<Vec<u8>>::new()),
        client.locks(["a", "b"]).shared(),
        client.lock("a").limit(0),
        client.lock("a").limit(u64::MAX),
        client.lock("a").shared().limit(2),
        client.lock("a").limit(2).shared(),
        client.lock("a").lease(Duration::ZERO),
        client.lock("a").token(""),
    ] {
        assert!(matches!(wrong.acquire().await, Err(Error::Invalid(_))), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_counts_only_with_its_replicas() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.lock("job").replicas(1);
    assert!(matches!(lock.acquire().await, Err(Error::NotReplicated { replicas: 0 })));
    server.expect("EXISTS job", 0);
    let replica = Server::builder().replica_of(&server).start();
    // The primary counts a replica only once it has heard from it.
    eventually("it follows", || server.cmd("WAIT 1 1").int() == 1);
    let hold = lock.acquire().await.expect("on the replica");
    replica.expect("EXISTS job", 1);
    hold.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_lacks_is_named() {
    let plain = Server::plain().start();
    assert!(matches!(client(&plain).lock("job").acquire().await, Err(Error::NoModule)));
    let server = Server::start();
    server.expect("SET job text", harness::OK);
    assert!(matches!(client(&server).lock("job").acquire().await, Err(Error::Refused(_))));
    assert!(Client::open("http://example.org").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_known_by_any_of_its_nodes() {
    let cluster = Cluster::start(3);
    let client = Client::open(&format!("redis+cluster://127.0.0.1:1,{}", cluster.node(0).address())).expect("a URL");
    for number in 0..20 {
        let key = format!("job {number}");
        let hold = client.lock(key.clone()).wait(SECOND).acquire().await.expect("free");
        assert!(matches!(client.lock(key.clone()).wait(SECOND / 10).acquire().await, Err(Error::NotGranted)));
        cluster.node(cluster.owner(&key)).expect(["EXISTS", &key], 1);
        hold.release().await.expect("held");
    }
    // A first try over a connection of its own follows a redirection, too.
    let url = format!("redis+cluster://{}", cluster.node(0).address());
    for number in 0..3 {
        let lock = Client::open(&url).expect("a URL").lock(format!("job {number}"));
        lock.clone().session().acquire().await.expect("free").release().await.expect("held");
        let replicated = lock.replicas(1).acquire().await;
        assert!(matches!(replicated, Err(Error::NotReplicated { replicas: 0 })), "{replicated:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_command_runs_only_while_the_hold_lasts() {
    let server = Server::start();
    let hold = client(&server).lock("job").acquire().await.expect("free");
    let stored: String = hold.guard(cmd("SET").arg("x").arg(1)).await.expect("held");
    assert_eq!(stored, "OK");
    server.expect("DEL job", 1);
    assert!(matches!(hold.guard::<String>(cmd("SET").arg("x").arg(2)).await, Err(Error::Lost)));
    server.expect("GET x", "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_a_lock_once_at_a_time() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.lock("job").token("me");
    let hold = lock.acquire().await.expect("free");
    for again in
        [lock.clone(), lock.clone().shared(), lock.clone().wait(60 * SECOND), client.locks(["x", "job"]).token("me")]
    {
        assert!(matches!(again.acquire().await, Err(Error::AlreadyHeld)), "{again:?}");
    }
    assert!(hold.is_owned().await.expect("an answer"));
    // Another lock is another thing, and so is a later time.
    client.lock("other").token("me").acquire().await.expect("free").release().await.expect("held");
    drop(hold);
    lock.acquire().await.expect("when the drop has released it").release().await.expect("held");
    // A wait is a request for it, too.
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
    let waits = lock.clone().wait(60 * SECOND);
    let asked = tokio::spawn(async move { waits.acquire().await });
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    assert!(matches!(lock.acquire().await, Err(Error::AlreadyHeld)));
    server.expect("LOCK.RELEASE job other", 1);
    asked.await.expect("no panic").expect("granted").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawal_does_not_end_a_later_hold_of_its_token() {
    let server = Server::start();
    let lock = client(&server).lock("job").token("me").wait(10 * SECOND);
    for _ in 0..5 {
        server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
        assert!(tokio::time::timeout(SECOND / 5, lock.acquire()).await.is_err());
        let again = lock.clone();
        let asked = tokio::spawn(async move { again.acquire().await });
        tokio::time::sleep(SECOND / 5).await;
        server.expect("LOCK.RELEASE job other", 1);
        let hold = asked.await.expect("no panic").expect("the withdrawal was of the request before");
        tokio::time::sleep(SECOND / 5).await;
        assert!(hold.is_owned().await.expect("an answer"));
        hold.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_asks_until_the_server_answers_keeps_its_lock() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.lock("job").token("me");
    assert!(!lock.is_locked().await.expect("an answer"));
    let frozen = Frozen::new(&server);
    tokio::spawn(async move {
        tokio::time::sleep(SECOND * 5 / 2).await;
        drop(frozen);
    });
    let hold = loop {
        match lock.acquire().await {
            Ok(hold) => break hold,
            Err(error) => assert!(matches!(error, Error::Unreachable(_)), "{error:?}"),
        }
    };
    tokio::time::sleep(SECOND / 3).await;
    assert!(matches!(client.lock("job").acquire().await, Err(Error::NotGranted)));
    hold.release().await.expect("held");
}

/// The server has extended the first hold, though the client did not hear of it. Asked again, it gives the same hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_hold_does_not_end_a_later_one_with_its_fence() {
    let server = Server::start();
    let lock = client(&server).lock("job").token("me").lease(SECOND / 2).unattended();
    let first = lock.acquire().await.expect("free");
    server.expect("LOCK.EXTEND job me PX 60000", 1);
    first.lost().await;
    let second = lock.clone().lease(30 * SECOND).acquire().await.expect("renewed");
    assert_eq!(first.fence(), second.fence());
    assert!(matches!(first.extend().await, Err(Error::Lost)));
    assert!(server.cmd("LOCK.INFO job").field("holders").at(0).field("lease-ms").int() > 20_000);
    drop(first);
    tokio::time::sleep(SECOND / 5).await;
    assert!(second.is_owned().await.expect("an answer"));
    second.release().await.expect("still held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_does_not_end_a_later_hold_of_its_token() {
    let server = Server::start();
    let lock = client(&server).lock("job").token("me");
    let first = lock.acquire().await.expect("free");
    server.expect("DEL job", 1);
    assert!(matches!(first.extend().await, Err(Error::Lost)));
    let second = lock.acquire().await.expect("free");
    assert!(matches!(first.release().await, Err(Error::Lost)));
    second.release().await.expect("still held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_and_a_hold_are_looked_at() {
    let server = Server::start();
    let lock = client(&server).locks(["a", "b"]);
    assert!(!lock.is_locked().await.expect("an answer"));
    let hold = lock.acquire().await.expect("free");
    assert!(lock.is_locked().await.expect("an answer"));
    assert!(hold.is_owned().await.expect("an answer"));
    assert_eq!(hold.keys(), [b"a", b"b"]);
    server.expect("DEL b", 1);
    assert!(lock.is_locked().await.expect("an answer"));
    assert!(!hold.is_owned().await.expect("an answer"));
    assert!(matches!(client(&server).lock("").is_locked().await, Err(Error::Invalid(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_named() {
    let server = Server::start();
    let client = client(&server);
    let _one = client.lock("one").token("first").acquire().await.expect("free");
    let _two = client.lock("two").token("second").acquire().await.expect("free");
    let waits = client.lock("two").token("first").wait(60 * SECOND);
    tokio::spawn(async move { waits.acquire().await.map(drop) });
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    let crossed = client.lock("one").token("second").wait(60 * SECOND).acquire().await;
    assert!(matches!(crossed, Err(Error::Deadlock(_))), "{crossed:?}");
}

/// The address of a relay to the server: what goes through it takes so many milliseconds in each direction.
async fn slow(server: &Server, delay: Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (own, address) = (listener.local_addr().expect("an address"), server.address());
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(&address).await else { continue };
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            tokio::spawn(carry(from_near, to_far, delay.clone()));
            tokio::spawn(carry(from_far, to_near, delay.clone()));
        }
    });
    own.to_string()
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Arc<AtomicU64>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        tokio::time::sleep(Duration::from_millis(delay.load(Ordering::Relaxed))).await;
        if to.write_all(bytes.get(..count).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_goes_on_though_answers_take_a_fifth_of_its_lease() {
    let server = Server::start();
    let delay = Arc::new(AtomicU64::new(0));
    let client = Client::open(&format!("redis://{}", slow(&server, delay.clone()).await)).expect("a URL");
    let hold = client.lock("job").lease(6 * SECOND).acquire().await.expect("free");
    delay.store(550, Ordering::Relaxed);
    tokio::time::timeout(9 * SECOND, hold.lost()).await.expect_err("it is not lost");
    assert!(hold.is_held());
    hold.release().await.expect("held to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_when_its_lease_is_over_lets_nobody_in() {
    let server = Server::start();
    let delay = Arc::new(AtomicU64::new(0));
    let client = Client::open(&format!("redis://{}", slow(&server, delay.clone()).await)).expect("a URL");
    let lock = client.lock("job").lease(SECOND / 2);
    assert!(!lock.is_locked().await.expect("an answer"));
    delay.store(400, Ordering::Relaxed);
    for lock in [lock.clone(), lock.clone().wait(SECOND), lock.session().wait(SECOND)] {
        let late = lock.acquire().await;
        assert!(matches!(late, Err(Error::Unreachable(_) | Error::NotGranted)), "{late:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_counts_after_a_wait_too() {
    let server = Server::start();
    let client = client(&server);
    for (lock, mode, limit) in [(client.lock("job").limit(2), "limit", 2), (client.lock("job").shared(), "shared", 0)] {
        server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
        let lock = lock.token("me").lease(45 * SECOND).session().wait(20 * SECOND);
        let asked = tokio::spawn(async move { lock.acquire().await });
        eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
        server.expect("LOCK.RELEASE job other", 1);
        let hold = asked.await.expect("no panic").expect("granted");
        let info = server.cmd("LOCK.INFO job");
        assert_eq!((info.field("mode").text().as_str(), info.field("limit").int()), (mode, limit));
        let holder = info.field("holders").at(0).clone();
        assert_eq!([holder.field("token").text(), holder.field("session").text()], ["me", "yes"]);
        assert!((30_001..=45_000).contains(&holder.field("lease-ms").int()), "{holder:?}");
        hold.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_hold_of_several_keys_does_not_end_a_later_one_of_its_token() {
    let server = Server::start();
    let client = client(&server);
    let first = client.locks(["a", "b"]).token("me").acquire().await.expect("free");
    server.expect("DEL b", 1);
    assert!(matches!(first.extend().await, Err(Error::Lost)));
    let second = client.lock("a").token("me").acquire().await.expect("its own");
    assert_eq!(second.fence(), first.fence());
    assert!(matches!(first.release().await, Err(Error::Lost)));
    assert!(second.is_owned().await.expect("an answer"));
    second.release().await.expect("still held");
}
