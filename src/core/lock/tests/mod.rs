//! Tests of the lock engine: a world made of a map, stories told on it, and random schedules against a model.
#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

mod cancel;
mod contention;
mod crowds;
mod deadlock;
mod delivery;
mod doubt;
mod ended_by_requests;
mod ends;
mod explore;
mod fence;
mod keyspace;
mod many;
mod measure;
mod model;
mod modes;
mod moved;
mod notify;
mod own;
mod places;
mod queue;
mod schedule;
mod strays;
mod swapped_in;
mod taken_back;
mod trial;
mod turns;
mod value;
mod world;
