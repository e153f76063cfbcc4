//! Everything that can be wrong with a call, one fault at a time.

use crate::support::forms::{Form, Kind};

/// A word of a call.
pub type Word = Vec<u8>;

/// What is wrong with a call.
#[derive(Clone, Debug)]
pub enum Fault {
    Arity,
    Syntax,
    /// An integer out of range, with what the error has to name: the argument and the bounds that are known.
    Integer(String, Vec<i64>),
    /// An identifier that is empty or too long.
    Length(String),
    /// None of the words that the argument takes; the error has to name both.
    Choice(String, &'static [&'static str]),
}

impl Fault {
    /// Whether the error says what is wrong.
    pub fn is_named_in(&self, line: &str) -> bool {
        let names = |name: &str| line.to_lowercase().contains(&name.to_lowercase());
        match self {
            Self::Arity => line.starts_with("ERR wrong number of arguments"),
            Self::Syntax => line.starts_with("ERR syntax error"),
            Self::Integer(name, bounds) => {
                line.starts_with("ERR ") && names(name) && bounds.iter().all(|bound| names(&bound.to_string()))
            }
            Self::Choice(name, words) => {
                line.starts_with("ERR ") && names(name) && words.iter().all(|word| names(word))
            }
            Self::Length(name) => line.starts_with("ERR ") && names(name) && names("512"),
        }
    }
}

/// Everything that can be wrong with a call of this form on `key`, one fault at a time.
pub fn faults(form: &Form, key: &str) -> Vec<(Vec<Word>, Fault)> {
    let whole = form.shortest(key);
    let with = |more: &[Word]| [whole.clone(), more.to_vec()].concat();
    let mut calls = vec![];
    for count in 1..whole.len() {
        calls.push((whole[..count].to_vec(), Fault::Arity));
    }
    for (place, (name, kind)) in form.positional.iter().enumerate() {
        for (value, fault) in wrong_values(name, *kind) {
            let mut words = whole.clone();
            words[place + 1] = value;
            calls.push((words, fault));
        }
    }
    // Without options the server itself counts the words.
    let surplus = if form.options.is_empty() { Fault::Arity } else { Fault::Syntax };
    for word in strange_words() {
        calls.push((with(&[word]), surplus.clone()));
    }
    calls.push((with(&vec![b"x".to_vec(); 10_000]), surplus));
    for (name, kind) in form.options {
        let option = form.option(name);
        let twice = [option.clone(), option.clone()].concat();
        calls.push((with(&twice), Fault::Syntax));
        if let Kind::FlagBeside(other) = kind {
            calls.push((with(&option), Fault::Syntax));
            calls.push((with(&[twice, form.option(other)].concat()), Fault::Syntax));
        }
        if let Kind::TextBeside(others) = kind {
            for one in *others {
                calls.push((with(&[option.clone(), form.option(one)].concat()), Fault::Syntax));
            }
        }
        if matches!(kind, Kind::Flag | Kind::FlagBeside(_)) {
            continue;
        }
        calls.push((with(&option[..1]), Fault::Syntax));
        for (value, fault) in wrong_values(name, *kind) {
            calls.push((with(&[option[0].clone(), value]), fault));
        }
    }
    for pair in form.exclusive {
        for [first, second] in [[pair[0], pair[1]], [pair[1], pair[0]]] {
            calls.push((with(&[form.option(first), form.option(second)].concat()), Fault::Syntax));
        }
    }
    calls
}

/// Words that are the name of nothing, and would do harm where text is taken for a C string, a format or UTF-8.
fn strange_words() -> Vec<Word> {
    vec![
        b"nonsense".to_vec(),
        vec![],
        b"\0".to_vec(),
        b"PX\0".to_vec(),
        b"%s%s%s%n".to_vec(),
        b"\xff\xfe".to_vec(),
        b"line\r\n+OK\r\n".to_vec(),
        vec![b'x'; 513],
        vec![b'x'; 100_000],
    ]
}

/// Values that an argument of this kind does not take.
fn wrong_values(name: &str, kind: Kind) -> Vec<(Word, Fault)> {
    match kind {
        Kind::Key | Kind::Flag | Kind::FlagBeside(_) | Kind::TextBeside(_) => vec![],
        Kind::Word => strange_words().into_iter().map(|word| (word, Fault::Syntax)).collect(),
        Kind::OneOf(words) => {
            let near = [format!("{}x", words[0]), words[0][1..].into(), words.join(" ")];
            let near = near.into_iter().map(String::into_bytes);
            strange_words().into_iter().chain(near).map(|word| (word, Fault::Choice(name.into(), words))).collect()
        }
        Kind::Ident => {
            let fault = Fault::Length(name.into());
            [vec![], vec![b'x'; 513], vec![0; 513], b"%n".repeat(50_000)].map(|value| (value, fault.clone())).into()
        }
        Kind::Number(least) => {
            // The largest number may depend on the clock; the numbers below are out of range at any time.
            let fault = Fault::Integer(name.into(), vec![least]);
            let below = (least - 1).to_string();
            let numbers = ["-9223372036854775808", "9223372036854775808", "99999999999999999999", &below];
            let texts = ["", "-", "abc", "1.5", "1e3", "0x10", "+5", "05", " 5", "5 ", "-0", "5x", "%s%n", "١"];
            let texts = numbers.iter().chain(&texts).map(|text| text.as_bytes().to_vec());
            let bytes = [b"5\0".to_vec(), b"\0".to_vec(), b"\xff".to_vec(), b"5\r\n".to_vec(), vec![b'1'; 513]];
            texts.chain(bytes).map(|value| (value, fault.clone())).collect()
        }
    }
}
