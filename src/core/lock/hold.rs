//! A hold: a token's possession of a lock, and which hold a command is about.

use super::terms::ClientId;
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::time::UnixMs;

/// One token's share of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The owner.
    pub token: Ident,
    /// The fence of its grant.
    pub fence: Fence,
    /// When it expires.
    pub deadline: UnixMs,
    /// The number of permits that its owner allows in total, 1 to [`MAX_PERMITS`](crate::core::limits::MAX_PERMITS); 0 unless the mode is
    /// [`Mode::Limit`](super::terms::Mode::Limit).
    pub limit: u64,
    /// The connection it ends with. Not saved: no connection survives a restart.
    pub session: Option<ClientId>,
}

/// A hold as it is in its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRef<'a> {
    /// The owner.
    pub token: &'a Ident,
    /// The fence of its grant.
    pub fence: Fence,
    /// When it expires.
    pub deadline: UnixMs,
    /// As in [`Hold::limit`].
    pub limit: u64,
    /// As in [`Hold::session`].
    pub session: Option<ClientId>,
}

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
    pub fn of(token: &'a Ident) -> Self {
        Self { token, fence: None }
    }

    /// Whether a hold of its token with this fence is the claimed one.
    pub(super) fn admits(self, fence: Fence) -> bool {
        self.fence.is_none_or(|claimed| claimed == fence)
    }
}

impl Hold {
    /// The same hold, borrowed.
    pub fn as_ref(&self) -> HoldRef<'_> {
        let Self { token, fence, deadline, limit, session } = self;
        HoldRef { token, fence: *fence, deadline: *deadline, limit: *limit, session: *session }
    }
}

impl HoldRef<'_> {
    /// An owned copy.
    pub fn to_hold(self) -> Hold {
        let Self { token, fence, deadline, limit, session } = self;
        Hold { token: token.clone(), fence, deadline, limit, session }
    }
}
