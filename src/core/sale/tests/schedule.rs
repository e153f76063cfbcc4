//! Random schedules: whatever happens in whatever order, the sale answers like the model.

use proptest::prelude::*;

use super::occurrences::must_have_seen;
use super::steps::{Step, crowded_step, line_step, step};
use super::world::World;
use crate::core::sale::{Stream, Terms};
use crate::core::time::UnixMs;

/// What every test of random schedules must contain.
pub const OCCURRENCES: [&str; 13] = [
    "a promotion",
    "a promotion of a server whose clock is behind",
    "a power cut that loses events",
    "a stream refuses everything",
    "a stream refuses what comes later",
    "a lapse",
    "joins the line",
    "several wait",
    "served by a lapse",
    "served by a cancellation",
    "served by a restock",
    "served by new conditions",
    "served by the clock",
];

/// What KEEP does.
const SETTLED_FOR_LESS: [&str; 4] = [
    "a hold that is settled for less",
    "an order that gives some units back",
    "a confirmation of so many units",
    "a confirmation of too many",
];

/// Plays `steps` on a sale with a stream, of one kind or the other.
fn play(terms: &Terms, deadlines: bool, steps: &[Step]) {
    let stream = Some(Stream { key: b"events".as_slice().into(), deadlines });
    let mut world = World::new(&Terms { stream, ..terms.clone() });
    for step in steps {
        world.step(step);
        world.check();
    }
}

/// How many schedules to try: a few seconds' worth, or what `LOCKSTOCK_SCHEDULES` says.
pub fn schedules() -> u32 {
    let asked = std::env::var("LOCKSTOCK_SCHEDULES").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(if cfg!(miri) { 5 } else { 300 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    fn play_anything(
        total in 0..20_u64, limit in prop_oneof![Just(0), 1..6_u64], rebuy: bool, start in proptest::option::of(1..50_i64),
        deadlines: bool, steps in proptest::collection::vec(step(), 1..80),
    ) {
        play(&Terms { total, limit, rebuy, start: start.map(UnixMs), ..Terms::default() }, deadlines, &steps);
    }

    fn play_with_a_line(
        total in 0..6_u64, limit in prop_oneof![Just(0), 3..8_u64], rebuy: bool, deadlines: bool,
        steps in proptest::collection::vec(line_step(), 10..120),
    ) {
        play(&Terms { total, limit, rebuy, ..Terms::default() }, deadlines, &steps);
    }

    fn play_crowded(
        total in 4..9_u64, limit in prop_oneof![Just(0), 4..9_u64], deadlines: bool,
        steps in prop_oneof![Just(0.0), Just(0.5)].prop_flat_map(|waits| proptest::collection::vec(crowded_step(waits), 20..if cfg!(miri) { 40 } else { 120 })),
    ) {
        play(&Terms { total, limit, rebuy: true, ..Terms::default() }, deadlines, &steps);
    }
}

#[test]
fn the_sale_answers_like_the_model() {
    play_anything();
    must_have_seen(&["a power cut that loses events", "a final refusal", "an adjustment with an id"], 300);
    must_have_seen(&SETTLED_FOR_LESS, 1_000);
}

#[test]
fn so_it_does_when_many_wait() {
    play_with_a_line();
    must_have_seen(&OCCURRENCES, 1_000);
    let served = ["served by a hold that is settled for less", "served by what an order gives back"];
    must_have_seen(&served, 1_000);
}

#[test]
fn so_it_does_when_orders_need_more_expirations_than_they_may_have() {
    play_crowded();
    must_have_seen(&["a cutoff", "several wait", "a stream refuses what comes later"], 1_000);
}
