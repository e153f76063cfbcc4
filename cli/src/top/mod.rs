//! `lockstock top`: the locks, their holders and remaining leases, the waiters, and the sales.
//!
//! [`watch`] asks the servers within a budget of their time; [`state`] has the results; [`table`] and [`screen`] show it.

mod screen;
mod state;
mod table;
mod watch;

use std::io::Write;
use std::sync::{Arc, Mutex};

use lockstock::Client;
use tokio::signal::unix::{SignalKind, signal};

use crate::fail::{Failure, UNAVAILABLE, USAGE};
use crate::options::Top;
use state::State;
pub use state::shown;

pub fn run(url: &str, options: &Top) -> Result<i32, Failure> {
    let client = Client::open(url).map_err(|error| Failure::new(USAGE, format!("--url: {error}")))?;
    if options.every.is_zero() {
        return Err(Failure::new(USAGE, "--every is longer than 0s"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(UNAVAILABLE, error))?;
    let outcome = runtime.block_on(show(client, options));
    runtime.shutdown_background();
    outcome
}

async fn show(client: Client, options: &Top) -> Result<i32, Failure> {
    let unreachable = |error: lockstock::Error| Failure::new(UNAVAILABLE, error);
    let state = Arc::new(Mutex::new(State::default()));
    watch::check(&client).await.map_err(unreachable)?;
    if options.once {
        watch::once(&client, options, &state).await.map_err(unreachable)?;
        print(&text(&state, options));
        return Ok(0);
    }
    let watching = tokio::spawn(watch::keep(client, options.clone(), state.clone()));
    if options.json {
        loop {
            tokio::time::sleep(options.every).await;
            if watching.is_finished() {
                let error = watching.await.map_err(|error| Failure::new(UNAVAILABLE, error))?;
                return Err(unreachable(error));
            }
            if !print(&text(&state, options)) {
                return Ok(0);
            }
        }
    }
    let drawn = tokio::task::spawn_blocking({
        let (state, options) = (state.clone(), options.clone());
        move || screen::show(&state, &options)
    });
    let mut term = signal(SignalKind::terminate()).map_err(|error| Failure::new(UNAVAILABLE, error))?;
    let outcome = tokio::select! {
        // Not before the terminal is as it was.
        _ = term.recv() => {
            screen::leave();
            return Ok(143);
        }
        drawn = drawn => drawn.map_err(|error| Failure::new(UNAVAILABLE, error))?,
        error = watching => {
            screen::leave();
            return Err(match error {
                Ok(error) => unreachable(error),
                Err(error) => Failure::new(UNAVAILABLE, error),
            });
        }
    };
    outcome.map(|()| 0).map_err(|error| Failure::new(UNAVAILABLE, format!("the terminal: {error}")))
}

fn text(state: &Mutex<State>, options: &Top) -> String {
    let state = state::seen(state);
    if options.json { serde_json::to_string(&state.report()).unwrap_or_default() + "\n" } else { table::text(&state) }
}

/// `false` if nobody reads.
fn print(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}
