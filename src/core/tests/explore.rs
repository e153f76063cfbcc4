//! The drive of a small world through every history: breadth first, so that what is found is found by the shortest history.

use std::collections::HashSet;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::canonical::number;

/// A world with few moves.
pub trait SmallWorld: Sized {
    type Move: Clone + Debug + Sync;

    /// All moves.
    fn moves() -> Vec<Self::Move>;

    /// Whether `next` is worth trying after a history: `false` if another history is the same but for names.
    fn is_new(history: &[Self::Move], next: &Self::Move) -> bool;

    fn begin() -> Self;

    /// Makes a move, and fails if what comes of it is wrong.
    fn make(&mut self, step: &Self::Move);

    /// The state, as a text that is the same for states that differ in nothing that matters.
    fn state(&self) -> String;

    /// Fails if anything is wrong with the state.
    fn finish(self);
}

/// How far a drive came.
#[derive(Debug)]
pub struct Explored {
    /// All histories of this length were played.
    pub depth: usize,
    /// Different states.
    pub states: usize,
    /// Moves from these states.
    pub moves: usize,
}

/// The sets of states seen are many, so that threads seldom wait for each other.
const SHARDS: usize = 64;

struct Drive<W: SmallWorld> {
    moves: Vec<W::Move>,
    seen: Vec<Mutex<HashSet<u128>>>,
    made: AtomicUsize,
    until: Instant,
}

/// A history: the numbers of its moves.
type History = Box<[u8]>;

impl<W: SmallWorld> Drive<W> {
    fn is_first(&self, state: u128) -> bool {
        let shard = usize::try_from(state % SHARDS as u128).unwrap();
        self.seen[shard].lock().unwrap().insert(state)
    }

    fn named(&self, history: &[u8]) -> Vec<W::Move> {
        history.iter().map(|step| self.moves[usize::from(*step)].clone()).collect()
    }

    fn play(history: &[W::Move]) -> W {
        let mut world = W::begin();
        for step in history {
            world.make(step);
        }
        world
    }

    /// Every history that is longer by a move and leads to a state not seen before.
    fn beyond(&self, history: &[u8]) -> Vec<History> {
        let mut named = self.named(history);
        let mut found = Vec::new();
        for (number_of_move, step) in
            self.moves.iter().enumerate().filter(|(_, step)| W::is_new(&named, step)).collect::<Vec<_>>()
        {
            named.push(step.clone());
            let is_first = catch_unwind(AssertUnwindSafe(|| {
                let world = Self::play(&named);
                let is_first = self.is_first(number(&world.state()));
                if is_first {
                    world.finish();
                }
                is_first
            }));
            self.made.fetch_add(1, Ordering::Relaxed);
            match is_first {
                Ok(true) => {
                    let last = u8::try_from(number_of_move).unwrap();
                    found.push(history.iter().copied().chain([last]).collect());
                }
                Ok(false) => {}
                Err(panic) => {
                    eprintln!("after this history:");
                    for step in &named {
                        eprintln!("{step:?}");
                    }
                    resume_unwind(panic);
                }
            }
            named.pop();
        }
        found
    }

    /// Plays on from all of `histories`, while there is time; nothing if there was not enough.
    fn next(&self, histories: &[History]) -> Option<Vec<History>> {
        let taken = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some(history) = histories.get(taken.fetch_add(1, Ordering::Relaxed)) {
                if Instant::now() > self.until {
                    return None;
                }
                found.extend(self.beyond(history));
            }
            Some(found)
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(work)).collect();
            let parts: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect();
            parts.into_iter().collect::<Option<Vec<_>>>().map(|parts| parts.concat())
        })
    }
}

/// Drives a world through all histories for as long as `LOCKSTOCK_EXPLORE` says, or for `seconds`.
pub fn explore<W: SmallWorld>(name: &str, seconds: u64) -> Explored
where
    W::Move: Send,
{
    let wanted = std::env::var("LOCKSTOCK_EXPLORE").ok().and_then(|seconds| seconds.parse().ok());
    let until = Instant::now() + Duration::from_secs(wanted.unwrap_or(seconds));
    let seen = (0..SHARDS).map(|_| Mutex::default()).collect();
    let drive = Drive::<W> { moves: W::moves(), seen, made: AtomicUsize::new(0), until };
    drive.is_first(number(&W::begin().state()));
    let mut explored = Explored { depth: 0, states: 1, moves: 0 };
    let mut histories: Vec<History> = vec![Box::default()];
    while let Some(next) = drive.next(&histories).filter(|_| !histories.is_empty()) {
        explored.depth += 1;
        histories = next;
        println!("{name}: depth {}, {} states are new", explored.depth, histories.len());
    }
    explored.states = drive.seen.iter().map(|shard| shard.lock().unwrap().len()).sum();
    explored.moves = drive.made.into_inner();
    println!("{name}: {explored:?}, of {} moves each", drive.moves.len());
    explored
}
