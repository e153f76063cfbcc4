//! Strings of the server, and a cursor over the arguments of a command.

use std::ops::RangeInclusive;
use std::{ptr, slice};

use super::api::{self, RawString};
use crate::core::decimal;
use crate::core::id::{Ident, is_id};
use crate::core::inline::Inline;
use crate::core::limits::LONGEST_SPAN;
use crate::core::time::{Millis, UnixMs};

/// One argument: a string of the server, valid for the length of the call.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    raw: *mut RawString,
    bytes: &'a [u8],
}

/// A string of the server, such as the name of a key: an argument of the running call, or a new one.
pub struct Name<'a> {
    arg: Arg<'a>,
    made: bool,
}

/// An identifier, and the argument that spells it.
pub type Spelled<'a> = (Ident, Arg<'a>);

/// The arguments that are still to be read.
///
/// Commands take them one after another, so no command counts positions. They end with [`Args::finish`], so that surplus arguments are an
/// error everywhere.
#[derive(Clone)]
pub struct Args<'a> {
    rest: slice::Iter<'a, *mut RawString>,
    /// The option that was read last, for errors.
    option: Option<Arg<'a>>,
}

/// Why an argument is refused. The module's own error type has the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgError {
    /// A missing argument.
    Syntax,
    /// An option that is unknown, repeated or in conflict with another, or a surplus argument: this word.
    Near(Box<[u8]>),
    /// An option without its value: this one.
    NoValue(Box<[u8]>),
    /// An option without another one that it needs.
    Needs {
        /// The option.
        option: &'static str,
        /// What it needs.
        other: &'static str,
    },
    /// Fewer arguments than were announced.
    TooFew {
        /// The name of the count in the documentation.
        name: &'static str,
        /// How many were announced.
        count: i64,
        /// How many there are.
        there: usize,
        /// How many arguments make up one of them.
        each: usize,
    },
    /// Not an integer, or out of range.
    Integer {
        /// The name of the argument in the documentation.
        name: &'static str,
        /// The allowed range.
        range: Range,
    },
    /// A string that is empty or too long for an identifier; its name in the documentation.
    Length(&'static str),
    /// Neither yes nor no; its name in the documentation.
    YesOrNo(&'static str),
}

/// The allowed range of an integer argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
}

impl Range {
    /// The range from `range.start()` to `range.end()`, both included.
    pub const fn new(range: RangeInclusive<i64>) -> Self {
        Self { min: *range.start(), max: *range.end() }
    }

    /// The range from 1 to `max`.
    pub const fn up_to(max: u64) -> Self {
        Self { min: 1, max: max.cast_signed() }
    }

    /// The range from 0 to `max`.
    pub const fn below(max: u64) -> Self {
        Self { min: 0, max: max.cast_signed() }
    }

    /// The range from `-max` to `max`.
    pub const fn either_way(max: u64) -> Self {
        Self { min: max.cast_signed().wrapping_neg(), max: max.cast_signed() }
    }

    /// Whether `value` lies in the range.
    pub fn contains(self, value: i64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

impl<'a> Arg<'a> {
    /// Wraps a string of the server.
    ///
    /// # Safety
    /// `raw` is a live string that is not changed for `'a`.
    pub(super) unsafe fn new(raw: *mut RawString) -> Self {
        let mut len = 0;
        // SAFETY: the string is live and unchanged for `'a`, so its buffer is too; the server sets `len` to its size.
        let bytes = unsafe {
            let ptr = api::string_ptr_len(raw, &raw mut len);
            slice::from_raw_parts(ptr.cast(), len)
        };
        Self { raw, bytes }
    }

    /// The server's pointer.
    pub(super) fn raw(self) -> *mut RawString {
        self.raw
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it spells an integer, as the server itself parses them.
    pub(super) fn is_integer(self) -> bool {
        parse_integer(self.bytes).is_some()
    }
}

impl<'a> Name<'a> {
    /// The name in `arg`.
    pub fn of(arg: Arg<'a>) -> Self {
        Self { arg, made: false }
    }

    /// The name in `bytes`, as a new server string.
    pub fn make(bytes: &[u8]) -> Self {
        // SAFETY: without a context the string belongs to us alone until `drop` frees it; the server copies the bytes.
        let arg = unsafe { Arg::new(api::create_string(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len())) };
        Self { arg, made: true }
    }

    /// Another handle to this name.
    pub fn again(&self) -> Self {
        if self.made { Self::make(self.bytes()) } else { Self::of(self.arg) }
    }

    /// The server's string.
    pub fn arg(&self) -> Arg<'_> {
        self.arg
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.arg.bytes()
    }
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        if self.made {
            // SAFETY: `make` created this string for this value alone, without a context.
            unsafe { api::free_string(ptr::null_mut(), self.arg.raw()) };
        }
    }
}

impl<'a> Args<'a> {
    /// The arguments after the command's name.
    ///
    /// # Safety
    /// `words` points to `count` live strings that are not changed for `'a`.
    pub(super) unsafe fn new(words: *mut *mut RawString, count: i32) -> Self {
        // SAFETY: the caller's promise.
        let mut args = unsafe { Self::all(words, count) };
        args.rest.next();
        args
    }

    /// All words after `loadmodule`; there is no command name among them.
    ///
    /// # Safety
    /// As for [`Args::new`].
    pub(super) unsafe fn all(words: *mut *mut RawString, count: i32) -> Self {
        let all: &'a [*mut RawString] = match usize::try_from(count) {
            // SAFETY: the caller vouches for the array.
            Ok(len) if !words.is_null() => unsafe { slice::from_raw_parts(words, len) },
            _ => &[],
        };
        Self { rest: all.iter(), option: None }
    }

    /// The next argument, if there is one.
    fn take(&mut self) -> Option<Arg<'a>> {
        // SAFETY: `new` was promised that every string of the array lives unchanged for `'a`.
        self.rest.next().map(|raw| unsafe { Arg::new(*raw) })
    }

    /// The next argument, unchanged.
    pub fn next(&mut self) -> Result<Arg<'a>, ArgError> {
        let missing = |option: Arg<'_>| ArgError::NoValue(option.bytes().into());
        self.take().ok_or_else(|| self.option.map_or(ArgError::Syntax, missing))
    }

    /// The next argument, which stays the next.
    pub fn peek(&self) -> Option<Arg<'a>> {
        self.clone().take()
    }

    /// Takes the next argument if it is `word`, in upper or lower case.
    pub fn take_word(&mut self, word: &[u8]) -> bool {
        let found = self.peek().is_some_and(|arg| arg.bytes().eq_ignore_ascii_case(word));
        if found {
            self.rest.next();
        }
        found
    }

    /// The server's strings of the arguments that are left.
    pub(super) fn raw(&self) -> &'a [*mut RawString] {
        self.rest.as_slice()
    }

    /// The arguments at these positions, counted from the command's name, each with its note.
    pub(super) fn at<N>(&self, positions: Vec<(i32, N)>) -> impl Iterator<Item = (Arg<'a>, N)> {
        positions.into_iter().filter_map(|(position, note)| {
            let mut args = self.clone();
            args.rest = self.raw().get(usize::try_from(position).ok()?.checked_sub(1)?..)?.iter();
            Some((args.take()?, note))
        })
    }

    /// Skips `count` arguments.
    pub fn skip(&mut self, count: usize) -> Result<(), ArgError> {
        (0..count).try_for_each(|_| self.next().map(drop))
    }

    /// The next argument in upper case, if there is one: the name of an option. A word that is longer than any option is cut short and
    /// matches none.
    pub fn keyword(&mut self) -> Option<Keyword> {
        let word = self.take()?;
        self.option = Some(word);
        let word = word.bytes();
        Keyword::new(word.get(..KEYWORD).unwrap_or(word)).map(Inline::to_ascii_uppercase)
    }

    /// The option that was read last is unknown, repeated, or in conflict with another.
    pub fn unknown(&self) -> ArgError {
        self.option.map_or(ArgError::Syntax, |option| ArgError::Near(option.bytes().into()))
    }

    /// The next argument as an identifier of 1 to 512 bytes; `name` is its name in an error.
    pub fn ident(&mut self, name: &'static str) -> Result<Ident, ArgError> {
        self.ident_and_word(name).map(|(ident, _)| ident)
    }

    /// The next argument as an identifier of 1 to 512 bytes, and as it is; `name` is its name in an error.
    pub fn ident_and_word(&mut self, name: &'static str) -> Result<Spelled<'a>, ArgError> {
        let word = self.next()?;
        let ident = Ident::new(word.bytes()).ok_or(ArgError::Length(name))?;
        Ok((ident, word))
    }

    /// The next argument as the bytes of an identifier, checked but not copied.
    pub fn ident_bytes(&mut self, name: &'static str) -> Result<&'a [u8], ArgError> {
        Some(self.next()?.bytes()).filter(|bytes| is_id(bytes)).ok_or(ArgError::Length(name))
    }

    /// The next argument as an integer in `range`; `name` is its name in an error.
    pub fn integer(&mut self, name: &'static str, range: Range) -> Result<i64, ArgError> {
        let value = parse_integer(self.next()?.bytes());
        value.filter(|value| range.contains(*value)).ok_or(ArgError::Integer { name, range })
    }

    /// The next argument as an integer in `range`, which has no negative values.
    pub fn unsigned(&mut self, name: &'static str, range: Range) -> Result<u64, ArgError> {
        let value = self.integer(name, range)?;
        u64::try_from(value).map_err(|_| ArgError::Integer { name, range })
    }

    /// The next argument as a positive span of time in units of `unit` milliseconds, which must end within the 64-bit milliseconds when it
    /// begins at `now`. Errors name a bound that does not change with the clock, and that is as good.
    pub fn span_from(&mut self, name: &'static str, unit: i64, now: UnixMs) -> Result<Millis, ArgError> {
        let longest = LONGEST_SPAN.0.checked_div(unit).unwrap_or(LONGEST_SPAN.0);
        let asked = parse_integer(self.next()?.bytes()).filter(|asked| *asked > 0);
        let span = asked.and_then(|asked| asked.checked_mul(unit)).map(Millis);
        let fits = span.filter(|span| now.plus(*span).is_some());
        fits.ok_or(ArgError::Integer { name, range: Range::new(1..=longest) })
    }

    /// The next argument as yes or no, in upper or lower case.
    pub fn yes_or_no(&mut self, name: &'static str) -> Result<bool, ArgError> {
        match self.next()?.bytes() {
            word if word.eq_ignore_ascii_case(b"yes") => Ok(true),
            word if word.eq_ignore_ascii_case(b"no") => Ok(false),
            _ => Err(ArgError::YesOrNo(name)),
        }
    }

    /// The next argument as a number of keys, then that many keys. The number is at least 1 and at most `most`, and not more than the
    /// remaining arguments.
    pub fn counted(&mut self, name: &'static str, most: u64) -> Result<Vec<Arg<'a>>, ArgError> {
        let count = self.count(name, most, 1)?;
        (0..count).map(|_| self.next()).collect()
    }

    /// The next argument as a number of groups of `each` arguments, which follow. It is at least 1 and at most `most`, and not more than the
    /// remaining arguments have room for.
    pub fn count(&mut self, name: &'static str, most: u64, each: usize) -> Result<u64, ArgError> {
        let there = self.len().saturating_sub(1).checked_div(each).unwrap_or_default();
        let groups = u64::try_from(there).unwrap_or(u64::MAX);
        let asked = parse_integer(self.next()?.bytes());
        match (asked, asked.and_then(|count| u64::try_from(count).ok())) {
            (_, Some(count @ 1..)) if count <= most.min(groups) => Ok(count),
            (Some(asked), Some(count @ 1..)) if count <= most => {
                Err(ArgError::TooFew { name, count: asked, there, each })
            }
            _ => Err(ArgError::Integer { name, range: Range::up_to(most.min(groups.max(1))) }),
        }
    }

    /// The only argument.
    pub fn only(mut self) -> Result<Arg<'a>, ArgError> {
        let arg = self.next()?;
        self.finish().map(|()| arg)
    }

    /// The last two arguments: a key, and the bytes of an identifier, which has this `name` in an error.
    pub fn key_and_ident(mut self, name: &'static str) -> Result<(Arg<'a>, &'a [u8]), ArgError> {
        let words = (self.next()?, self.ident_bytes(name)?);
        self.finish().map(|()| words)
    }

    /// The value of the option `word`, which may end a command; `None` without it.
    pub fn last_option<T, E: From<ArgError>>(
        mut self,
        word: &[u8],
        value: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let Some(found) = self.keyword() else { return Ok(None) };
        if found.text() != word {
            return Err(self.unknown().into());
        }
        let value = value(&mut self)?;
        self.finish()?;
        Ok(Some(value))
    }

    /// How many arguments are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns an error if any argument is left.
    pub fn finish(mut self) -> Result<(), ArgError> {
        self.take().map_or(Ok(()), |surplus| Err(ArgError::Near(surplus.bytes().into())))
    }
}

/// Longer than the longest option name of any command.
const KEYWORD: usize = 16;

/// An option's name in upper case.
pub type Keyword = Inline<KEYWORD>;

/// An integer in its canonical form, as the server itself parses them: no plus sign, no leading zeros, no spaces.
fn parse_integer(bytes: &[u8]) -> Option<i64> {
    match bytes.strip_prefix(b"-") {
        None => decimal::canonical(bytes)?.try_into().ok(),
        Some(digits) => {
            decimal::canonical(digits).filter(|value| *value > 0).and_then(|value| 0_i64.checked_sub_unsigned(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn integers_are_read_as_the_server_reads_them() {
        for (text, value) in [("0", 0), ("7", 7), ("-7", -7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
        }
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        for text in [
            "-9223372036854775809",
            "99999999999999999999",
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "1e3",
            "9223372036854775808",
            "１",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_integer(b"1\0"), None);
    }
}
