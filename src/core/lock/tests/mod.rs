//! Tests of the lock engine: a world made of a map, and stories told on it. The random schedules are in `schedule`.

mod stories;
mod strays;
mod world;
