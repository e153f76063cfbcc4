//! Alternating rounds: every way has its turn, again and again, and medians count.
//!
//! Ratios are made round by round, of turns that lie next to each other, so that whatever else the machine does meanwhile
//! meets both sides.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::crowd::{Crowd, Member};
use crate::lab::Lab;
use crate::plan::Plan;
use crate::pump::CONNECTIONS;
use crate::stand::{Side, Stand};
use crate::tally::Tally;

type Prepare = dyn Fn(&mut Stand);
type Recruit = dyn Fn(usize) -> Box<dyn Member>;
type Check = dyn Fn(&mut Stand, &Tally);

/// One way to do something.
pub struct Way {
    pub name: String,
    pub side: Side,
    /// How many members there are, whatever the load says.
    pub members: Option<usize>,
    /// Before each turn, on an empty server.
    pub prepare: Box<Prepare>,
    /// The member with this number.
    pub member: Box<Recruit>,
    /// After each turn: stops the run if the books are wrong.
    pub check: Box<Check>,
}

impl Way {
    pub fn new<M: Member + 'static>(name: &str, side: Side, member: impl Fn(usize) -> M + 'static) -> Self {
        Self {
            name: name.into(),
            side,
            members: None,
            prepare: Box::new(|_| ()),
            member: Box::new(move |number| Box::new(member(number))),
            check: Box::new(|_, _| ()),
        }
    }

    pub fn prepared(mut self, prepare: impl Fn(&mut Stand) + 'static) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    pub fn checked(mut self, check: impl Fn(&mut Stand, &Tally) + 'static) -> Self {
        self.check = Box::new(check);
        self
    }
}

/// How many do it, and for how long.
#[derive(Clone, Copy)]
pub struct Load {
    pub members: usize,
    /// Operations before the meters are read, and between the two readings.
    pub warm: u64,
    pub goal: u64,
    /// Every command is answered at once, so that a turn can end with nothing on its way.
    pub drains: bool,
    /// How often each way has its turn. Odd, so that there is a median.
    pub rounds: usize,
    /// When to stop though the goal is not reached.
    pub patience: Duration,
}

impl Load {
    /// Of commands that are answered at once, in pipelines of `depth`.
    pub fn plain(plan: &Plan, depth: usize) -> Self {
        let goal = plan.goal(depth);
        let (rounds, patience) = (plan.rounds(), plan.patience());
        Self { members: CONNECTIONS, warm: goal / 10, goal, drains: true, rounds, patience }
    }
}

/// The figures of a turn.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub done: f64,
    pub seconds: f64,
    /// Microseconds of the server's main thread for each operation.
    pub cpu: f64,
    /// Commands for each operation: those that were sent, and those that were carried out.
    pub sent: f64,
    pub executed: f64,
    /// Microseconds that an operation took: the median, and the 99th percentile.
    pub p50: f64,
    pub p99: f64,
    pub jain: f64,
    pub answers: BTreeMap<&'static str, u64>,
}

impl Figures {
    pub fn rate(&self) -> f64 {
        self.done / self.seconds
    }
}

/// All turns of a way.
pub struct Outcome {
    pub name: String,
    pub turns: Vec<Figures>,
}

impl Outcome {
    pub fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(self.turns.iter().map(of).collect())
    }

    /// How this one compares with another one, turn by turn.
    pub fn ratio(&self, other: &Self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(self.turns.iter().zip(&other.turns).map(|(this, other)| of(this) / of(other)).collect())
    }
}

pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Gives every way its turns.
pub fn contest(lab: &mut Lab, title: &str, ways: &[Way], load: Load) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = ways.iter().map(|way| Outcome { name: way.name.clone(), turns: vec![] }).collect();
    let rounds = load.rounds;
    for round in 1..=rounds {
        for (way, outcome) in ways.iter().zip(&mut outcomes) {
            lab.progress(&format!("{title}: {} ({round}/{rounds})", way.name));
            outcome.turns.push(turn(lab.stand(way.side), way, load));
        }
    }
    outcomes
}

/// One turn of one way.
pub fn turn(stand: &mut Stand, way: &Way, load: Load) -> Figures {
    stand.cmd("FLUSHALL");
    (way.prepare)(stand);
    let members = (0..way.members.unwrap_or(load.members)).map(&way.member).collect();
    let mut crowd = Crowd::connect(stand.server.port(), members);
    let begun = Instant::now();
    if load.warm > 0 {
        crowd.open();
        crowd.run(|tally| tally.done >= load.warm || begun.elapsed() > load.patience / 3);
    }
    if load.drains {
        crowd.close();
    }
    crowd.tally.restart();
    let (sent, before, begun) = (crowd.tally.sent, stand.reading(), Instant::now());
    if load.drains || load.warm == 0 {
        crowd.open();
    }
    crowd.run(|tally| tally.done >= load.goal || begun.elapsed() > load.patience);
    if load.drains {
        crowd.close();
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), stand.reading());
    let tally = &mut crowd.tally;
    (way.check)(stand, tally);
    let done = tally.done as f64;
    tally.waits.sort_unstable();
    let wait = |of_hundred: usize| {
        let at = (tally.waits.len() * of_hundred / 100).min(tally.waits.len().saturating_sub(1));
        tally.waits.get(at).map_or(f64::NAN, |nanos| f64::from(*nanos) / 1e3)
    };
    let figures = Figures {
        done,
        seconds,
        cpu: (after.cpu - before.cpu) / done,
        sent: (tally.sent - sent) as f64 / done,
        // The reading is a command, too.
        executed: (after.executed - before.executed - 1.0) / done,
        p50: wait(50),
        p99: wait(99),
        jain: tally.jain(),
        answers: tally.answers.clone(),
    };
    drop(crowd);
    stand.settle();
    figures
}
