//! What the benchmark and the simulation show their figures with: [`table`] and [`plot`].

#![expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "only the two programs beside it use it, on small numbers of their own"
)]

pub mod plot;
pub mod table;
