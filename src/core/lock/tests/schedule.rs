//! Random schedules. `LOCKSTOCK_SCHEDULES=100000 cargo test --release schedule` plays many.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Ask, Key};
use super::trial::{DBS, NAMES, Trial};
use crate::core::lock::Wanted;

const CLIENTS: usize = 4;
const TOKENS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Acquire { slot: usize, ask: Ask, may_wait: bool },
    Release { keys: Vec<Key>, many: bool, token: usize },
    Extend { keys: Vec<Key>, many: bool, token: usize, lease: i64, only_later: bool },
    Advance(i64),
    Tick(usize),
    Left { pick: usize, timed_out: bool },
    Delivered(usize),
    ClientGone(usize),
    Delete(Key),
    Overwrite(Key),
    Rename(Key, Key),
    Flush(Option<i32>),
    Swap,
    Migrate(i32),
}

fn key() -> impl Strategy<Value = Key> {
    // Mostly the same few keys, so that requests meet.
    prop_oneof![4 => Just((0, 0)), 3 => Just((0, 1)), 2 => Just((0, 2)), 1 => (0..DBS, 0..NAMES)]
}

fn keys() -> impl Strategy<Value = (bool, Vec<Key>)> {
    let several = (prop_oneof![5 => Just(0), 1 => 0..DBS], proptest::sample::subsequence(vec![0, 1, 2], 1..=NAMES))
        .prop_map(|(db, numbers)| (true, numbers.into_iter().map(|number| (db, number)).collect()));
    prop_oneof![3 => key().prop_map(|key| (false, vec![key])), 1 => several]
}

fn lease() -> impl Strategy<Value = i64> {
    select(vec![5, 10, 20, 50, 300])
}

fn acquire() -> impl Strategy<Value = Step> {
    let wanted = prop_oneof![
        4 => Just(Wanted::Exclusive),
        3 => Just(Wanted::Shared),
        2 => (1..4_u64).prop_map(Wanted::Limit),
    ];
    let wait = prop_oneof![1 => Just(None), 2 => Just(Some(0)), 1 => Just(Some(30))];
    let notify = prop_oneof![2 => Just(None), 1 => (0..2_usize).prop_map(Some)];
    let who = (0..CLIENTS, 0..TOKENS, notify);
    (keys(), wanted, wait, lease(), who, prop::bool::weighted(0.3), prop::bool::weighted(0.9)).prop_map(
        |((many, keys), wanted, wait, lease, (slot, token, notify), session, may_wait)| {
            let wanted = if many { Wanted::Exclusive } else { wanted };
            let ask = Ask { client: 0, token, keys, many, wanted, lease, wait, session, notify };
            Step::Acquire { slot, ask, may_wait }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => acquire(),
        14 => (keys(), 0..TOKENS).prop_map(|((many, keys), token)| Step::Release { keys, many, token }),
        6 => (keys(), 0..TOKENS, lease(), any::<bool>()).prop_map(|((many, keys), token, lease, only_later)| {
            Step::Extend { keys, many, token, lease, only_later }
        }),
        10 => select(vec![0, 1, 4, 5, 6, 10, 25]).prop_map(Step::Advance),
        6 => select(vec![1, 2, 5, usize::MAX]).prop_map(Step::Tick),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(pick, timed_out)| Step::Left { pick, timed_out }),
        6 => any::<usize>().prop_map(Step::Delivered),
        4 => (0..CLIENTS).prop_map(Step::ClientGone),
        2 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Overwrite),
        2 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => prop::option::of(0..DBS).prop_map(Step::Flush),
        1 => Just(Step::Swap),
        1 => (0..DBS).prop_map(Step::Migrate),
    ]
}

fn play(steps: Vec<Step>, bound: Option<usize>, detects: bool, grace: i64) {
    let mut trial = Trial::new(CLIENTS, bound, detects, grace);
    for step in steps {
        match step {
            Step::Acquire { slot, ask, may_wait } => {
                trial.acquire(&Ask { client: trial.client(slot), ..ask }, may_wait);
            }
            Step::Release { keys, many, token } => trial.release(&keys, many, token),
            Step::Extend { keys, many, token, lease, only_later } => {
                trial.extend(&keys, many, token, lease, only_later);
            }
            Step::Advance(ms) => trial.advance(ms),
            Step::Tick(budget) => trial.tick(budget),
            Step::Left { pick, timed_out } => trial.waiter_left(pick, timed_out),
            Step::Delivered(pick) => trial.delivered(pick),
            Step::ClientGone(slot) => trial.client_gone(slot),
            Step::Delete(key) => trial.delete(key),
            Step::Overwrite(key) => trial.overwrite(key),
            Step::Rename(from, to) => trial.rename(from, to),
            Step::Flush(db) => trial.flush(db),
            Step::Swap => trial.swap(),
            Step::Migrate(db) => trial.migrate(db),
        }
    }
    trial.finish();
}

/// What tokens do that wait for one thing at a time, and often for each other.
fn wait_step() -> impl Strategy<Value = Step> {
    let patient = acquire().prop_map(|step| match step {
        Step::Acquire { slot, ask, .. } => {
            let ask = Ask { lease: 1_000, wait: Some(0), session: false, ..ask };
            Step::Acquire { slot, ask, may_wait: true }
        }
        step => step,
    });
    prop_oneof![
        40 => patient,
        10 => (keys(), 0..TOKENS).prop_map(|((many, keys), token)| Step::Release { keys, many, token }),
        2 => any::<usize>().prop_map(|pick| Step::Left { pick, timed_out: true }),
        1 => (0..CLIENTS).prop_map(Step::ClientGone),
        2 => Just(Step::Advance(1)),
    ]
}

/// Plays what tokens do that wait for one thing at a time; then no circle lasts.
fn play_without_circles(steps: Vec<Step>) {
    let mut trial = Trial::new(CLIENTS, None, true, 0);
    for step in steps {
        match step {
            Step::Acquire { slot, ask, may_wait } if trial.waits_for_nothing_else(&ask) => {
                trial.acquire(&Ask { client: trial.client(slot), ..ask }, may_wait);
            }
            Step::Release { keys, many, token } => trial.release(&keys, many, token),
            Step::Advance(ms) => trial.advance(ms),
            Step::Left { pick, timed_out } => trial.waiter_left(pick, timed_out),
            Step::ClientGone(slot) => trial.client_gone(slot),
            _ => {}
        }
        trial.nobody_waits_in_a_circle();
    }
    trial.finish();
}

fn schedules() -> u32 {
    let wanted = std::env::var("LOCKSTOCK_SCHEDULES").ok().and_then(|number| number.parse().ok());
    wanted.unwrap_or(if cfg!(miri) { 3 } else { 500 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_ends_as_the_contract_says(
        steps in vec(step(), 1..80),
        bound in prop_oneof![3 => Just(None), 1 => (0..4_usize).prop_map(Some)],
        detects in prop::bool::weighted(0.9),
        grace in select(vec![0, 6, 20, 1_000]),
    ) {
        play(steps, bound, detects, grace);
    }

    #[test]
    fn of_tokens_that_wait_for_one_thing_at_a_time_none_waits_for_good(steps in vec(wait_step(), 1..80)) {
        play_without_circles(steps);
    }
}
