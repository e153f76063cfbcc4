//! What the tests of silent and broken servers share.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use harness::Server;
use lockstock::{Error, Hold, Lock};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Sends a signal to the process of the server.
pub fn signal(server: &Server, name: &str) {
    let mut kill = Command::new("kill");
    assert!(kill.arg(name).arg(server.pid().to_string()).process_group(0).status().expect("kill runs").success());
}

/// Waits for the condition.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(condition(), "{what}");
}

/// Asks for the lock in a task of its own.
pub fn asked(lock: Lock) -> JoinHandle<Result<Hold, Error>> {
    tokio::spawn(async move { lock.acquire().await })
}
