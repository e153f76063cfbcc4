//! A lock as users see it.

use super::Engine;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::hold::HoldRef;
use crate::core::lock::queue::Queue;
use crate::core::lock::terms::{ClientId, Mode, Wanted};
use crate::core::lock::value::Lock;
use crate::core::time::{Millis, Now};

/// How many waiters are shown by name.
const SHOWN: usize = 100;

/// The public view of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// How it is held; `None` if it has only waiters.
    pub mode: Option<Mode>,
    /// The largest limit of its holds; 0 unless the mode is [`Mode::Limit`].
    pub limit: u64,
    /// Its holders in fence order.
    pub holders: Vec<HolderView>,
    /// Its waiters in queue order: the first 100.
    pub waiters: Vec<WaiterView>,
    /// The number of waiters.
    pub waiting: usize,
}

/// The public view of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// The owner.
    pub token: Ident,
    /// The fence.
    pub fence: Fence,
    /// The rest of the lease.
    pub left: Millis,
    /// Whether it ends with its connection.
    pub session: bool,
}

/// The public view of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// The future owner.
    pub token: Ident,
    /// The mode that the waiter asked for.
    pub mode: Wanted,
    /// How long it has been waiting.
    pub waited: Millis,
    /// The rest of its waiting time; `None` without limit.
    pub left: Option<Millis>,
    /// The connection that the request ends with; `None` if a script or another module asked.
    pub client: Option<ClientId>,
}

impl Engine {
    /// The view of the key `at`, which holds `lock`, at `now`; `None` if it has neither holders nor waiters.
    ///
    /// Changes nothing: a hold that has ended but is not removed yet is not shown. O(n) in the holds.
    pub fn info(&self, now: Now, at: KeyRef<'_>, lock: Option<&Lock>) -> Option<LockView> {
        let holds = lock.into_iter().flat_map(|lock| lock.holds().map(move |hold| (lock, hold)));
        let live: Vec<(&Lock, Mode, HoldRef<'_>)> = holds
            .filter_map(|(lock, hold)| self.standing_hold(lock, hold).map(|(mode, hold)| (lock, mode, hold)))
            .filter(|(_, _, hold)| !hold.deadline.reached(now.ms))
            .collect();
        let queue = self.waiting.at(at).and_then(|queue| self.waiting.queue(queue));
        let queue = queue.filter(|queue| self.waiting.count(queue) > 0);
        if live.is_empty() && queue.is_none() {
            return None;
        }
        let waiters = queue.into_iter().flat_map(Queue::line).filter_map(|id| self.waiting.waiter(id)).take(SHOWN);
        Some(LockView {
            mode: live.first().map(|(_, mode, _)| *mode),
            limit: live.iter().map(|(_, _, hold)| hold.limit).max().unwrap_or(0),
            holders: live
                .into_iter()
                .map(|(lock, _, hold)| HolderView {
                    token: hold.token.clone(),
                    fence: hold.fence,
                    left: hold.deadline.left(now.ms),
                    session: self.session(lock, hold).is_some(),
                })
                .collect(),
            waiters: waiters
                .map(|waiter| WaiterView {
                    token: waiter.request.token.clone(),
                    mode: waiter.request.mode,
                    waited: waiter.waited(now.ms),
                    left: waiter.patience(now.ms),
                    client: waiter.request.client,
                })
                .collect(),
            waiting: queue.map_or(0, |queue| self.waiting.count(queue)),
        })
    }
}
