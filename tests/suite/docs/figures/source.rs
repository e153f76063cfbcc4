//! Where the figures of a page are from.

use std::fs;
use std::path::{Path, PathBuf};

use super::number::Number;
use crate::docs::page::anchor_of;

/// A source that a page names: `[name]: path#anchor "words | words"`.
pub struct Source<'a> {
    pub name: &'a str,
    path: &'a str,
    /// The heading of a table; empty for a file without tables.
    anchor: &'a str,
    /// Cells of the row and then the name of the column; without a table, words that follow each other, the last one just before the number.
    words: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub fn parse(line: &'a str) -> Option<Self> {
        let (name, rest) = line.strip_prefix('[')?.split_once("]: ")?;
        let (target, title) = rest.split_once(" \"")?;
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        Some(Self { name, path, anchor, words: title.strip_suffix('"')?.split(" | ").collect() })
    }

    /// The number that stands there.
    pub fn look_up(&self, page: &str) -> Result<Number, String> {
        let path = Path::new(page).with_file_name(self.path);
        let text = fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", self.path))?;
        let found = if self.anchor.is_empty() { self.behind(&text) } else { self.cell(&text) };
        found.and_then(Number::first).ok_or_else(|| {
            let other = kept().into_iter().find(|(_, text)| self.cell(text).is_some());
            let other = other.map_or(String::new(), |(path, _)| format!(", but {} has", path.display()));
            format!("{}#{} has nothing at {:?}, or more than one thing{other}", self.path, self.anchor, self.words)
        })
    }

    fn behind<'b>(&self, text: &'b str) -> Option<&'b str> {
        self.words.iter().try_fold(text, |rest, word| Some(rest.split_once(word)?.1))
    }

    fn cell<'b>(&self, text: &'b str) -> Option<&'b str> {
        let (column, cells) = self.words.split_last()?;
        let (_, section) = sections(text).find(|(anchor, _)| anchor == self.anchor)?;
        let rows = rows(section);
        let column = only((0..rows.first()?.len()).filter(|at| rows[0][*at] == *column))?;
        only(rows.iter().filter(|row| cells.iter().all(|cell| row.contains(cell))))?.get(column).copied()
    }
}

fn only<T>(mut found: impl Iterator<Item = T>) -> Option<T> {
    found.next().filter(|_| found.next().is_none())
}

/// The sections of a page, each with the anchor of its heading.
pub fn sections(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.split("\n## ").skip(1).map(|section| (anchor_of(section.lines().next().unwrap_or_default()), section))
}

/// The rows of a table, the first of which is its head.
pub fn rows(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages of the benchmark's runs that are kept.
pub fn kept() -> Vec<(PathBuf, String)> {
    let entries = |path: PathBuf| path.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    let servers = entries(root().join("docs/bench")).filter(|path| path.is_dir());
    let pages = servers.flat_map(entries).filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).expect("a page"))).collect()
}
