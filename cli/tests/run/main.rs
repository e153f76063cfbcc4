//! `lockstock run` as its users see it, with real servers, commands and terminals. `LOCKSTOCK_SERVER` names the server.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "here a panic is a failed test"
)]

mod lost;
mod places;
mod signals;
mod statuses;
mod support;
mod terminal;
