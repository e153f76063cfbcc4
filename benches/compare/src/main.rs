//! Speed and memory beside the alternatives: `make bench`.
//!
//! [`ways`] says what is compared, [`chapters`] what is measured. [`contest`] gives each way its turns on a [`stand`], a server
//! whose meters are read before and after; the clients are a [`crowd`] on one thread. What comes of it goes onto [`paper`], and the
//! [`goals`] of all servers into a [`summary`].
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a benchmark may stop at the first surprise, and its counts are small"
)]

mod chapters;
mod ways;

mod contest;
mod crowd;
mod pump;
mod tally;
mod wire;

mod lab;
mod plan;
mod stand;

mod goals;
mod pages;
mod paper;
mod summary;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use lab::Lab;
use plan::Plan;

/// A chapter, and the share of the time that it takes.
type Chapter = (&'static str, u64, fn(&mut Lab));

const CHAPTERS: [Chapter; 15] = [
    ("cycles", 8, chapters::cycles::run),
    ("handover", 32, chapters::handover::run),
    ("sales", 23, chapters::sales::run),
    ("fed", 14, chapters::fed::run),
    ("waiting", 14, chapters::waiting::run),
    ("carts", 8, chapters::carts::run),
    ("waitlist", 8, chapters::waitlist::run),
    ("growth", 8, chapters::growth::run),
    ("memory", 4, chapters::memory::run),
    ("persistence", 14, chapters::persistence::run),
    ("plain", 13, chapters::plain::run),
    ("python", 2, chapters::python::run),
    ("cluster", 3, chapters::cluster::run),
    ("instructions", 24, chapters::instructions::run),
    ("guard", 4, chapters::guard::run),
];

fn main() {
    raise_file_limit();
    stand::keep_to(None, 0);
    let plan = Plan::from_env();
    let chapters: Vec<Chapter> = CHAPTERS.into_iter().filter(|chapter| plan.wants(chapter.0)).collect();
    let mut lab = Lab::open(plan.clone(), chapters.iter().map(|chapter| chapter.1).sum());
    for (_, weight, run) in chapters {
        run(&mut lab);
        lab.advance(weight);
    }
    let goals = goals::table(&lab.paper.findings);
    lab.show(&format!("\n## The goals\n\n{goals}"));
    let paper = lab.close();
    if plan.whole() {
        println!("\nwritten: {}", paper.write().display());
    } else if let Some(page) = plan.page() {
        println!("\nwritten: {}", paper.write_part(&page).display());
    }
}

/// Ten thousand clients are as many files.
fn raise_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("a limit may be raised to its maximum");
}
