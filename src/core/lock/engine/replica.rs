//! Applying effects from a primary or from the AOF.
//!
//! Nothing is decided here: no clock, no expiry, no hand-over, no count. The effect replaces whatever is there, and applying it twice has
//! the same result as applying it once. A replica has no waiters. If there are waiters, this server also decides, or soon will (the target
//! of a copying tool, Valkey's import mode), and the next tick serves them.

use super::Engine;
use super::transition::Transition;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::limits::MAX_PERMITS;
use crate::core::lock::hold::{Hold, HoldRef};
use crate::core::lock::keyspace::Keyspace;
use crate::core::lock::terms::{EndReason, LockError, Mode};

impl Engine {
    /// Sets the hold of its token on the lock at `at`, and the mode of the lock. The session is dropped, because its connection belongs to
    /// another server.
    ///
    /// # Errors
    /// [`LockError::WrongType`].
    pub fn apply_held<W: Keyspace>(
        &mut self,
        at: KeyRef<'_>,
        mode: Mode,
        hold: Hold,
        keyspace: &mut W,
    ) -> Result<(), LockError> {
        self.fences.observe(hold.fence);
        let limit = if mode == Mode::Limit { hold.limit.clamp(1, MAX_PERMITS) } else { 0 };
        let hold = Hold { limit, session: None, ..hold };
        let mut transition = Transition::passive(self, keyspace);
        let mut visit = transition.open(at).ok_or(LockError::WrongType)?;
        // A primary first ends the holds that are incompatible with this one. Any that it did not report end here.
        let others = |other: &HoldRef<'_>| *other.token != hold.token;
        let ended: Vec<Fence> = if mode == Mode::Exclusive || visit.lock.mode() != mode {
            visit.lock.holds().filter(others).map(|other| other.fence).collect()
        } else {
            visit.lock.hold_of(hold.fence).filter(others).map(|other| other.fence).into_iter().collect()
        };
        for fence in ended {
            visit.end_hold(fence, EndReason::Released);
        }
        visit.engine.look_later_at(at);
        let changed = visit.set_hold(mode, hold);
        visit.engine.heard_of(changed);
        // The server itself propagates the effect unchanged.
        visit.outcomes.clear();
        let closed = visit.close();
        transition.finish(at, closed);
        Ok(())
    }

    /// Ends the hold of `token` on the lock at `at`; false if it has none.
    ///
    /// # Errors
    /// [`LockError::WrongType`].
    pub fn apply_ended<W: Keyspace>(
        &mut self,
        at: KeyRef<'_>,
        token: &Ident,
        keyspace: &mut W,
    ) -> Result<bool, LockError> {
        let mut transition = Transition::passive(self, keyspace);
        let mut visit = transition.open(at).ok_or(LockError::WrongType)?;
        let fence = visit.lock.hold(token).map(|hold| hold.fence);
        if let Some(fence) = fence {
            visit.end_hold(fence, EndReason::Released);
            visit.outcomes.clear();
        }
        let closed = visit.close();
        transition.finish(at, closed);
        self.look_later_at(at);
        Ok(fence.is_some())
    }
}
