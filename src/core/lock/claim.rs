//! The hold that a command is about.

use super::value::{HoldRef, Lock};
use crate::core::fence::Fence;
use crate::core::id::Ident;

/// A token's claim to its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The owner.
    pub token: &'a Ident,
    /// The fence that the hold must have; `None` for any.
    pub fence: Option<Fence>,
}

impl<'a> Claim<'a> {
    /// The hold of `token`, whatever its fence.
    #[must_use]
    pub fn of(token: &'a Ident) -> Self {
        Self { token, fence: None }
    }

    /// The hold of `lock`, if the lock has it.
    #[must_use]
    pub fn hold(self, lock: &Lock) -> Option<HoldRef<'_>> {
        lock.hold(self.token).filter(|hold| self.fence.is_none_or(|fence| fence == hold.fence))
    }
}
