//! What the tests of locks and of sales share: the drive through every history of a small world.
#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

pub mod canonical;
pub mod explore;
