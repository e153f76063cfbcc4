//! The pages of a server's runs: what is measured anew on one of them is taken from the others, so that each table is there once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Before each section; the last one has the goals, of which single rows are taken.
const HEADING: &str = "\n## ";
const GOALS: &str = "The goals\n";

/// Writes a page, and takes what it has from the other pages beside it.
pub fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a folder");
    for entry in folder.read_dir().expect("the folder of the pages") {
        let other = entry.expect("an entry").path();
        if other != path && other.extension().is_some_and(|extension| extension == "md") {
            let before = fs::read_to_string(&other).expect("a page");
            match without(&before, text) {
                Some(rest) => fs::write(&other, rest).expect("a page is written"),
                None => fs::remove_file(&other).expect("a page may go"),
            }
        }
    }
    fs::write(path, text).expect("the tables are written");
}

/// The page without the sections that the `newer` one has, too; nothing if none is left.
fn without(page: &str, newer: &str) -> Option<String> {
    let titles: BTreeSet<&str> = newer.split(HEADING).skip(1).filter_map(|section| section.lines().next()).collect();
    let goals: BTreeSet<&str> = newer.lines().filter_map(goal).collect();
    let mut sections = page.split(HEADING);
    let head = sections.next().unwrap_or_default();
    let kept: Vec<String> = sections
        .filter(|section| {
            section.starts_with(GOALS) || section.lines().next().is_none_or(|title| !titles.contains(title))
        })
        .map(|section| {
            let old = |line: &&str| section.starts_with(GOALS) && goal(line).is_some_and(|goal| goals.contains(goal));
            section.split_inclusive('\n').filter(|line| !old(line)).collect()
        })
        .collect();
    let measured = kept.iter().any(|section| !section.starts_with(GOALS));
    measured.then(|| [head.to_owned()].into_iter().chain(kept).collect::<Vec<_>>().join(HEADING))
}

/// The goal that a line of their table is about.
fn goal(line: &str) -> Option<&str> {
    let goal = line.strip_prefix("| ")?.split('|').next()?.trim();
    (goal != "goal").then_some(goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A run\n\nAbout it.\n\n## One\n\n| way |\n|---|\n| a |\n\n## Two\n\n| way |\n|---|\n| a |\n\n## The goals\n\n\
        | goal | limit |\n|------|---|\n| one  | 1 |\n| two  | 2 |\n";

    #[test]
    fn what_was_measured_anew_is_on_the_newer_page_only() {
        let newer = "# A later run\n\n## Two\n\n| way |\n|---|\n| b |\n\n## The goals\n\n| goal | limit |\n|---|---|\n| two | 2 |\n";
        let rest = "# A run\n\nAbout it.\n\n## One\n\n| way |\n|---|\n| a |\n\n## The goals\n\n\
            | goal | limit |\n|------|---|\n| one  | 1 |\n";
        assert_eq!(without(PAGE, newer).as_deref(), Some(rest));
        assert_eq!(without(PAGE, "# A run\n\n## Three\n").as_deref(), Some(PAGE));
        assert_eq!(without(PAGE, PAGE), None);
    }
}
