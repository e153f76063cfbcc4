//! Faults: a panic of our own in every entry and before every step, another module that meddles, and one that calls from a thread.

mod interrupted;
mod listener;
mod panics;
mod threads;
