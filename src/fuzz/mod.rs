//! Fuzz targets: everything that takes bytes from outside, each as a function of bytes that panics when a promise is broken.
//!
//! `make fuzz` runs them guided by coverage (`fuzz/`); the tests here replay the kept corpus and try some mutations of it
//! with every `make test`.
#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a panic is what a fuzz target has to say"
)]

#[cfg(test)]
mod edges;
mod keys;
mod payloads;
mod requests;
mod settings;
mod simulator;

#[cfg(test)]
mod tests;

pub use payloads::{lock_payload, sale_payload};
pub use requests::requests;
pub use settings::settings;

/// A target: takes any bytes.
pub type Target = fn(&[u8]);

/// All targets, by the names that `fuzz/corpus` has them under.
pub const TARGETS: [(&str, Target); 4] =
    [("requests", requests), ("lock_payload", lock_payload), ("sale_payload", sale_payload), ("settings", settings)];
