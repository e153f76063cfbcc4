//! A state as a number: the same for two states that differ in nothing that matters, and not by chance for others.
//!
//! The number is made of what `{:?}` says of the state. So a new field of any structure is a part of it without being named here.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Counters, caches and lists of free slots, which decide nothing. Fences, tickets and generations count by their order only, so the one
/// given last decides nothing either.
const APART: [&str; 15] = [
    "deadlocks",
    "fences",
    "found",
    "front",
    "gone",
    "hasher",
    "last",
    "next",
    "now",
    "ranks",
    "seen",
    "serials",
    "stats",
    "vacant",
    "waited",
];

/// What the numbers of a text mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Plain,
    Client,
    Time,
    /// Counts by its order among those of its kind.
    Fence,
    Ticket,
    Serial,
    Rank,
    Generation,
    /// Of a token, with a key that each process draws.
    Hash,
}

/// From here on a number that nothing names is a time, a fence, or the hash of a token: the tests' clocks begin here.
const TIMES: i128 = 1_000_000;
const FENCES: i128 = 1_000_000_000;
const HASHES: i128 = 1_000_000_000_000;

/// A part of the text.
enum Part<'a> {
    Number(i128),
    Word(&'a str),
    /// A list, or a structure, or (if it is curly and has no name) a set or a map.
    Group {
        name: &'a str,
        curly: bool,
        items: Vec<(Option<Part<'a>>, Part<'a>)>,
    },
}

struct Text<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Text<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn skip(&mut self, what: &[u8]) {
        while what.contains(&self.peek()) && self.at < self.text.len() {
            self.at += 1;
        }
    }

    fn part(&mut self) -> Part<'a> {
        let start = self.at;
        if self.peek() == b'"' {
            self.at += 1;
            while self.peek() != b'"' {
                self.at += if self.peek() == b'\\' { 2 } else { 1 };
            }
            self.at += 1;
            return Part::Word(&self.text[start..self.at]);
        }
        while !b" ,:(){}[]".contains(&self.peek()) && self.at < self.text.len() {
            self.at += 1;
        }
        let name = &self.text[start..self.at];
        let open = if self.text[self.at..].starts_with(" {") { b'{' } else { self.peek() };
        if !b"({[".contains(&open) {
            return name.parse().map_or(Part::Word(name), Part::Number);
        }
        self.skip(b" ");
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip(b" ,");
            if b")}]".contains(&self.peek()) {
                self.at += 1;
                return Part::Group { name, curly: open == b'{', items };
            }
            let first = self.part();
            if self.peek() == b':' {
                self.skip(b": ");
                items.push((Some(first), self.part()));
            } else {
                items.push((None, first));
            }
        }
    }
}

/// What makes numbers the same in different states.
struct Names<'a> {
    now: i128,
    clients: &'a [u64],
    ordered: BTreeSet<(Kind, i128)>,
}

impl Names<'_> {
    fn kind(around: &str, number: i128) -> Kind {
        match around {
            "ClientId" | "client" | "session" => Kind::Client,
            "Fence" => Kind::Fence,
            "Ticket" => Kind::Ticket,
            "serial" => Kind::Serial,
            "rank" => Kind::Rank,
            "generation" | "stamp" => Kind::Generation,
            "UnixMs" => Kind::Time,
            _ if number >= HASHES => Kind::Hash,
            _ if number >= FENCES => Kind::Fence,
            _ if number >= TIMES => Kind::Time,
            _ => Kind::Plain,
        }
    }

    /// Calls `see` with each number that counts.
    fn numbers(part: &Part<'_>, around: &str, see: &mut impl FnMut(Kind, i128)) {
        match part {
            Part::Number(number) => see(Self::kind(around, *number), *number),
            Part::Word(_) => {}
            Part::Group { name, items, .. } => {
                for (key, value) in items {
                    let field = Self::field(name, key.as_ref());
                    if Self::counts(name, field) {
                        if let Some(key) = key {
                            Self::numbers(key, around, see);
                        }
                        Self::numbers(value, if field.is_empty() { Self::inside(name, around) } else { field }, see);
                    }
                }
            }
        }
    }

    /// `Some` and tuples say nothing of what is in them.
    fn inside<'t>(name: &'t str, around: &'t str) -> &'t str {
        if matches!(name, "" | "Some" | "Ok") { around } else { name }
    }

    /// The name of a field; nothing in a map or list.
    fn field<'t>(name: &str, key: Option<&Part<'t>>) -> &'t str {
        match key {
            Some(Part::Word(field)) if !name.is_empty() => field,
            _ => "",
        }
    }

    fn counts(name: &str, field: &str) -> bool {
        // A slab's own is the one given last; that of a slot counts.
        !APART.contains(&field) && (name, field) != ("Slab", "stamp")
    }

    fn number(&self, kind: Kind, number: i128) -> String {
        match kind {
            Kind::Plain => number.to_string(),
            Kind::Hash => String::new(),
            Kind::Time => format!("now{:+}", number - self.now),
            Kind::Client => match self.clients.iter().position(|client| i128::from(*client) == number) {
                Some(slot) => format!("client {slot}"),
                None => format!("gone {}", self.order(kind, number)),
            },
            _ => format!("{kind:?} {}", self.order(kind, number)),
        }
    }

    fn order(&self, kind: Kind, number: i128) -> usize {
        self.ordered.range((kind, i128::MIN)..(kind, number)).count()
    }

    fn say(&self, part: &Part<'_>, around: &str, out: &mut String) {
        match part {
            Part::Number(number) => out.push_str(&self.number(Self::kind(around, *number), *number)),
            Part::Word(word) => out.push_str(word),
            Part::Group { name, curly, items } => {
                let said = items.iter().filter_map(|(key, value)| {
                    let field = Self::field(name, key.as_ref());
                    if !Self::counts(name, field) {
                        return None;
                    }
                    let mut said = String::new();
                    if let Some(key) = key {
                        self.say(key, around, &mut said);
                        said.push(':');
                    }
                    self.say(value, if field.is_empty() { Self::inside(name, around) } else { field }, &mut said);
                    Some(said)
                });
                let mut said: Vec<String> = said.collect();
                if *curly && name.is_empty() {
                    said.sort_unstable();
                }
                out.push_str(name);
                out.push('{');
                out.push_str(&said.join(","));
                out.push('}');
            }
        }
    }
}

/// The state that `text` tells, at `now`, with these clients connected.
pub fn canonical(text: &str, now: i64, clients: &[u64]) -> String {
    let mut reader = Text { text, at: 0 };
    let mut names = Names { now: now.into(), clients, ordered: BTreeSet::new() };
    let part = reader.part();
    Names::numbers(&part, "", &mut |kind, number| {
        if !matches!(kind, Kind::Plain | Kind::Time | Kind::Hash) {
            names.ordered.insert((kind, number));
        }
    });
    let mut said = String::new();
    names.say(&part, "", &mut said);
    said
}

/// Two states with the same number are the same.
pub fn number(said: &str) -> u128 {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, said).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

#[test]
fn states_that_differ_by_what_counts_for_nothing_are_the_same() {
    let of = |text: &str, now| canonical(text, now, &[7, 8]);
    let one = of(
        "A { at: UnixMs(1000005), set: {(Fence(1000000001), ClientId(7)), (Fence(1000000009), ClientId(3))}, last: 5 }",
        1_000_000,
    );
    let other = of(
        "A { at: UnixMs(1000006), set: {(Fence(1000000012), ClientId(2)), (Fence(1000000010), ClientId(7))}, last: 6 }",
        1_000_001,
    );
    assert_eq!(one, other);
    assert_ne!(
        one,
        of(
            "A { at: UnixMs(1000005), set: {(Fence(1000000001), ClientId(7)), (Fence(1000000009), ClientId(3))}, last: 5 }",
            1_000_001
        )
    );
    assert_ne!(
        one,
        of(
            "A { at: UnixMs(1000005), set: {(Fence(1000000001), ClientId(3)), (Fence(1000000009), ClientId(7))}, last: 5 }",
            1_000_000
        )
    );
    assert_ne!(of("[1, 2]", 0), of("[2, 1]", 0));
    assert_eq!(of("{1: [\"a\"], 2: []}", 0), of("{2: [], 1: [\"a\"]}", 0));
}
