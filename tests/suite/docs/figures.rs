//! The figures on the pages are those that were measured, or those of the code.
//!
//! A measured figure is a link, `[16,500][acquire]`, and at the end of the page stands where it leads: to a table of a run of the
//! benchmark that is kept, with the row and the column, or to another file, with words of the line that has the figure.
//!
//!     [acquire]: bench/redis-7.0.15/README.md#a-heading "a lock that nobody has | LOCK.ACQUIRE | instructions"
//!
//! Any other number is in [`held::HELD`], beside the line of the sources that has it, or in a section that says itself that no test holds
//! what stands there.

mod bare;
mod held;
mod number;
mod simulation;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::page::{ALL, GOALS as GOALS_PAGE, PERFORMANCE, Page};
pub use bare::Bare;
use bare::GOALS;
use number::{Figure, Number};
use source::{Source, kept, rows, sections, text_of};

/// The pages of which every number is held, each with its sections that say of themselves that they have others.
const PAGES: [(&str, &[&str]); 24] = [
    ("README.md", &[]),
    ("README.zh-CN.md", &[]),
    ("CHANGELOG.md", &[]),
    ("CONTRIBUTING.md", &[]),
    ("DESIGN.md", &[]),
    ("SECURITY.md", &[]),
    ("clients/go/README.md", &[]),
    ("clients/java/README.md", &[]),
    ("clients/node/README.md", &[]),
    ("clients/python/README.md", &[]),
    ("clients/rust/README.md", &[]),
    ("docs/abuse.md", &[]),
    ("docs/clients.md", &["## Client by client"]),
    ("docs/commands.md", &[]),
    ("docs/locks.md", &[]),
    ("docs/stock.md", &[]),
    ("docs/guarantees.md", &[]),
    ("docs/migrating.md", &[]),
    ("docs/zh/migrating.md", &[]),
    ("docs/operations.md", &[]),
    ("docs/goals.md", &["## Where it is not ahead, and why"]),
    ("docs/performance.md", &[]),
    ("docs/scaling.md", &[]),
    (
        "docs/testing.md",
        &["## What would find which fault", "## Attacks", "## Figures", "## What goes wrong with hand-made sales"],
    ),
];

fn pages() -> impl Iterator<Item = (&'static Page, &'static [&'static str])> {
    PAGES.into_iter().map(|(path, section)| (ALL.iter().find(|page| page.path == path).expect("a page"), section))
}

/// The measured figures of a text, each with its line and the name of its source.
fn measured(text: &str) -> Vec<(usize, &str, &str)> {
    let mut found = vec![];
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("][") {
            let figure = line[..at].rsplit_once('[');
            let name = line[at + 2..].split_once(']');
            let found_here = figure.zip(name).map(|((_, figure), (name, _))| (number + 1, figure, name));
            found.extend(found_here.filter(|(_, figure, _)| figure.starts_with(|c: char| c.is_ascii_digit())));
        }
    }
    found
}

#[test]
fn what_was_measured_is_what_the_kept_runs_say() {
    let mut wrong = vec![];
    for page in &ALL {
        let sources: Vec<Source> = page.text.lines().filter_map(Source::parse).collect();
        let mut used = BTreeSet::new();
        for (line, figure, name) in measured(page.text) {
            used.insert(name);
            let source = sources.iter().find(|source| source.name == name);
            let found = source.ok_or_else(|| format!("the page does not say what [{name}] is"));
            let found = found.and_then(|source| source.look_up(page.path));
            match found {
                Ok(found) if Figure::parse(figure).is_some_and(|figure| figure.is(found)) => {}
                Ok(found) => wrong.push(format!("{}:{line}: {figure}, but [{name}] is {}", page.path, found.value)),
                Err(why) => wrong.push(format!("{}:{line}: {figure}: {why}", page.path)),
            }
        }
        let idle = sources.iter().filter(|source| !used.contains(source.name));
        wrong.extend(idle.map(|source| format!("{}: no figure is from [{}]", page.path, source.name)));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_other_number_is_one_of_the_code() {
    let mut wrong = vec![];
    for (page, apart) in pages() {
        let mut text = Bare::of(page.text);
        for heading in apart {
            text.leave_out_between(page.text, heading, "\n## ");
        }
        text.leave_out_between(page.text, simulation::TABLE, "\n\n");
        for (_, phrase, ..) in held::HELD.iter().filter(|(path, ..)| *path == page.path) {
            if !text.leave_out(phrase) {
                wrong.push(format!("{}: held.rs has {phrase:?}, and the page has not", page.path));
            }
        }
        let numbers = text.numbers();
        wrong.extend(numbers.into_iter().map(|(line, number)| {
            format!("{}:{line}: nothing holds {number}; see the head of tests/suite/docs/figures.rs", page.path)
        }));
    }
    for (page, phrase, file, words) in held::HELD {
        if !text_of(file).contains(words) {
            wrong.push(format!("{page}: {phrase:?} is from {file}, which has no {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The table of the goals, with what each server's run has found.
fn goals() -> Vec<Vec<&'static str>> {
    let (_, rest) = GOALS_PAGE.text.split_once(GOALS[0]).expect("the goals");
    rows(rest.split(GOALS[1]).next().expect("their end"))
}

/// What is in bold is what does not reach its goal.
#[test]
fn goals_are_reached_where_the_table_says_so() {
    let goals = goals();
    assert!(goals.len() > 50);
    for goal in &goals[2..] {
        let limit = Number::first(goal[1]).expect("a limit").value;
        for cell in goal[2..].iter().filter(|cell| **cell != "–") {
            let measured = Number::first(cell).expect("a number").value;
            let reached = if goal[1].starts_with('≤') { measured <= limit } else { measured >= limit };
            assert_eq!(reached, !cell.starts_with("**"), "{}: {cell}", goal[0]);
        }
    }
}

/// The column of the server of which the runs are kept says what their pages say, with the same limits.
#[test]
fn the_goals_are_those_of_the_kept_runs() {
    let goals = goals();
    for (path, text) in kept() {
        let server = path.parent().and_then(|folder| folder.file_name()).expect("a folder").display().to_string();
        let column = goals[0].iter().position(|name| *name == server).expect("a column");
        let found = sections(&text).find(|(anchor, _)| anchor == "the-goals").map(|(_, section)| rows(section));
        for row in found.unwrap_or_default().into_iter().skip(2) {
            let goal = goals.iter().find(|goal| goal[0] == row[0]);
            let goal = goal.unwrap_or_else(|| panic!("{}: docs/goals.md has no goal {:?}", path.display(), row[0]));
            let said = (goal[1], goal[column].trim_matches('*'));
            assert_eq!(said, (row[1], row[2]), "{:?}: docs/goals.md is not what {} says", row[0], path.display());
        }
    }
}

/// A reader who looks a figure up finds one table.
#[test]
fn nothing_is_kept_twice() {
    let mut seen = BTreeSet::new();
    for (path, text) in kept() {
        for (anchor, _) in sections(&text).filter(|(anchor, _)| anchor != "the-goals") {
            let folder = path.parent().expect("a folder").to_owned();
            assert!(seen.insert((folder, anchor.clone())), "{}: #{anchor} is in another file, too", path.display());
        }
    }
    assert!(seen.len() > 30);
}

/// A picture is drawn from the table that stands before it.
#[test]
fn each_picture_is_of_the_run_that_shows_it() {
    let mut shown = BTreeSet::new();
    for (path, text) in kept() {
        let run = text.lines().next().and_then(|title| title.strip_prefix("# ")).expect("a title");
        let stamp = run.rsplit_once(", ").expect("a date").0;
        for picture in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(".svg)")?.0)) {
            let picture = path.with_file_name(format!("{picture}.svg"));
            let drawn = fs::read_to_string(&picture).expect("a picture");
            assert!(drawn.contains(stamp), "{} is not of {stamp}", picture.display());
            shown.insert(picture);
        }
    }
    let (page, folder) = (PERFORMANCE, Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"));
    for picture in page.links().filter(|link| link.contains(".svg")) {
        assert!(shown.contains(&folder.join(picture)), "{picture} is of no kept run");
    }
}
