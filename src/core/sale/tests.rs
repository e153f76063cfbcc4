//! The sale as a whole: told as stories, compared with a model, fed with junk, weighed and timed.
#![expect(clippy::arithmetic_side_effects, reason = "a test may fail loudly")]

mod adjusting;
mod carts;
mod cutoff;
mod explore;
mod forged;
mod hostile;
mod keeping;
mod mall;
mod measure;
mod model;
mod occurrences;
mod partly;
mod readers;
mod rebuilt;
mod schedule;
mod settling;
mod sharing;
mod shop;
mod steps;
mod taking;
mod waiting;
mod world;
