//! The program's reports: lines on standard error, and a bar while `--once` runs on a terminal.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::trouble::Place;

/// How often the absence of a server or database is reported.
const AGAIN: Duration = Duration::from_mins(1);

static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// One line on standard error, in one write. A bar makes room for it.
pub fn say(text: impl Display) {
    let text = text.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = format!("lockstock-outbox: {}\n", words.join(" "));
    let write = || {
        let _ = std::io::stderr().write_all(line.as_bytes());
    };
    match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// A bar that shows how many of the events that are there have been written; nothing where no terminal is.
#[derive(Debug)]
pub struct Progress;

impl Progress {
    pub fn begin() -> Self {
        if std::io::stderr().is_terminal()
            && let Ok(style) =
                ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} events, {rate} a second, {eta} left")
        {
            let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                let _ = write!(text, "{:.0}", state.per_sec());
            };
            let bar = ProgressBar::new(0).with_style(style.with_key("rate", rate));
            bar.enable_steady_tick(Duration::from_millis(100));
            *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
        }
        Self
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = BAR.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.abandon();
        }
    }
}

/// So many more events are to be written.
pub fn more_to_do(events: u64) {
    if let Some(bar) = &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        bar.inc_length(events);
    }
}

/// So many events have been written.
pub fn done(events: u64) {
    if let Some(bar) = &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        bar.inc(events);
    }
}

/// When it was told last of a store that it was away, and whether it was told that it answers again.
#[derive(Debug, Default)]
pub struct Absences {
    told: Mutex<HashMap<Place, (Instant, bool)>>,
}

impl Absences {
    /// Reports that `place` does not answer, once a minute.
    pub fn away(&self, place: Place, why: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&place).is_none_or(|(last, _)| last.elapsed() >= AGAIN) {
            told.insert(place, (Instant::now(), false));
            match place {
                Place::Fence => say(format!("trying again: {why}")),
                Place::Server | Place::Database => say(format!("{} is away, trying again: {why}", place.name())),
            }
        }
    }

    /// Reports that `place` answers again, if its absence was reported.
    pub fn back(&self, place: Place) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, back)) = told.get_mut(&place).filter(|(_, back)| !*back) {
            *back = true;
            if place != Place::Fence {
                say(format!("{} answers again", place.name()));
            }
        }
    }
}
