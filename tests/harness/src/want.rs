//! What a reply should look like, written as briefly as the reply reads.
//!
//! Texts, numbers and ranges stand for themselves, a tuple or a `Vec` for an array, and [`ANY`], [`INT`], [`TEXT`],
//! [`NULL`], [`OK`] and [`err`] for what cannot be known beforehand: `("tok", INT, 1..=5000)`.

use std::ops::RangeInclusive;

use super::Reply;

/// A pattern for one reply.
#[derive(Clone, Debug)]
pub enum Want {
    /// Anything that is no error.
    Any,
    /// Any integer.
    Int,
    /// Any string.
    Text,
    /// Null in any form.
    Null,
    /// `+OK`.
    Ok,
    /// An integer within bounds.
    Within(RangeInclusive<i64>),
    /// A one-line error that begins so.
    Error(String),
    /// An array (or set, or push) of exactly these.
    Items(Vec<Want>),
    /// Exactly this reply.
    Exactly(Reply),
}

/// Anything that is no error.
pub const ANY: Want = Want::Any;
/// Any integer.
pub const INT: Want = Want::Int;
/// Any string.
pub const TEXT: Want = Want::Text;
/// Null in any form.
pub const NULL: Want = Want::Null;
/// `+OK`.
pub const OK: Want = Want::Ok;

/// An error that begins with `start`.
pub fn err(start: &str) -> Want {
    Want::Error(start.into())
}

/// An array of any length, for lists that a tuple cannot write.
pub fn items<T: Into<Want>>(wants: impl IntoIterator<Item = T>) -> Want {
    Want::Items(wants.into_iter().map(Into::into).collect())
}

impl Want {
    /// Whether `reply` looks so.
    pub fn fits(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Self::Any, reply) => !reply.is_error(),
            (Self::Int, Reply::Int(_)) | (Self::Text, Reply::Bulk(_)) | (Self::Null, Reply::Nil(_)) => true,
            (Self::Ok, Reply::Simple(text)) => text == "OK",
            (Self::Within(range), Reply::Int(number)) => range.contains(number),
            (Self::Error(start), Reply::Error(text)) => text.starts_with(start.as_str()),
            (Self::Items(wants), Reply::Array(items) | Reply::Set(items) | Reply::Push(items)) => {
                wants.len() == items.len() && wants.iter().zip(items).all(|(want, item)| want.fits(item))
            }
            (Self::Exactly(exact), reply) => exact == reply,
            _ => false,
        }
    }
}

impl Reply {
    /// Fails the test unless the reply looks as wanted; gives it back for a closer look.
    #[track_caller]
    pub fn is(self, want: impl Into<Want>) -> Reply {
        let want = want.into();
        assert!(want.fits(&self), "wanted {want:?}\n   got {self:?}");
        self
    }
}

impl From<&str> for Want {
    fn from(text: &str) -> Self {
        Self::Exactly(Reply::Bulk(text.as_bytes().to_vec()))
    }
}

impl From<&String> for Want {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Want {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for Want {
    fn from(bytes: &[u8]) -> Self {
        Self::Exactly(Reply::Bulk(bytes.to_vec()))
    }
}

impl From<i64> for Want {
    fn from(number: i64) -> Self {
        Self::Exactly(Reply::Int(number))
    }
}

impl From<RangeInclusive<i64>> for Want {
    fn from(range: RangeInclusive<i64>) -> Self {
        Self::Within(range)
    }
}

impl From<Reply> for Want {
    fn from(reply: Reply) -> Self {
        Self::Exactly(reply)
    }
}

impl<T: Into<Want>> From<Vec<T>> for Want {
    fn from(wants: Vec<T>) -> Self {
        items(wants)
    }
}

impl From<()> for Want {
    fn from((): ()) -> Self {
        Self::Items(vec![])
    }
}

macro_rules! tuples_are_arrays {
    ($($element:ident)+) => {
        impl<$($element: Into<Want>),+> From<($($element,)+)> for Want {
            #[expect(non_snake_case, reason = "one name for the type and the element")]
            fn from(($($element,)+): ($($element,)+)) -> Self {
                Self::Items(vec![$($element.into()),+])
            }
        }
    };
}

tuples_are_arrays!(A);
tuples_are_arrays!(A B);
tuples_are_arrays!(A B C);
tuples_are_arrays!(A B C D);
tuples_are_arrays!(A B C D E);
tuples_are_arrays!(A B C D E F);
tuples_are_arrays!(A B C D E F G);
tuples_are_arrays!(A B C D E F G H);

#[cfg(test)]
mod tests {
    use super::super::Nil;
    use super::*;

    #[test]
    fn a_pattern_fits_what_it_says_and_nothing_else() {
        let grant = Reply::Array(vec![Reply::Bulk(b"tok".to_vec()), Reply::Int(7), Reply::Int(5000)]);
        for want in [("tok", INT, 5000).into(), (TEXT, 7, 1..=5000).into(), ANY, Want::from(grant.clone())] {
            assert!(want.fits(&grant), "{want:?}");
        }
        for want in [
            Want::from(("tok", INT)),
            ("tok", INT, 5001).into(),
            ("tok", TEXT, 5000).into(),
            (TEXT, 7, 1..=4999).into(),
            ().into(),
            items([7]),
            NULL,
            OK,
            err(""),
        ] {
            assert!(!want.fits(&grant), "{want:?}");
        }
        assert!(NULL.fits(&Reply::Nil(Nil::Array)) && NULL.fits(&Reply::Nil(Nil::Resp3)));
        assert!(err("ERR").fits(&Reply::Error("ERR no".into())) && !ANY.fits(&Reply::Error("ERR no".into())));
    }
}
