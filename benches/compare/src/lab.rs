//! Where everything is measured: two servers of the same binary, one with the module, and the papers that come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::paper::Paper;
use crate::plan::Plan;
use crate::stand::{Feeds, Side, Stand};

pub struct Lab {
    pub plan: Plan,
    pub paper: Paper,
    stands: BTreeMap<(Feeds, Side), Stand>,
    /// What the stands feed from now on.
    pub feeds: Feeds,
    bar: ProgressBar,
}

impl Lab {
    pub fn open(plan: Plan, weight: u64) -> Self {
        let stand = Stand::start(Side::Ours, Feeds::Nobody);
        let paper = Paper::new(&stand.name(), &plan);
        let look = ProgressStyle::with_template("{bar:24.cyan/dim} {percent:>3} %  {elapsed}  {wide_msg}")
            .expect("a template");
        let bar = ProgressBar::new(weight).with_style(look.progress_chars("━━─"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { plan, paper, stands: [((Feeds::Nobody, Side::Ours), stand)].into(), feeds: Feeds::Nobody, bar }
    }

    pub fn stand(&mut self, side: Side) -> &mut Stand {
        self.stands.entry((self.feeds, side)).or_insert_with(|| Stand::start(side, self.feeds))
    }

    /// The words around the key with which this server deletes one if it has a value, if it can.
    pub fn native(&mut self) -> Option<&'static [&'static str]> {
        let ways: [&'static [&'static str]; 2] = [&["DELIFEQ"], &["DELEX", "IFEQ"]];
        ways.into_iter().find(|words| self.stand(Side::Plain).knows(words[0]))
    }

    /// Says what is going on.
    pub fn progress(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// A part of the whole is done.
    pub fn advance(&self, weight: u64) {
        self.bar.inc(weight);
    }

    /// Shows something above the bar.
    pub fn show(&mut self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
        self.paper.keep(text);
    }

    pub fn close(self) -> Paper {
        self.bar.finish_and_clear();
        self.paper
    }
}
