//! What a server answers, in RESP2 or RESP3, with nothing about its form lost.

use std::collections::BTreeMap;
use std::fmt;

/// One reply.
#[derive(Clone, PartialEq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR …`, without the minus sign.
    Error(String),
    /// `:1`
    Int(i64),
    /// `$3`
    Bulk(Vec<u8>),
    /// Nothing, in one of its three forms.
    Nil(Nil),
    /// `*2`
    Array(Vec<Reply>),
    /// `%1`, RESP3
    Map(Vec<(Reply, Reply)>),
    /// `~1`, RESP3
    Set(Vec<Reply>),
    /// `>1`, RESP3
    Push(Vec<Reply>),
    /// `#t`, RESP3
    Bool(bool),
    /// `,1.5`, RESP3
    Double(f64),
    /// `(123`, RESP3
    Big(String),
    /// `=7` with its three-letter format, RESP3
    Verbatim(String, Vec<u8>),
}

/// The forms of null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nil {
    /// `$-1`, RESP2
    Bulk,
    /// `*-1`, RESP2
    Array,
    /// `_`, RESP3
    Resp3,
}

impl Reply {
    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// The integer; anything else fails the test.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("wanted an integer, got {other:?}"),
        }
    }

    /// The bytes of a string of any kind; anything else fails the test.
    #[track_caller]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bulk(bytes) | Self::Verbatim(_, bytes) => bytes.clone(),
            Self::Simple(text) => text.clone().into_bytes(),
            other => panic!("wanted a string, got {other:?}"),
        }
    }

    /// The text of a string of any kind; anything else fails the test.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The elements of an array, set or push; anything else fails the test.
    #[track_caller]
    pub fn items(&self) -> &[Reply] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("wanted an array, got {other:?}"),
        }
    }

    /// Element `index` of an array.
    #[track_caller]
    pub fn at(&self, index: usize) -> &Reply {
        self.items().get(index).unwrap_or_else(|| panic!("no element {index} in {self:?}"))
    }

    /// The fields of a map (RESP3) or of a flat field/value array (RESP2).
    #[track_caller]
    pub fn fields(&self) -> BTreeMap<String, Reply> {
        match self {
            Self::Map(pairs) => pairs.iter().map(|(field, value)| (field.text(), value.clone())).collect(),
            Self::Array(items) => {
                assert!(items.len() % 2 == 0, "a field without a value in {self:?}");
                items.chunks(2).map(|pair| (pair[0].text(), pair[1].clone())).collect()
            }
            other => panic!("wanted a map, got {other:?}"),
        }
    }

    /// One field of a map or flat array.
    #[track_caller]
    pub fn field(&self, name: &str) -> Reply {
        self.fields().remove(name).unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Nil(Nil::Bulk) => write!(f, "null($-1)"),
            Self::Nil(Nil::Array) => write!(f, "null(*-1)"),
            Self::Nil(Nil::Resp3) => write!(f, "null(_)"),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(field, value)| (field, value))).finish(),
            Self::Set(items) => f.debug_set().entries(items).finish(),
            Self::Push(items) => {
                write!(f, ">")?;
                f.debug_list().entries(items).finish()
            }
            Self::Bool(yes) => write!(f, "#{yes}"),
            Self::Double(number) => write!(f, ",{number}"),
            Self::Big(digits) => write!(f, "({digits}"),
            Self::Verbatim(format, bytes) => write!(f, "={format}:\"{}\"", bytes.escape_ascii()),
        }
    }
}
