//! What is left of a page without what is held, to be searched for numbers.

use super::measured;

/// A program writes what stands between these lines, and tests of its own read it.
pub const GOALS: [&str; 2] = ["<!-- goals: written by make bench -->", "<!-- end of goals -->"];

/// Words in front of a number that is a name (a version, a step) and not a figure.
const NAMES: [&str; 11] =
    ["Debian", "Ubuntu", "Redis", "Valkey", "lockstock", "Version", "version", "versions", "Step", "step", "steps"];

pub struct Bare {
    /// The page in one line.
    page: String,
    /// The same with spaces for what was left out, where lines are still lines.
    left: Vec<u8>,
}

impl Bare {
    /// The prose and the tables: without programs, names in back quotes, links, measured figures and the table of the goals.
    pub fn of(text: &str) -> Self {
        let mut bare = Self { page: text.replace('\n', " "), left: text.into() };
        for [begin, end] in [GOALS, ["```", "```"], ["`", "`"], ["](", ")"], ["\n[", "\n"]] {
            bare.leave_out_between(text, begin, end);
        }
        for (_, figure, name) in measured(text) {
            bare.leave_out(&format!("[{figure}][{name}]"));
        }
        bare
    }

    /// What is left, in its lines.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.left).into_owned()
    }

    /// Leaves out these words wherever they stand; false if they stand nowhere.
    pub fn leave_out(&mut self, words: &str) -> bool {
        let places: Vec<usize> = self.page.match_indices(words).map(|(at, _)| at).collect();
        for at in &places {
            self.blank(*at, at + words.len());
        }
        !places.is_empty()
    }

    /// Leaves out what stands between one mark and the next, wherever they stand.
    pub fn leave_out_between(&mut self, text: &str, begin: &str, end: &str) {
        let mut at = 0;
        while let Some(from) = self.find(text, begin, at) {
            let last = end.starts_with('\n').then_some(text.len());
            let Some(to) = self.find(text, end, from + begin.len()).or(last) else { return };
            // What begins the next one stays.
            let to = if end.starts_with('\n') { to } else { to + end.len() };
            self.blank(from, to);
            at = to;
        }
    }

    /// Where `words` stand from `at` on in what is left.
    fn find(&self, text: &str, words: &str, at: usize) -> Option<usize> {
        let found = text.get(at..)?.match_indices(words).map(|(found, _)| at + found);
        found.into_iter().find(|found| self.left[*found..].starts_with(words.as_bytes()))
    }

    fn blank(&mut self, from: usize, to: usize) {
        self.left[from..to].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }

    /// The numbers that are left, with their lines: no versions, no steps of a list, no zeros, and nothing like RESP3.
    pub fn numbers(&self) -> Vec<(usize, String)> {
        let left = self.text();
        let mut numbers = vec![];
        for (line, text) in left.lines().enumerate() {
            // A line may begin with the number of a step.
            let mut name = true;
            for word in text.split_whitespace() {
                let own = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
                let parts = word.split(|c: char| !c.is_alphanumeric() && !".,-".contains(c));
                let number = parts.map(|part| part.trim_end_matches(['.', ','])).find(own);
                match number {
                    Some(number) if !name && number != "0" => numbers.push((line + 1, number.to_owned())),
                    Some(_) => {}
                    // What names the first of two numbers names the second.
                    None => name = NAMES.contains(&word) || (name && ["and", "or", "to"].contains(&word)),
                }
            }
        }
        numbers
    }
}

#[test]
fn what_is_held_is_left_out_and_nothing_else() {
    let text = "# Page 1\nTwo `3`, [4][four] of 5,\n6 things; RESP3, Redis 7.0. See [8](nine#10).\n```\n11\n```\nAnd 12, UTF-8\n\n[four]: 13 \"14\"\n";
    let mut bare = Bare::of(text);
    assert!(bare.leave_out("of 5, 6 things") && !bare.leave_out("of 7"));
    let numbers: Vec<(usize, String)> =
        [(1, "1"), (3, "8"), (7, "12")].map(|(line, number)| (line, number.into())).into();
    assert_eq!(bare.numbers(), numbers);
}
