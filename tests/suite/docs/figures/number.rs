//! Figures as pages write them, and numbers as files do.

/// Units that pages may write in another size than files. Whatever else stands behind a number says nothing about its size.
const UNITS: [(&str, f64); 5] = [("kB", 1e3), ("MB", 1e6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// A number that was rounded for a reader.
pub struct Figure {
    number: Number,
    /// What its last digit stands for that is not a zero of the rounding.
    step: f64,
}

impl Figure {
    /// `16,500`, `0.53`, `36 kB`.
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
        let digits = digits.replace(',', "");
        let behind = digits.split_once('.').map(|(_, behind)| behind.len());
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let power = behind.map_or(i32::try_from(zeros), |count| i32::try_from(count).map(|count| -count)).ok()?;
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let unit = known.map(|(_, size)| *size);
        (known.is_some() || !text.contains(' ')).then_some(())?;
        Some(Self { number: Number { value: digits.parse().ok()?, unit }, step: 10_f64.powi(power) })
    }

    /// Whether `measured`, rounded in the same way, is this.
    pub fn is(&self, measured: Number) -> bool {
        let size = self.number.unit.map_or(1.0, |unit| measured.unit.unwrap_or(1.0) / unit);
        (self.number.value - measured.value * size).abs() <= self.step * 0.5001
    }
}

/// A number as it stands in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    pub value: f64,
    /// The size of its unit, if it is one that pages write in another size.
    pub unit: Option<f64>,
}

impl Number {
    pub fn plain(value: f64) -> Self {
        Self { value, unit: None }
    }

    /// The first number of a cell or a line, whatever stands between its thousands.
    pub fn first(text: &str) -> Option<Self> {
        let text = &text[text.find(|c: char| c.is_ascii_digit())?..];
        let thousand = |at: usize| text[at..].chars().take_while(char::is_ascii_digit).count() == 3;
        let part = |(at, c): (usize, char)| c.is_ascii_digit() || c == '.' || (" _,".contains(c) && thousand(at + 1));
        let end = text.char_indices().find(|next| !part(*next)).map_or(text.len(), |(at, _)| at);
        let digits: String = text[..end].chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
        let behind = text[end..].trim_start();
        let word = behind.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let unit = UNITS.iter().find(|(name, _)| *name == word).map(|(_, size)| *size);
        Some(Self { value: digits.trim_end_matches('.').parse().ok()?, unit })
    }
}

#[test]
fn figures_are_what_they_were_rounded_from() {
    for (figure, measured, is) in [
        ("16,500", "16 530", true),
        ("16,500", "16 551", false),
        ("0.53", "0.5349", true),
        ("0.53", "0.54", false),
        ("36 kB", "35 907", true),
        ("4.1", "4.13", true),
        ("2.5 ms", "2512 µs each", true),
        ("2,512", "2512 µs each", true),
        ("1.9 s", "1.9s; 7 pings", true),
        ("100,000", "a: 100_000;", true),
        ("some", "1", false),
        ("5 men", "5", false),
    ] {
        let (figure_of, number) = (Figure::parse(figure), Number::first(measured).expect("a number"));
        assert_eq!(figure_of.is_some_and(|figure| figure.is(number)), is, "{figure} {measured}");
    }
}
