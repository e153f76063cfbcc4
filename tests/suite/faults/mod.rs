//! Faults: a panic of our own in every entry and before every step, and another module that meddles.

mod interrupted;
mod listener;
mod panics;
