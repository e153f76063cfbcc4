//! The mode table: whether the holds of a lock allow a request. Queue order is not considered here.

use super::terms::{Mode, Wanted};
use super::value::Lock;
use crate::core::id::Ident;

/// Whether the holds of a lock allow a request, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compatibility {
    /// The token has no hold and there is room for one.
    Join,
    /// The token has no hold and there is no room.
    Full,
    /// The token holds in the wanted mode: its lease is renewed, its fence stays.
    Renew,
    /// The token holds exclusively and wants to share: granted at once, its fence stays.
    Downgrade,
    /// The token is the only shared holder and wants the lock exclusively: granted at once, with a new fence.
    Upgrade,
    /// The token holds shared and wants the lock exclusively, but other tokens hold it too.
    UpgradeLater,
    /// The token holds in a mode that cannot become the wanted one.
    OtherMode,
}

impl Compatibility {
    /// Whether the holds allow the request now.
    pub(super) fn allows(self) -> bool {
        matches!(self, Self::Join | Self::Renew | Self::Downgrade | Self::Upgrade)
    }

    /// Whether the request gets a new fence. If not, it only changes an existing hold.
    pub(super) fn needs_a_fence(self) -> bool {
        matches!(self, Self::Join | Self::Upgrade)
    }
}

impl Lock {
    /// How the holds allow `token` to take the lock as `wanted`. O(log n).
    pub(super) fn compatibility(&self, token: &Ident, wanted: Wanted) -> Compatibility {
        let alone = self.len() == 1;
        if self.hold(token).is_some() {
            return match (self.mode(), wanted) {
                (Mode::Exclusive, Wanted::Exclusive)
                | (Mode::Shared, Wanted::Shared)
                | (Mode::Limit, Wanted::Limit(_)) => Compatibility::Renew,
                (Mode::Exclusive, Wanted::Shared) => Compatibility::Downgrade,
                (Mode::Shared, Wanted::Exclusive) if alone => Compatibility::Upgrade,
                (Mode::Shared, Wanted::Exclusive) => Compatibility::UpgradeLater,
                _ => Compatibility::OtherMode,
            };
        }
        let room = match (self.mode(), wanted) {
            _ if self.is_empty() => true,
            (Mode::Shared, Wanted::Shared) => true,
            (Mode::Limit, Wanted::Limit(permits)) => u64::try_from(self.len()).is_ok_and(|held| held < permits),
            _ => false,
        };
        if room { Compatibility::Join } else { Compatibility::Full }
    }
}
