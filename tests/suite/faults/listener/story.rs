//! One transition: what was before it, who waits, and what makes it happen.

use harness::Want;

/// One transition. `#` is the number of the play: each has keys of its own.
pub struct Story {
    pub name: &'static str,
    /// What the one who acts has done before.
    pub before: &'static [&'static str],
    /// Who waits, each on a connection of its own.
    pub waiting: &'static [&'static str],
    pub act: Act,
}

/// What makes the transition happen.
#[derive(Clone, Copy)]
pub enum Act {
    /// This call, and its reply: what it decided is not undone by what anybody does about it.
    Call(&'static str, fn() -> Want),
    /// The connection of the one who acts ends.
    HangUp,
    /// The leases of the one who acts end.
    Lease,
}

/// A transition.
pub const fn story(
    name: &'static str,
    before: &'static [&'static str],
    waiting: &'static [&'static str],
    act: Act,
) -> Story {
    Story { name, before, waiting, act }
}
