//! One transition: what was before it, the waiters, and what makes it happen.

use harness::Want;

/// One transition. `#` is the number of the play: each has keys of its own.
pub struct Story {
    pub name: &'static str,
    /// What the acting client has done before.
    pub before: &'static [&'static str],
    /// The waiters, each on a connection of its own.
    pub waiting: &'static [&'static str],
    pub act: Act,
}

/// What makes the transition happen.
#[derive(Clone, Copy)]
pub enum Act {
    /// This call, and its reply: its decision is not undone by what a listener does about it.
    Call(&'static str, fn() -> Want),
    /// The connection of the acting client ends.
    HangUp,
    /// The leases of the acting client end.
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
