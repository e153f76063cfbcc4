//! A thousand tokens that take a hundred locks, a few each and in any order: none of them waits for good.

use std::collections::BTreeMap;

use super::world::*;
use crate::core::lock::{Acquired, Request, WaitResult, WaiterId, Wanted, in_order};
use crate::core::time::Millis;

const TOKENS: usize = if cfg!(miri) { 20 } else { 1_000 };
const LOCKS: usize = if cfg!(miri) { 8 } else { 100 };

/// What a token asks for at a time: one lock, or several together.
#[derive(Clone, Debug)]
struct Step {
    keys: Vec<String>,
    wanted: Wanted,
    many: bool,
}

/// A token that takes its locks step by step, and then gives all of them back.
struct Task {
    name: String,
    steps: Vec<Step>,
    done: usize,
    /// Its connection.
    by: u64,
}

/// Which requests there are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Exclusive,
    /// Half of the tokens only read.
    Readers,
    /// Of every mode, upgrades, for several locks, parked and notified; and connections are lost.
    All,
}

impl Task {
    fn new(number: usize, kind: Kind, random: &mut fastrand::Rng) -> Self {
        let mut keys = random.choose_multiple(0..LOCKS, 4).into_iter().map(|key| format!("l{key}"));
        let mut next = || keys.next().unwrap();
        let reads = kind == Kind::Readers && random.bool();
        let wanted = if reads { Wanted::Shared } else { Wanted::Exclusive };
        let one = |key, wanted| Step { keys: vec![key], wanted, many: false };
        let mut steps: Vec<Step> = if kind == Kind::All {
            let permits = Wanted::Limit(random.u64(1..4));
            let several = Step { keys: vec![next(), next()], wanted: Wanted::Exclusive, many: true };
            vec![several, one(next(), Wanted::Shared), one(next(), random.choice([permits, wanted]).unwrap())]
        } else {
            (0..3).map(|_| one(next(), wanted)).collect()
        };
        random.shuffle(&mut steps);
        if let Some(shared) = steps.iter().position(|step| kind == Kind::All && step.wanted == Wanted::Shared)
            && random.bool()
        {
            steps.push(Step { wanted: Wanted::Exclusive, ..steps[shared].clone() });
        }
        Self { name: format!("t{number}"), steps, done: 0, by: number as u64 + 1 }
    }

    fn asks(&self, world: &mut World, is_notified: bool) -> Acquired {
        let Step { keys, wanted, many } = &self.steps[self.done];
        let request = Request { mode: *wanted, ..ask(&self.name).lease(1_000_000).waiting(0).by(self.by) };
        let request = if is_notified { request.notified(notice("news", &self.name)) } else { request };
        let World { engine, keys: keyspace, now } = world;
        if *many {
            let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
            engine.acquire_many(*now, &in_order(0, &names), &request, keyspace).unwrap()
        } else {
            engine.acquire(*now, at(&keys[0]), &request, keyspace).unwrap()
        }
    }

    fn gives_back(&mut self, world: &mut World) {
        for key in self.steps[..self.done].iter().flat_map(|step| &step.keys) {
            // What was taken twice, because it was upgraded, is given back once.
            world.release(key, &self.name);
        }
        self.done = 0;
    }
}

/// Those whose waits have ended with a grant; no other wait has ended.
fn granted(world: &mut World, waiting: &BTreeMap<String, WaiterId>) -> Vec<String> {
    let mut granted = Vec::new();
    for told in world.told() {
        let (name, answer) = match told {
            Told::Answered(id, answer) => {
                world.engine.delivered(id);
                (waiting.iter().find(|(_, waiter)| **waiter == id).unwrap().0.clone(), answer)
            }
            Told::Published(notice, answer) => (notice.about.to_string(), answer),
            _ => continue,
        };
        assert!(matches!(answer, WaitResult::Granted(_)), "{answer:?}");
        granted.push(name);
    }
    granted
}

#[test]
fn a_thousand_tokens_with_a_hundred_locks_all_get_what_they_want() {
    for kind in [Kind::Exclusive, Kind::Readers, Kind::All] {
        let mut random = fastrand::Rng::with_seed(7);
        let mut world = World::new();
        world.engine.settings.place_grace = Millis(1_000);
        let new = |number| Task::new(number, kind, &mut random);
        let mut tasks: BTreeMap<String, Task> = (0..TOKENS).map(new).map(|task| (task.name.clone(), task)).collect();
        let mut ready: Vec<String> = tasks.keys().cloned().collect();
        let mut waiting: BTreeMap<String, WaiterId> = BTreeMap::new();
        let (mut refused, mut lost) = (0, 0);
        // A refused token begins again when no other can go on; then none waits.
        let mut later: Vec<String> = Vec::new();
        while !ready.is_empty() {
            let name = ready.swap_remove(random.usize(..ready.len()));
            let task = tasks.get_mut(&name).unwrap();
            if task.done == task.steps.len() {
                task.gives_back(&mut world);
            } else {
                match task.asks(&mut world, kind == Kind::All && random.bool()) {
                    Acquired::Granted(_) => {
                        task.done += 1;
                        ready.push(name);
                    }
                    Acquired::Parked(waiter) | Acquired::Notified { waiter, .. } => {
                        waiting.insert(name, waiter);
                    }
                    Acquired::Deadlock(_) => {
                        refused += 1;
                        task.gives_back(&mut world);
                        later.push(name);
                    }
                    Acquired::Refused | Acquired::Full => panic!("it may wait"),
                }
            }
            for name in granted(&mut world, &waiting) {
                waiting.remove(&name).unwrap();
                tasks.get_mut(&name).unwrap().done += 1;
                ready.push(name);
            }
            if kind == Kind::All && random.u8(..10) == 0 && lost < TOKENS / 2 {
                let names: Vec<String> = waiting.keys().cloned().collect();
                if let Some(name) = random.choice(names) {
                    // It asks again over another connection, in a while.
                    let task = tasks.get_mut(&name).unwrap();
                    world.engine.client_gone(world.now.ms, client(task.by));
                    task.by += TOKENS as u64;
                    waiting.remove(&name);
                    ready.push(name);
                    lost += 1;
                }
                let _ = world.tick();
            }
            if ready.is_empty() {
                assert!(waiting.is_empty(), "{} of {kind:?} wait for good, {refused} were refused", waiting.len());
                ready.append(&mut later);
            }
        }
        assert!(refused > 10 && (lost > 10) == (kind == Kind::All), "{refused} were refused, {lost} lost");
        world.pass(1_000);
        let _ = world.tick();
        world.assert_blank();
    }
}
