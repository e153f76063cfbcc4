//! Tests of the lock engine: a world made of a map, stories told on it, and random schedules against a model.
#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

mod model;
mod schedule;
mod stories;
mod strays;
mod trial;
mod world;
