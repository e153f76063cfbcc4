//! The commands as the contract writes them down, for tests that go through all of them.

/// One command: its words and options.
pub struct Form {
    /// The name that clients send.
    pub name: &'static str,
    /// What follows the name, in this order. The first is always the key.
    pub positional: &'static [Slot],
    /// What may follow in any order.
    pub options: &'static [(&'static str, Kind)],
    /// Options of which a call has at most one.
    pub exclusive: &'static [[&'static str; 2]],
    /// Whether it only looks.
    pub reads: bool,
    /// The categories of ACL that it is in, besides `all`.
    pub acl: &'static [&'static str],
}

/// A positional argument: its name in errors, and what it takes.
pub type Slot = (&'static str, Kind);

/// What an argument takes.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// The name of a key.
    Key,
    /// A token, id, buyer or ref.
    Ident,
    /// An integer that is at least this.
    Number(i64),
    /// Nothing: the option stands alone.
    Flag,
    /// Nothing, but the option stands only where this one stands, too.
    FlagBeside(&'static str),
    /// Any text, but only where all of these stand, too.
    TextBeside(&'static [&'static str]),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The argument's own name, which has to be there; the next argument is its value.
    Word,
}

/// The largest integer that every client reads exactly: the most that units and permits can be.
pub const MOST: i64 = (1 << 53) - 1;

use Kind::{Flag, FlagBeside, Ident, Key, Number, OneOf, TextBeside, Word};

const KEY: Slot = ("key", Key);
const ID: Slot = ("id", Ident);
const TOKEN: Slot = ("token", Ident);

/// Every command of the module that clients send.
pub const FORMS: &[Form] = &[
    Form {
        name: "LOCK.ACQUIRE",
        positional: &[KEY],
        options: &[
            ("TOKEN", Ident),
            ("PX", Number(1)),
            ("EX", Number(1)),
            ("SHARED", Flag),
            ("LIMIT", Number(1)),
            ("WAIT", Number(0)),
            ("NOTIFY", TextBeside(&["WAIT", "TOKEN"])),
            ("SESSION", Flag),
        ],
        exclusive: &[["PX", "EX"], ["SHARED", "LIMIT"]],
        reads: false,
        acl: &["write", "slow", "blocking"],
    },
    Form {
        name: "LOCK.RELEASE",
        positional: &[KEY, TOKEN],
        options: &[("FENCE", Number(1))],
        exclusive: &[],
        reads: false,
        acl: &["write", "fast"],
    },
    Form {
        name: "LOCK.EXTEND",
        positional: &[KEY, TOKEN],
        options: &[("PX", Number(1)), ("EX", Number(1)), ("FENCE", Number(1))],
        exclusive: &[["PX", "EX"]],
        reads: false,
        acl: &["write", "fast"],
    },
    Form { name: "LOCK.INFO", positional: &[KEY], options: &[], exclusive: &[], reads: true, acl: &["read", "slow"] },
    Form {
        name: "STOCK.CREATE",
        positional: &[KEY, ("total", Number(0))],
        options: &[
            ("LIMIT", Number(1)),
            ("START", Number(0)),
            ("END", Number(0)),
            ("REBUY", Flag),
            ("STREAM", Key),
            ("DEADLINES", FlagBeside("STREAM")),
        ],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.DECR_ONCE",
        positional: &[KEY, ID],
        options: &[("QTY", Number(1)), ("BUYER", Ident), ("HOLD", Number(1)), ("REF", Ident), ("WAITLIST", Flag)],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.ADJUST",
        positional: &[KEY, ("delta", Number(-MOST))],
        options: &[("ID", Ident)],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.ALTER",
        positional: &[KEY],
        options: &[("LIMIT", Number(0)), ("START", Number(0)), ("END", Number(0)), ("REBUY", OneOf(&["yes", "no"]))],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.CONFIRM",
        positional: &[KEY, ID],
        options: &[("KEEP", Number(1))],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.CANCEL",
        positional: &[KEY, ID],
        options: &[("KEEP", Number(1))],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.EXTEND",
        positional: &[KEY, ID, ("PX", Word), ("PX", Number(1))],
        options: &[],
        exclusive: &[],
        reads: false,
        acl: &["write"],
    },
    Form {
        name: "STOCK.BUYER",
        positional: &[KEY, ("buyer", Ident)],
        options: &[],
        exclusive: &[],
        reads: true,
        acl: &["read"],
    },
    Form {
        name: "STOCK.ORDERS",
        positional: &[KEY, ("cursor", Number(0))],
        options: &[("COUNT", Number(1)), ("STATE", OneOf(&["held", "sold", "cancelled", "expired", "waiting"]))],
        exclusive: &[],
        reads: true,
        acl: &["read"],
    },
    Form { name: "STOCK.ORDER", positional: &[KEY, ID], options: &[], exclusive: &[], reads: true, acl: &["read"] },
    Form { name: "STOCK.INFO", positional: &[KEY], options: &[], exclusive: &[], reads: true, acl: &["read"] },
];

impl Form {
    /// The command's description; naming one that is not there fails the test.
    #[track_caller]
    pub fn of(name: &str) -> &'static Self {
        FORMS.iter().find(|form| form.name == name).unwrap_or_else(|| panic!("no form of {name}"))
    }

    /// The command's arity as the server counts it: with the name, negative for "at least".
    pub fn arity(&self) -> i64 {
        let words = i64::try_from(self.positional.len() + 1).expect("few words");
        if self.options.is_empty() { words } else { -words }
    }

    /// The shortest correct call on `key`.
    pub fn shortest(&self, key: &str) -> Vec<Vec<u8>> {
        let mut words = vec![self.name.into()];
        words.extend(self.positional.iter().map(|(name, kind)| match kind {
            Word => (*name).into(),
            kind => kind.sample(key),
        }));
        words
    }

    /// An option with a fitting value.
    pub fn option(&self, name: &str) -> Vec<Vec<u8>> {
        let (name, kind) = self.options.iter().find(|(found, _)| *found == name).expect("an option of this command");
        match kind {
            Flag | FlagBeside(_) => vec![(*name).into()],
            kind => vec![(*name).into(), kind.sample("stream")],
        }
    }
}

impl Kind {
    /// A value that fits; a key is called `key`.
    fn sample(self, key: &str) -> Vec<u8> {
        match self {
            Key => key.into(),
            Ident | TextBeside(_) => b"me".into(),
            OneOf(words) => words[0].into(),
            Number(_) | Flag | FlagBeside(_) | Word => b"60000".into(),
        }
    }
}
