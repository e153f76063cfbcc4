//! One thread in the background of the process does all that is asked of servers. So a hold is extended while the program's own threads
//! are busy, is released though the runtime has ended in which it was acquired, and a connection is of use to every runtime.

use std::process;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::Error;

/// And the process that it belongs to.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

fn runtime() -> Result<&'static Runtime, Error> {
    static BUILT: Mutex<()> = Mutex::new(());
    if RUNTIME.get().is_none() {
        let _one = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if RUNTIME.get().is_none() {
            let build = Builder::new_multi_thread().worker_threads(1).thread_name("lockstock").enable_all().build();
            let _ = RUNTIME.set((process::id(), build.map_err(|_| NONE)?));
        }
    }
    let (_, runtime) = RUNTIME.get().ok_or(NONE)?;
    if is_elsewhere() { Err(FORKED) } else { Ok(runtime) }
}

/// Whether this is the child of a fork: it has not this thread, and its parent's holds are none of its own.
pub fn is_elsewhere() -> bool {
    RUNTIME.get().is_some_and(|(of, _)| *of != process::id())
}

/// Ends its background task when it is dropped.
struct Ended<T>(JoinHandle<T>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does it there. Dropping the future ends it.
pub async fn run<T: Send + 'static>(
    asked: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let mut task = Ended(spawn(asked)?);
    (&mut task.0).await.unwrap_or(Err(NONE))
}

/// Does it there, to its end though the future is dropped; as a farewell.
pub async fn finish<T: Send + 'static>(
    asked: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    farewell(asked)?.await.unwrap_or(Err(NONE))
}

/// Runs the work in the background, even if no caller waits for it.
pub fn spawn<T: Send + 'static>(asked: impl Future<Output = T> + Send + 'static) -> Result<JoinHandle<T>, Error> {
    runtime().map(|runtime| runtime.spawn(asked))
}

/// Does it there. The thread that calls it does not end before it is done, or a second is over: it may be the last of the process.
pub fn farewell<T: Send + 'static>(asked: impl Future<Output = T> + Send + 'static) -> Result<JoinHandle<T>, Error> {
    let goes_on = GoesOn::new();
    // If the thread ends already, there is no more to be done for it.
    let _ = AT_END.try_with(|_| ());
    spawn(async move {
        let _goes_on = goes_on;
        asked.await
    })
}

static FAREWELLS: Mutex<usize> = Mutex::new(0);
static FEWER: Condvar = Condvar::new();

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let farewells = FAREWELLS.lock().unwrap_or_else(PoisonError::into_inner);
        drop(FEWER.wait_timeout_while(farewells, Duration::from_secs(1), |number| *number > 0));
    }
}

struct GoesOn;

impl GoesOn {
    fn new() -> Self {
        *FAREWELLS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        *FAREWELLS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FEWER.notify_all();
    }
}

const NONE: Error = Error::Invalid("the system gives no thread for the background");
const FORKED: Error = Error::Invalid("the child of a fork has no thread in the background, and no lock");
