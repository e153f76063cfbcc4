//! Every history of a small world of locks, played to the engine, a replica of it, and the model.

use super::model::{Ask, Key};
use super::schedule::Step;
use super::trial::Trial;
use crate::core::lock::Wanted;
use crate::core::tests::explore::{SmallWorld, explore};

/// Each token has a connection of its own.
const TOKENS: usize = 3;
const ONE: Key = (0, 0);
const OTHER: Key = (0, 1);
const LEASE: i64 = 10;

/// How long a place in line is kept.
const GRACE: i64 = 15;

/// A world with every command and mode.
struct Everything(Trial);

fn ask(token: usize, keys: &[Key], wanted: Wanted, wait: Option<i64>) -> Ask {
    let (keys, many) = (keys.to_vec(), keys.len() > 1);
    Ask { client: 0, token, keys, many, wanted, lease: LEASE, wait, session: false, notify: None }
}

fn acquire(ask: Ask) -> Step {
    Step::Acquire { slot: ask.token, may_wait: ask.wait.is_some(), ask }
}

/// What a token does with `keys`.
fn requests(token: usize, keys: &[Key]) -> Vec<Step> {
    let exclusive = ask(token, keys, Wanted::Exclusive, Some(0));
    let notified = Ask { notify: Some(0), wait: Some(LEASE), ..exclusive.clone() };
    let session = Ask { session: true, ..exclusive.clone() };
    let (keys, many) = (keys.to_vec(), keys.len() > 1);
    let mut all = vec![
        acquire(ask(token, &keys, Wanted::Exclusive, None)),
        acquire(exclusive),
        acquire(notified),
        acquire(session),
    ];
    if !many {
        all.push(acquire(ask(token, &keys, Wanted::Shared, Some(0))));
        all.push(acquire(ask(token, &keys, Wanted::Limit(2), Some(0))));
        all.push(Step::Release { keys: keys.clone(), many, token, fence: Some(0) });
    }
    all.push(Step::Release { keys: keys.clone(), many, token, fence: None });
    all.push(Step::Extend { keys, many, token, fence: None, lease: LEASE, only_later: many });
    all
}

/// The token and the keys that a step names.
fn named(step: &Step) -> (Option<usize>, Vec<Key>) {
    match step {
        Step::Acquire { slot, ask, .. } | Step::Resend { slot, ask, .. } => (Some(*slot), ask.keys.clone()),
        Step::Release { keys, token, .. } | Step::Extend { keys, token, .. } => (Some(*token), keys.clone()),
        Step::ClientGone(slot) => (Some(*slot), vec![]),
        Step::Delete(key) | Step::Overwrite(key) => (None, vec![*key]),
        Step::Rename(from, to) => (None, vec![*from, *to]),
        _ => (None, vec![]),
    }
}

impl SmallWorld for Everything {
    type Move = Step;

    fn moves() -> Vec<Step> {
        let scopes: [&[Key]; 3] = [&[ONE], &[OTHER], &[ONE, OTHER]];
        let requests = (0..TOKENS).flat_map(|token| scopes.into_iter().flat_map(move |keys| requests(token, keys)));
        let again = |token| Step::Resend { slot: token, ask: ask(token, &[ONE], Wanted::Exclusive, Some(0)), pick: 0 };
        let mut all: Vec<Step> = requests.collect();
        all.extend((0..TOKENS).flat_map(|token| [Step::ClientGone(token), again(token)]));
        all.extend((0..TOKENS).flat_map(|pick| [true, false].map(|timed_out| Step::Left { pick, timed_out })));
        all.extend((0..2).map(Step::Delivered));
        all.extend([LEASE / 2, LEASE].map(Step::Advance));
        all.extend([
            Step::Tick(1),
            Step::Delete(ONE),
            Step::Delete(OTHER),
            Step::Overwrite(ONE),
            Step::Rename(ONE, OTHER),
        ]);
        all.extend([Step::Flush(None), Step::Migrate(0), Step::Promote]);
        all
    }

    fn is_new(history: &[Step], next: &Step) -> bool {
        // Tokens and keys come in their order: with other names it is the same history.
        let (tokens, keys): (Vec<_>, Vec<_>) = history.iter().map(named).unzip();
        let (token, of_next) = named(next);
        let before = tokens.iter().flatten().max().map_or(0, |token| token + 1);
        let has_key = keys.iter().flatten().next().is_some();
        token.is_none_or(|token| token <= before) && (has_key || of_next.first().is_none_or(|key| *key == ONE))
    }

    fn begin() -> Self {
        Self(Trial::new(TOKENS, None, true, GRACE))
    }

    fn make(&mut self, step: &Step) {
        self.0.step(step.clone());
        self.0.forget_the_gone();
    }

    fn state(&self) -> String {
        self.0.state()
    }

    fn finish(self) {
        self.0.finish();
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too many steps")]
fn every_history_of_locks_ends_as_the_contract_says() {
    let explored = explore::<Everything>("locks", 2);
    assert!(explored.depth >= 1 && explored.states > 50, "{explored:?}");
}
