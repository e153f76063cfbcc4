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

/// Runs a test of this file by itself, as a program of its own that is told the server.
fn program(test: &str, server: &Server) -> std::process::Output {
    let mut program = Command::new(std::env::current_exe().expect("this test has a path"));
    program.args(["--exact", test, "--nocapture"]).env("LOCKSTOCK_TEST_URL", url(server)).output().expect("it runs")
}

#[test]
fn a_release_is_done_though_its_future_is_dropped_and_the_process_ends() {
    if let Ok(url) = std::env::var("LOCKSTOCK_TEST_URL") {
        let hold = current_thread().block_on(Client::open(&url).expect("a URL").lock("job").acquire()).expect("free");
        current_thread().block_on(async {
            tokio::select! {
                biased;
                // Rarely the answer is there at once.
                released = hold.release() => released.expect("held"),
                () = std::future::ready(()) => {}
            }
        });
        std::process::exit(0);
    }
    let server = Server::start();
    for _ in 0..10 {
        let output = program("a_release_is_done_though_its_future_is_dropped_and_the_process_ends", &server);
        assert!(output.status.success(), "{output:?}");
        assert!(is_free(&server));
    }
}

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(status: i32) -> !;
    unsafe fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

#[test]
fn the_child_of_a_fork_has_no_lock_and_is_told_so() {
    let server = Server::start();
    let client = blocking::Client::open(&url(&server)).expect("a URL");
    let hold = client.lock("job").acquire().expect("free");
    let child = fork();
    if child == 0 {
        let mut refused = matches!(client.lock("other").wait(SECOND).acquire(), Err(Error::Invalid(_)));
        refused &= !hold.is_held() && hold.left().is_zero();
        refused &= matches!(hold.release(), Err(Error::Invalid(_)));
        _exit(i32::from(!refused));
    }
    let (mut status, mut ended) = (-1, 0);
    eventually("a call in the child ends", || {
        // SAFETY: the status is a variable of this thread.
        ended = unsafe { waitpid(child, &raw mut status, 1) };
        ended == child
    });
    assert_eq!(status, 0);
    assert!(!is_free(&server));
    hold.release().expect("held to the end");
}
