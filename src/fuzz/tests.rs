//! The kept corpus, and mutations of it for as long as a test may take.
#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::edges::edges;
use super::{TARGETS, Target};
use crate::core::codec::Encode;

/// For each target.
const PATIENCE: Duration = Duration::from_secs(1);

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Fails with the input that `target` fails on, in a form that can be kept.
fn try_on(target: Target, what: &str, data: &[u8]) {
    let survived = catch_unwind(|| target(data)).is_ok();
    assert!(survived, "{what}: \"{}\"", data.escape_ascii());
}

/// A number at an edge in place of one that is there: of the digits around `at` in what is text, and as payloads have it elsewhere.
fn edge(random: &mut fastrand::Rng, data: &mut Vec<u8>, at: usize) {
    let edges = edges(1_700_000_000_000);
    let edge = edges[random.usize(..edges.len())];
    let digits = |byte: &&u8| byte.is_ascii_digit();
    let before = data[..at].iter().rev().take_while(digits).count();
    let after = data[at..].iter().take_while(digits).count();
    if before + after > 0 {
        drop(data.splice(at - before..at + after, edge.to_string().into_bytes()));
        return;
    }
    let mut writer = Vec::new();
    writer.number(edge.cast_unsigned());
    let until = data.len().min(at + random.usize(..9));
    drop(data.splice(at..until, writer));
}

/// Some bytes changed, cut out, repeated, or taken from another input.
fn mutation(random: &mut fastrand::Rng, corpus: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let mut data = corpus[random.usize(..corpus.len())].1.clone();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=data.len());
        let until = data.len().min(at + random.usize(..20));
        match random.u8(..7) {
            0 if at < data.len() => data[at] = random.u8(..),
            1 if at < data.len() => data[at] ^= 1 << random.u8(..8),
            2 => drop(data.drain(at..until)),
            3 => drop(data.splice(at..at, data[at..until].to_vec())),
            4 | 5 => edge(random, &mut data, at),
            _ => {
                let other = &corpus[random.usize(..corpus.len())].1;
                let from = random.usize(..=other.len());
                let to = other.len().min(from + random.usize(..40));
                drop(data.splice(at..until, other[from..to].iter().copied()));
            }
        }
    }
    data
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn the_kept_inputs_break_nothing() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() > 10, "the corpus of {name} is missing");
        for (path, data) in corpus {
            try_on(target, &path.display().to_string(), &data);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn nor_do_inputs_much_like_them() {
    let seed = fastrand::u64(..);
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        let mut random = fastrand::Rng::with_seed(seed);
        let began = Instant::now();
        let mut tried = 0_u32;
        while began.elapsed() < PATIENCE {
            try_on(target, name, &mutation(&mut random, &corpus));
            tried += 1;
        }
        println!("{name}: {tried} inputs");
        assert!(tried > 100, "{name}: only {tried} inputs");
    }
}

#[test]
fn a_broken_promise_is_noticed() {
    let target: Target = |data| assert!(data != b"bad");
    try_on(target, "good", b"good");
    assert!(catch_unwind(|| try_on(target, "bad", b"bad")).is_err());
}
