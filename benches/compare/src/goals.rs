//! The goals, and how far each was reached.

use lockstock_bench::table::{Sheet, number};

#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// As it is shown.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, limit) = text.split_once(' ')?;
        let limit = limit.parse().ok()?;
        if sign == "≤" { Some(Self::AtMost(limit)) } else { Some(Self::AtLeast(limit)) }
    }

    pub fn admits(self, measured: f64) -> bool {
        // Judged as it is printed: 1.104 is not more than 1.10.
        let rounded = (measured * 100.0).round() / 100.0;
        match self {
            Self::AtMost(limit) => rounded <= limit,
            Self::AtLeast(limit) => rounded >= limit,
        }
    }

    pub fn show(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit:.2}"),
            Self::AtLeast(limit) => format!("≥ {limit:.2}"),
        }
    }
}

/// A goal and what was measured; no number where this server has nothing to compare with.
pub struct Finding {
    pub what: String,
    pub limit: Limit,
    pub measured: f64,
}

impl Finding {
    /// Whether the goal was reached, if that could be measured.
    pub fn reached(&self) -> Option<bool> {
        self.measured.is_finite().then(|| self.limit.admits(self.measured))
    }
}

/// All goals in one table.
pub fn table(findings: &[Finding]) -> String {
    let mut sheet = Sheet::new(["goal", "limit", "measured", "reached"]);
    for finding in findings {
        let verdict = match finding.reached() {
            None => "not measured",
            Some(true) => "yes",
            Some(false) => "NO",
        };
        sheet.row([finding.what.clone(), finding.limit.show(), number(finding.measured), verdict.into()]);
    }
    sheet.show()
}
