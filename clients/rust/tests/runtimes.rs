//! Holds and connections outlive the runtimes that they were made in. `LOCKSTOCK_SERVER` names the server.
#![expect(clippy::expect_used, reason = "here a panic is a failed test")]

use std::process::Command;
use std::thread;
use std::time::Duration;

use harness::{Server, eventually};
use lockstock::{Client, Error, blocking};
use tokio::runtime::{Builder, Runtime};

const SECOND: Duration = Duration::from_secs(1);

fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn is_free(server: &Server) -> bool {
    server.cmd("EXISTS job").int() == 0
}

#[test]
fn a_drop_releases_also_when_the_runtime_has_ended() {
    let server = Server::start();
    let lock = Client::open(&url(&server)).expect("a URL").lock("job").lease(600 * SECOND);
    for dropped_first in [true, false] {
        let runtime = current_thread();
        let hold = runtime.block_on(lock.acquire()).expect("free");
        if dropped_first {
            drop(hold);
            drop(runtime);
        } else {
            drop(runtime);
            drop(hold);
        }
        eventually("the drop releases it", || is_free(&server));
    }
    let runtime = Runtime::new().expect("a runtime");
    let hold = runtime.block_on(lock.acquire()).expect("free");
    runtime.spawn(async move {
        let _held = hold;
        std::future::pending::<()>().await;
    });
    runtime.shutdown_background();
    eventually("the end of its task releases it", || is_free(&server));
    let hold = current_thread().block_on(lock.acquire()).expect("free");
    let panicked = thread::spawn(move || {
        let _held = hold;
        std::panic::resume_unwind(Box::new("as it should"));
    });
    assert!(panicked.join().is_err());
    eventually("a panic releases it", || is_free(&server));
}

#[test]
fn a_dropped_wait_leaves_the_line_also_when_the_runtime_has_ended() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", harness::ANY);
    let lock = Client::open(&url(&server)).expect("a URL").lock("job").wait_forever();
    let runtime = Runtime::new().expect("a runtime");
    runtime.spawn(async move { lock.acquire().await.map(drop) });
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    runtime.shutdown_background();
    eventually("it has left", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
}

#[test]
fn a_hold_is_extended_while_its_runtime_is_busy_or_over() {
    let server = Server::start();
    let client = Client::open(&url(&server)).expect("a URL");
    let runtime = current_thread();
    let hold = runtime.block_on(async {
        let hold = client.lock("job").lease(3 * SECOND).acquire().await.expect("free");
        thread::sleep(5 * SECOND);
        assert!(hold.is_held());
        hold
    });
    drop(runtime);
    thread::sleep(5 * SECOND);
    assert!(hold.is_held());
    current_thread().block_on(hold.release()).expect("held to the end");
}

#[test]
fn a_client_serves_one_runtime_while_another_that_has_used_it_stands_still() {
    let server = Server::start();
    let lock = Client::open(&url(&server)).expect("a URL").lock("job");
    let (first, second) = (current_thread(), current_thread());
    first.block_on(async { lock.acquire().await.expect("free").release().await.expect("held") });
    second.block_on(async { lock.acquire().await.expect("free").release().await.expect("held") });
}

#[test]
fn a_blocking_call_works_on_any_thread() {
    let server = Server::start();
    let runtime = Runtime::new().expect("a runtime");
    let lock = blocking::Client::open(&url(&server)).expect("a URL").lock("job").wait(SECOND);
    let taken = |lock: &blocking::Lock| lock.acquire()?.release();
    taken(&lock).expect("on a plain thread");
    let held = lock.clone();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || taken(&held)).await.expect("no panic").expect("on a thread for that");
        let held = lock.clone();
        let asked = tokio::spawn(async move { tokio::task::block_in_place(|| taken(&held)) });
        asked.await.expect("no panic").expect("in place");
        let held = lock.clone();
        let asked = tokio::spawn(async move {
            // As many as use up what a task may do at a time.
            (0..200).try_for_each(|_| held.acquire().map(drop))
        });
        asked.await.expect("no panic").expect("in a task");
    });
}

#[test]
fn a_blocking_hold_is_released_when_its_drop_ends() {
    let server = Server::start();
    let lock = blocking::Client::open(&url(&server)).expect("a URL").lock("job");
    for _ in 0..50 {
        drop(lock.acquire().expect("free"));
        assert!(is_free(&server));
    }
}

#[test]
fn a_session_is_released_before_its_connection_ends() {
    let server = Server::start();
    let lock = blocking::Client::open(&url(&server)).expect("a URL").lock("job").session();
    for _ in 0..200 {
        let released = lock.acquire().expect("free").release();
        assert!(!matches!(released, Err(Error::Lost)), "it was held to the end");
        released.expect("told");
    }
}

#[test]
fn a_drop_releases_also_when_the_process_ends() {
    let server = Server::start();
    let test = std::env::current_exe().expect("this test has a path");
    let built = test.parent().and_then(std::path::Path::parent).expect("a directory");
    for _ in 0..20 {
        let output = Command::new(built.join("examples/brief")).arg(url(&server)).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(is_free(&server));
    }
    assert_eq!(server.info_int("lockstock", "lockstock_lock_grants"), 20);
}
