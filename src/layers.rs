//! That every name points inwards: to the same ring or one inside it, and among files in no circle.

#![expect(clippy::arithmetic_side_effects, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file by its path in the crate: `["server", "key"]`.
type Module = Vec<String>;

/// The rings as the layout in `lib.rs` lists them: the folders and files of each, from the inside out.
fn rings() -> Vec<Vec<&'static str>> {
    let (_, layout) = include_str!("lib.rs").split_once("# Layout").unwrap();
    let (layout, _) = layout.split_once("//! # ").unwrap();
    let bullets = layout.lines().filter_map(|line| line.strip_prefix("//! - "));
    let names = bullets.map(|bullet| bullet.split(':').next().unwrap());
    names.map(|names| names.split(", ").map(|name| name.trim_matches(['[', '`', ']'])).collect()).collect()
}

/// The code of every file that users run, without comments.
fn sources(folder: &Path, module: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // For tests and fuzzing only.
        if ["tests", "fuzz", "fake_server", "layers", "lib"].contains(&name.as_str()) {
            continue;
        }
        let mut inner = module.clone();
        if name != "mod" {
            inner.push(name);
        }
        if path.is_dir() {
            sources(&path, &inner, found);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let lines = code.lines().map(|line| line.split("//").next().unwrap());
            found.insert(inner, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths that a tree of names spells: `a::{b, c::d}`.
fn spelled(before: &str, text: &str, paths: &mut Vec<String>) {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
    let path = format!("{before}{name}");
    let Some(tree) = text[name.len()..].strip_prefix('{').filter(|_| name.ends_with("::") || name.is_empty()) else {
        return paths.push(path);
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return spelled(&path, tree[start..at].trim(), paths),
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spelled(&path, tree[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The files that the code of `module` names.
fn named(module: &Module, code: &str, known: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut paths = vec![];
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            // `super::super::x` is found at its beginning.
            if !code[..at].ends_with("::") {
                spelled("", &code[at..], &mut paths);
            }
        }
    }
    let resolve = |path: String| {
        let mut at = if path.starts_with("super") { module.clone() } else { vec![] };
        for name in path.split("::").filter(|name| !name.is_empty() && *name != "crate" && *name != "self") {
            if name == "super" {
                at.pop();
            } else {
                at.push(name.to_owned());
            }
        }
        while !at.is_empty() && !known.contains(&at) {
            at.pop();
        }
        at
    };
    paths.into_iter().map(resolve).filter(|found| !found.is_empty() && found != module).collect()
}

fn ring(module: &Module, rings: &[Vec<&str>]) -> usize {
    let first = module[0].as_str();
    rings.iter().position(|names| names.contains(&first)).unwrap_or_else(|| panic!("{first} belongs to no ring"))
}

/// Which file names which.
fn arrows() -> BTreeMap<Module, BTreeSet<Module>> {
    let mut sources_found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &vec![], &mut sources_found);
    let known: BTreeSet<Module> = sources_found.keys().cloned().collect();
    let arrows: BTreeMap<_, _> =
        sources_found.iter().map(|(module, code)| (module.clone(), named(module, code, &known))).collect();
    // That it sees anything.
    let session = vec!["module".to_owned(), "lock_session".to_owned()];
    assert!(arrows[&session].contains(&vec!["server".to_owned(), "key".to_owned()]));
    assert!(arrows.len() > 80 && arrows.values().map(BTreeSet::len).sum::<usize>() > 300);
    arrows
}

#[test]
fn every_ring_knows_only_those_inside_it() {
    let rings = rings();
    assert_eq!(rings.concat().len(), 7, "{rings:?}");
    for (from, named) in arrows() {
        for to in named {
            assert!(ring(&to, &rings) <= ring(&from, &rings), "{} names {}", from.join("::"), to.join("::"));
        }
    }
}

/// The shortest way along the arrows from `start` back to `start`.
fn circle(start: &Module, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = vec![];
        for way in ways {
            for next in &arrows[*way.last().unwrap()] {
                if next == start {
                    return Some(way.iter().chain([&next]).map(|module| module.join("::")).collect());
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    let arrows = arrows();
    let circles: BTreeSet<Vec<String>> = arrows.keys().filter_map(|start| circle(start, &arrows)).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_circle_of_any_length_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let arrows = |pairs: &[(&str, &str)]| {
        let mut arrows = BTreeMap::<Module, BTreeSet<Module>>::new();
        for (from, to) in pairs {
            arrows.entry(module(from)).or_default().insert(module(to));
            arrows.entry(module(to)).or_default();
        }
        arrows
    };
    let straight = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")];
    assert_eq!(circle(&module("a"), &arrows(&straight)), None);
    for back in ["a", "b", "c"] {
        let bent = arrows(&[&straight[..], &[("d", back)]].concat());
        let found = circle(&module("d"), &bent).unwrap();
        assert_eq!((found.first().unwrap().as_str(), found.last().unwrap().as_str()), ("d", "d"));
        assert_eq!(circle(&module("a"), &bent).is_some(), back == "a");
    }
}

#[test]
fn the_server_ring_names_no_lock_and_no_sale() {
    for (from, named) in arrows().into_iter().filter(|(from, _)| from[0] == "server") {
        for to in named.into_iter().filter(|to| to[0] == "core") {
            assert!(!["lock", "sale"].contains(&to[1].as_str()), "{} names {}", from.join("::"), to.join("::"));
        }
    }
}
