//! Random schedules. `LOCKSTOCK_SCHEDULES=100000 cargo test --release schedule` plays many.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::model::{Ask, Key};
use super::trial::{DBS, NAMES, Trial};
use crate::core::lock::Wanted;

/// What has happened, and how often.
type Seen = BTreeMap<&'static str, u64>;

const CLIENTS: usize = 4;
const TOKENS: usize = 4;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire {
        slot: usize,
        ask: Ask,
        may_wait: bool,
    },
    /// As that, but for what a connection that is gone was waiting for.
    Resend {
        slot: usize,
        ask: Ask,
        pick: usize,
    },
    Release {
        keys: Vec<Key>,
        many: bool,
        token: usize,
        fence: Option<usize>,
    },
    Extend {
        keys: Vec<Key>,
        many: bool,
        token: usize,
        fence: Option<usize>,
        lease: i64,
        only_later: bool,
    },
    Advance(i64),
    Tick(usize),
    Left {
        pick: usize,
        timed_out: bool,
    },
    Delivered(usize),
    ClientGone(usize),
    Delete(Key),
    Overwrite(Key),
    Rename(Key, Key),
    Flush(Option<i32>),
    Swap,
    Migrate(i32),
    /// The replica takes over, and gets a replica from its file.
    Promote,
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

/// None, or one of the latest ones.
fn fence() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![2 => Just(None), 1 => (0..4_usize).prop_map(Some)]
}

fn release() -> impl Strategy<Value = Step> {
    (keys(), 0..TOKENS, fence()).prop_map(|((many, keys), token, fence)| Step::Release { keys, many, token, fence })
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

fn resend() -> impl Strategy<Value = Step> {
    (acquire(), any::<usize>()).prop_map(|(step, pick)| match step {
        Step::Acquire { slot, ask, .. } => Step::Resend { slot, ask: Ask { wait: Some(0), ..ask }, pick },
        step => step,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => acquire(),
        5 => resend(),
        14 => release(),
        6 => (keys(), 0..TOKENS, fence(), lease(), any::<bool>()).prop_map(
            |((many, keys), token, fence, lease, only_later)| {
                Step::Extend { keys, many, token, fence, lease, only_later }
            }
        ),
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
        1 => Just(Step::Promote),
    ]
}

fn play(steps: Vec<Step>, bound: Option<usize>, detects: bool, grace: i64) -> Seen {
    let mut trial = Trial::new(CLIENTS, bound, detects, grace);
    for step in steps {
        trial.step(step);
    }
    trial.finish()
}

impl Trial {
    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Acquire { slot, ask, may_wait } => {
                self.acquire(&Ask { client: self.client(slot), ..ask }, may_wait);
            }
            Step::Resend { slot, ask, pick } => {
                if let Some(ask) = self.resent(pick, &Ask { client: self.client(slot), ..ask }) {
                    self.acquire(&ask, true);
                }
            }
            Step::Release { keys, many, token, fence } => self.release(&keys, many, token, fence),
            Step::Extend { keys, many, token, fence, lease, only_later } => {
                self.extend(&keys, many, (token, fence), lease, only_later);
            }
            Step::Advance(ms) => self.advance(ms),
            Step::Tick(budget) => self.tick(budget),
            Step::Left { pick, timed_out } => self.waiter_left(pick, timed_out),
            Step::Delivered(pick) => self.delivered(pick),
            Step::ClientGone(slot) => self.client_gone(slot),
            Step::Delete(key) => self.delete(key),
            Step::Overwrite(key) => self.overwrite(key),
            Step::Rename(from, to) => self.rename(from, to),
            Step::Flush(db) => self.flush(db),
            Step::Swap => self.swap(),
            Step::Migrate(db) => self.migrate(db),
            Step::Promote => self.promote(),
        }
    }
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
        8 => resend(),
        10 => release(),
        2 => any::<usize>().prop_map(|pick| Step::Left { pick, timed_out: true }),
        4 => (0..CLIENTS).prop_map(Step::ClientGone),
        2 => Just(Step::Advance(1)),
    ]
}

/// Plays what tokens do that wait for one thing at a time, and hear of what they are granted; then no circle lasts.
fn play_without_circles(steps: Vec<Step>, grace: i64) -> Seen {
    let mut trial = Trial::new(CLIENTS, None, true, grace);
    for step in steps {
        match step {
            Step::Acquire { slot, ask, may_wait } if trial.waits_for_nothing_else(&ask) => {
                trial.acquire(&Ask { client: trial.client(slot), ..ask }, may_wait);
            }
            Step::Resend { slot, ask, pick } => {
                let like = Ask { client: trial.client(slot), lease: 1_000, session: false, ..ask };
                if let Some(ask) = trial.resent(pick, &like).filter(|ask| trial.waits_for_nothing_else(ask)) {
                    trial.acquire(&ask, true);
                }
            }
            Step::Release { keys, many, token, fence } => trial.release(&keys, many, token, fence),
            Step::Advance(ms) => trial.advance(ms),
            Step::Left { pick, timed_out } => trial.waiter_left(pick, timed_out),
            Step::ClientGone(slot) => trial.client_gone(slot),
            _ => {}
        }
        trial.all_delivered();
        trial.nobody_waits_in_a_circle();
    }
    trial.finish()
}

/// Plays as many schedules as asked for. If they are very many, each of `all` must have happened in them.
fn play_many<S: Strategy>(schedule: S, all: &[&str], play: impl Fn(S::Value) -> Seen) {
    let wanted = std::env::var("LOCKSTOCK_SCHEDULES").ok().and_then(|number| number.parse().ok());
    let cases = wanted.unwrap_or(if cfg!(miri) { 3 } else { 500 });
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let seen = RefCell::new(Seen::new());
    let done = TestRunner::new(config).run(&schedule, |schedule| {
        for (what, times) in play(schedule) {
            *seen.borrow_mut().entry(what).or_default() += times;
        }
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    println!("{cases} schedules: {seen:#?}");
    let missing: Vec<_> = all.iter().filter(|what| !seen.contains_key(*what)).collect();
    assert!(cases < 10_000 || missing.is_empty(), "never: {missing:?}");
}

const IN_LINE: [&str; 16] = [
    "grants published",
    "grants to blocked clients",
    "notified requests cancelled",
    "notified requests repeated",
    "places ended by a release",
    "places kept",
    "places not taken up because that would close a circle",
    "places taken up: notified",
    "places taken up: one key",
    "places taken up: several keys",
    "releases of another fence",
    "releases of any fence",
    "releases of one fence",
    "requests for one key cancelled",
    "requests for several keys cancelled",
    "requests replaced",
];

const CIRCLES: [&str; 6] = [
    "circles refused: exclusive",
    "circles refused: notified requests",
    "circles refused: permits",
    "circles refused: several keys",
    "circles refused: shared",
    "circles refused: upgrades",
];

#[test]
fn any_schedule_ends_as_the_contract_says() {
    let steps = vec(step(), 1..80);
    let bound = prop_oneof![3 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    let schedule = (steps, bound, prop::bool::weighted(0.9), select(vec![0, 6, 20, 1_000]));
    let all =
        [&IN_LINE[..], &CIRCLES, &["places kept of grants that are taken back", "time limits of notified requests"]]
            .concat();
    play_many(schedule, &all, |(steps, bound, detects, grace)| play(steps, bound, detects, grace));
}

#[test]
fn of_tokens_that_wait_for_one_thing_at_a_time_none_waits_for_good() {
    let schedule = (vec(wait_step(), 1..80), select(vec![0, 1_000]));
    let all = [&IN_LINE[..], &CIRCLES].concat();
    play_many(schedule, &all, |(steps, grace)| play_without_circles(steps, grace));
}

/// Found by a schedule: the line moves on because a request whose kept place would close a circle joins it anew at the end.
#[test]
fn a_lock_that_a_moved_request_leaves_to_the_next_is_not_deleted_in_between() {
    let get = |token, keys: &[Key], many, lease, wait: Option<i64>| {
        let (keys, may_wait) = (keys.to_vec(), wait.is_some());
        let ask =
            Ask { client: 0, token, keys, many, wanted: Wanted::Exclusive, lease, wait, session: false, notify: None };
        Step::Acquire { slot: 0, ask, may_wait }
    };
    let three = [(0, 0), (0, 1), (0, 2)];
    let steps = vec![
        get(0, &[(1, 2)], false, 50, None),
        get(2, &[(1, 1)], false, 5, None),
        get(2, &[(0, 0)], false, 5, None),
        get(1, &three, true, 5, Some(0)),
        get(0, &[(0, 1)], false, 5, Some(0)),
        Step::Advance(5),
        Step::Swap,
        get(1, &three, true, 5, Some(0)),
    ];
    play(steps, None, true, 0);
}
