//! How a lock looks from outside.

use super::Engine;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::queue::Queue;
use crate::core::lock::terms::{Mode, Wanted};
use crate::core::lock::value::{Hold, Lock};
use crate::core::time::{Millis, Now};

/// How many waiters are shown by name.
const SHOWN: usize = 100;

/// A lock as its users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// How it is held; `None` if there are only waiters.
    pub mode: Option<Mode>,
    /// The most permits that a hold wants there to be; 0 unless the mode is [`Mode::Limit`].
    pub limit: u64,
    /// Who holds it, in the order of the fences.
    pub holders: Vec<HolderInfo>,
    /// Who waits for it, in order: the first 100.
    pub waiters: Vec<WaiterInfo>,
    /// How many wait.
    pub waiting: usize,
}

/// A hold as its users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderInfo {
    /// The owner.
    pub token: Ident,
    /// Its number.
    pub fence: Fence,
    /// How long the lease still lasts.
    pub left: Millis,
    /// Whether it ends with a connection.
    pub session: bool,
}

/// A waiter as its users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterInfo {
    /// The owner to be.
    pub token: Ident,
    /// What it asked for.
    pub mode: Wanted,
    /// How long it has been waiting.
    pub waited: Millis,
    /// How long it goes on; `None` if without limit.
    pub left: Option<Millis>,
}

impl Engine {
    /// How the place `at`, which holds `lock`, looks at `now`; `None` if nobody holds it and nobody waits.
    ///
    /// Changes nothing: a hold that is over is not shown even if it has not been ended yet. O(n) in the holds.
    #[must_use]
    pub fn info(&self, now: Now, at: KeyRef<'_>, lock: Option<&Lock>) -> Option<LockInfo> {
        let holds = lock.into_iter().flat_map(|lock| lock.holds().map(move |hold| (lock, hold)));
        let live: Vec<(&Lock, Mode, &Hold)> = holds
            .filter_map(|(lock, hold)| self.standing_hold(lock, hold).map(|(mode, hold)| (lock, mode, hold)))
            .filter(|(_, _, hold)| !hold.deadline.reached(now.ms))
            .collect();
        let queue = self.waiting.at(at).and_then(|queue| self.waiting.queue(queue));
        if live.is_empty() && queue.is_none() {
            return None;
        }
        let waiters = queue.into_iter().flat_map(Queue::line).take(SHOWN);
        Some(LockInfo {
            mode: live.first().map(|(_, mode, _)| *mode),
            limit: live.iter().map(|(_, _, hold)| hold.limit).max().unwrap_or(0),
            holders: live
                .into_iter()
                .map(|(lock, _, hold)| HolderInfo {
                    token: hold.token.clone(),
                    fence: hold.fence,
                    left: hold.deadline.left(now.ms),
                    session: self.session(lock, hold).is_some(),
                })
                .collect(),
            waiters: waiters
                .filter_map(|waiter| self.waiting.waiter(waiter))
                .map(|waiter| WaiterInfo {
                    token: waiter.request.token.clone(),
                    mode: waiter.wanted(),
                    waited: waiter.waited(now.ms),
                    left: waiter.patience(now.ms),
                })
                .collect(),
            waiting: queue.map_or(0, |queue| queue.line().len()),
        })
    }
}
