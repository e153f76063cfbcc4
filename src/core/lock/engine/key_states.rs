//! The states of the keys of one request.

use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::lock::terms::{LockError, Mode};
use crate::core::lock::value::Lock;

/// The state of one key for a token that wants several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Free,
    /// The token holds it exclusively.
    Own(Fence),
    /// The token holds it in a mode that this request cannot change.
    OtherMode,
    Busy,
    Foreign,
}

impl KeyState {
    /// Whether no other token holds the lock.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Free | Self::Own(_))
    }

    /// Why a request cannot even wait for a key in this state.
    pub(super) fn error(self) -> Option<LockError> {
        match self {
            Self::Foreign => Some(LockError::WrongType),
            Self::OtherMode => Some(LockError::OtherMode),
            Self::Free | Self::Own(_) | Self::Busy => None,
        }
    }
}

/// The fence of the holds, if the token has all keys from one grant.
pub(super) fn one_fence(states: &[KeyState]) -> Option<Fence> {
    let first = *states.first()?;
    match first {
        KeyState::Own(fence) if states.iter().all(|other| *other == first) => Some(fence),
        _ => None,
    }
}

impl Lock {
    pub(super) fn key_state(&self, token: &Ident) -> KeyState {
        match (self.hold(token), self.mode()) {
            _ if self.is_empty() => KeyState::Free,
            (Some(hold), Mode::Exclusive) => KeyState::Own(hold.fence),
            (Some(_), _) => KeyState::OtherMode,
            (None, _) => KeyState::Busy,
        }
    }
}
