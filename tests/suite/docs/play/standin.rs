//! Values of a page that are others in each run: fences, times, random tokens.

use std::collections::BTreeMap;

/// Integers from here on are times and fences. They stand for what the server says in this run.
const VARYING: i64 = 1_000_000_000_000;
/// Integers from here on are fences, of which no two are the same.
const FENCE: i64 = 1_000_000_000_000_000;
/// How far a span of time may be from the one that is printed: a test machine can be slow.
const SLACK_MS: i64 = 5_000;
/// The fields whose value is a span of time, or the number of a connection.
const SPANS: [&str; 4] = ["\"lease-ms\"", "\"waited-ms\"", "\"wait-left-ms\"", "\"client\""];

/// What the values of the page stand for in this run.
///
/// The same value again is the same again, and what is larger on paper is larger: so the text cannot show a new fence
/// where the server gives the old one.
#[derive(Default)]
pub struct StandIns {
    numbers: BTreeMap<i64, i64>,
    tokens: BTreeMap<String, String>,
}

impl StandIns {
    /// The command of the page with the values of this run.
    pub fn call(&mut self, text: &str) -> String {
        let known = |word: &str| match Word::from(word) {
            // What the reader types first is no stand-in, and comes back as it is.
            Word::Varying(number) => self.numbers.entry(number).or_insert(number).to_string(),
            Word::Token(token) => self.tokens.get(token).cloned().unwrap_or_else(|| token.into()),
            _ => word.into(),
        };
        text.split(' ').map(known).collect::<Vec<_>>().join(" ")
    }

    /// Whether the lines that the page shows stand for those that came.
    pub fn fit<T: AsRef<str>>(&mut self, shown: &[T], came: &[String]) -> bool {
        shown.len() == came.len() && shown.iter().zip(came).all(|(shown, came)| self.line_fits(shown.as_ref(), came))
    }

    fn line_fits(&mut self, shown: &str, came: &str) -> bool {
        const BETWEEN: [char; 2] = [' ', '"'];
        let span = SPANS.iter().any(|field| shown.contains(field));
        shown.matches(BETWEEN).eq(came.matches(BETWEEN))
            && shown.split(BETWEEN).zip(came.split(BETWEEN)).all(|(shown, came)| self.word_fits(shown, came, span))
    }

    fn word_fits(&mut self, shown: &str, came: &str, span: bool) -> bool {
        match (Word::from(shown), Word::from(came)) {
            (Word::Varying(shown), Word::Varying(came)) => self.number_fits(shown, came),
            (Word::Token(shown), Word::Token(came)) => self.token_fits(shown, came),
            (Word::StreamId, Word::StreamId) => true,
            // A negative span means that there is none.
            (Word::Number(shown), Word::Number(came)) if span && shown >= 0 && came >= 0 => {
                (shown - came).abs() <= SLACK_MS
            }
            _ => shown == came,
        }
    }

    fn number_fits(&mut self, shown: i64, came: i64) -> bool {
        let known = *self.numbers.entry(shown).or_insert(came);
        let in_order = self.numbers.iter().all(|(&other, &stands_for)| {
            let strictly = shown >= FENCE && other >= FENCE;
            shown.cmp(&other) == came.cmp(&stands_for) || (!strictly && came == stands_for)
        });
        known == came && in_order
    }

    fn token_fits(&mut self, shown: &str, came: &str) -> bool {
        let known = self.tokens.entry(shown.into()).or_insert_with(|| came.into()) == came;
        known && self.tokens.values().filter(|other| *other == came).count() == 1
    }
}

/// A word of a line, by what may be different in another run.
#[derive(Debug, PartialEq)]
enum Word<'a> {
    /// A time or a fence.
    Varying(i64),
    /// Any other number.
    Number(i64),
    /// A token that the server made.
    Token(&'a str),
    /// The id of a stream's entry.
    StreamId,
    /// Anything else.
    Plain,
}

impl<'a> From<&'a str> for Word<'a> {
    fn from(word: &'a str) -> Self {
        let number = |text: &str| text.parse::<i64>().ok();
        if let Some(number) = number(word) {
            return if number < VARYING { Self::Number(number) } else { Self::Varying(number) };
        }
        if uuid::Uuid::try_parse(word).is_ok_and(|token| token.get_version_num() == 4) {
            return Self::Token(word);
        }
        match word.split_once('-') {
            Some((time, nth)) if number(time) >= Some(VARYING) && number(nth).is_some() => Self::StreamId,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &mut StandIns, shown: &str, came: &str) -> bool {
        let came: Vec<String> = came.lines().map(String::from).collect();
        values.fit(&shown.lines().collect::<Vec<_>>(), &came)
    }

    #[test]
    fn a_fence_stands_for_one_fence_and_keeps_its_place() {
        let mut values = StandIns::default();
        assert!(fit(&mut values, "2) (integer) 1700000000000001", "2) (integer) 1800000000000005"));
        assert!(fit(&mut values, "2) (integer) 1700000000000001", "2) (integer) 1800000000000005"));
        assert!(!fit(&mut values, "2) (integer) 1700000000000001", "2) (integer) 1800000000000006"));
        assert!(fit(&mut values, "2) (integer) 1700000000000009", "2) (integer) 1800000000000006"));
        assert!(!fit(&mut values, "2) (integer) 1700000000000010", "2) (integer) 1800000000000006"));
        assert!(!fit(&mut values, "2) (integer) 1700000000000000", "2) (integer) 1800000000000007"));
        assert!(!fit(&mut values, "2) (integer) 1700000000000020", "2) (integer) 1"));
        assert_eq!(values.call("ECHO 1700000000000001 7"), "ECHO 1800000000000005 7");
    }

    #[test]
    fn what_was_typed_comes_back_as_it_is() {
        let mut values = StandIns::default();
        assert_eq!(values.call("STOCK.ALTER sale START 4102444800000"), "STOCK.ALTER sale START 4102444800000");
        assert!(fit(&mut values, "(integer) 4102444800000", "(integer) 4102444800000"));
        assert!(!fit(&mut values, "(integer) 4102444800000", "(integer) 4102444800001"));
    }

    #[test]
    fn a_random_token_stands_for_one_token() {
        let (first, second) = (uuid::Uuid::new_v4().to_string(), uuid::Uuid::new_v4().to_string());
        let (third, fourth) = (uuid::Uuid::new_v4().to_string(), uuid::Uuid::new_v4().to_string());
        let mut values = StandIns::default();
        assert!(fit(&mut values, &format!("1) \"{first}\""), &format!("1) \"{second}\"")));
        assert!(!fit(&mut values, &format!("1) \"{first}\""), &format!("1) \"{third}\"")));
        assert!(!fit(&mut values, &format!("1) \"{fourth}\""), &format!("1) \"{second}\"")));
        assert!(!fit(&mut values, &format!("1) \"{third}\""), "1) \"me\""));
        assert_eq!(values.call(&format!("LOCK.RELEASE k {first}")), format!("LOCK.RELEASE k {second}"));
    }

    #[test]
    fn all_else_is_compared_to_the_letter_but_spans_of_time() {
        let mut values = StandIns::default();
        assert!(fit(&mut values, "3# \"lease-ms\" => (integer) 29990", "3# \"lease-ms\" => (integer) 29700"));
        assert!(!fit(&mut values, "3# \"lease-ms\" => (integer) 29990", "3# \"lease-ms\" => (integer) 9990"));
        assert!(!fit(&mut values, "3# \"wait-left-ms\" => (integer) -1", "3# \"wait-left-ms\" => (integer) 1"));
        assert!(!fit(&mut values, "3# \"limit\" => (integer) 2", "3# \"limit\" => (integer) 3"));
        assert!(!fit(&mut values, "1) \"me\"", "1) \"you\""));
        assert!(!fit(&mut values, "1) \"me\"", "1)  \"me\""));
        assert!(!fit(&mut values, "(nil)", "(integer) 1"));
        assert!(!fit(&mut values, "OK", "OK\nOK"));
        assert!(fit(&mut values, "1) \"1700000000000-0\"", "1) \"1800000000000-1\""));
        assert!(!fit(&mut values, "1) \"1700000000000-0\"", "1) \"x\""));
    }
}
