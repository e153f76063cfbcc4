//! Reading RESP2 and RESP3 from bytes that may not all have arrived yet.

use super::{Nil, Reply};

/// Bytes that are no RESP, with what was wrong.
#[derive(Debug, PartialEq)]
pub struct Malformed(pub String);

/// The first reply in `bytes` and the number of bytes it took, or `None` while it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    Ok(cursor.reply()?.map(|reply| (reply, cursor.at)))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Leaves the function when the input ends in the middle of something.
macro_rules! whole {
    ($part:expr) => {
        match $part? {
            Some(part) => part,
            None => return Ok(None),
        }
    };
}

impl<'a> Cursor<'a> {
    fn reply(&mut self) -> Result<Option<Reply>, Malformed> {
        let line = whole!(self.line());
        let Some((&kind, rest)) = line.split_first() else {
            return Err(Malformed("an empty line".into()));
        };
        let text = String::from_utf8_lossy(rest).into_owned();
        Ok(Some(match kind {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Int(number(&text)?),
            b'(' => Reply::Big(text),
            b',' => Reply::Double(text.parse().map_err(|_| Malformed(format!("no double: {text}")))?),
            b'_' if rest.is_empty() => Reply::Nil(Nil::Resp3),
            b'#' if text == "t" || text == "f" => Reply::Bool(text == "t"),
            b'$' if text == "-1" => Reply::Nil(Nil::Bulk),
            b'$' => Reply::Bulk(whole!(self.blob(&text))),
            b'=' => {
                let blob = whole!(self.blob(&text));
                match (blob.get(..3), blob.get(3), blob.get(4..)) {
                    (Some(format), Some(b':'), Some(text)) => {
                        Reply::Verbatim(String::from_utf8_lossy(format).into_owned(), text.to_vec())
                    }
                    _ => return Err(Malformed("a verbatim string without its format".into())),
                }
            }
            b'*' if text == "-1" => Reply::Nil(Nil::Array),
            b'*' => Reply::Array(whole!(self.replies(length(&text)?))),
            b'~' => Reply::Set(whole!(self.replies(length(&text)?))),
            b'>' => Reply::Push(whole!(self.replies(length(&text)?))),
            b'%' => {
                let flat = whole!(self.replies(length(&text)? * 2));
                Reply::Map(flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
            _ => return Err(Malformed(format!("no reply starts with {:?}", line.escape_ascii().to_string()))),
        }))
    }

    fn line(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let Some(line) = rest[..end].strip_suffix(b"\r") else {
            return Err(Malformed("a line that ends without a carriage return".into()));
        };
        self.at += end + 1;
        Ok(Some(line))
    }

    fn blob(&mut self, size: &str) -> Result<Option<Vec<u8>>, Malformed> {
        let size = length(size)?;
        let rest = &self.bytes[self.at..];
        if rest.len() < size + 2 {
            return Ok(None);
        }
        if &rest[size..size + 2] != b"\r\n" {
            return Err(Malformed(format!("a string longer than the {size} bytes it declared")));
        }
        self.at += size + 2;
        Ok(Some(rest[..size].to_vec()))
    }

    fn replies(&mut self, count: usize) -> Result<Option<Vec<Reply>>, Malformed> {
        let mut replies = Vec::new();
        for _ in 0..count {
            replies.push(whole!(self.reply()));
        }
        Ok(Some(replies))
    }
}

fn number(text: &str) -> Result<i64, Malformed> {
    text.parse().map_err(|_| Malformed(format!("no integer: {text:?}")))
}

fn length(text: &str) -> Result<usize, Malformed> {
    text.parse().map_err(|_| Malformed(format!("no length: {text:?}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Words;
    use super::*;

    fn whole(bytes: &[u8]) -> Reply {
        let (reply, used) = parse(bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        reply
    }

    #[test]
    fn every_form_is_told_apart() {
        assert_eq!(whole(b"+OK\r\n"), Reply::Simple("OK".into()));
        assert_eq!(whole(b"-ERR no\r\n"), Reply::Error("ERR no".into()));
        assert_eq!(whole(b":-9223372036854775808\r\n"), Reply::Int(i64::MIN));
        assert_eq!(whole(b"$4\r\na\r\nb\r\n"), Reply::Bulk(b"a\r\nb".to_vec()));
        assert_eq!(whole(b"$0\r\n\r\n"), Reply::Bulk(vec![]));
        assert_eq!(whole(b"$-1\r\n"), Reply::Nil(Nil::Bulk));
        assert_eq!(whole(b"*-1\r\n"), Reply::Nil(Nil::Array));
        assert_eq!(whole(b"_\r\n"), Reply::Nil(Nil::Resp3));
        assert_eq!(whole(b"*0\r\n"), Reply::Array(vec![]));
        assert_eq!(whole(b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n").at(1).at(0), &Reply::Bulk(b"x".to_vec()));
        assert_eq!(whole(b"%1\r\n+k\r\n:7\r\n").field("k"), Reply::Int(7));
        assert_eq!(whole(b"*2\r\n+k\r\n:7\r\n").field("k"), Reply::Int(7));
        assert_eq!(whole(b"~1\r\n:1\r\n"), Reply::Set(vec![Reply::Int(1)]));
        assert_eq!(whole(b">1\r\n:1\r\n"), Reply::Push(vec![Reply::Int(1)]));
        assert_eq!(whole(b"#f\r\n"), Reply::Bool(false));
        assert_eq!(whole(b",1.5\r\n"), Reply::Double(1.5));
        assert_eq!(whole(b"(12345678901234567890\r\n"), Reply::Big("12345678901234567890".into()));
        assert_eq!(whole(b"=7\r\ntxt:abc\r\n"), Reply::Verbatim("txt".into(), b"abc".to_vec()));
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"OK\r\n",
            b"+OK\n",
            b":1x\r\n",
            b"$-2\r\n",
            b"$1\r\nabc\r\n",
            b"*x\r\n",
            b"#x\r\n",
            b"=2\r\nab\r\n",
            b"_1\r\n",
        ] {
            assert!(parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn words_come_back_from_the_wire_and_no_prefix_of_them_does(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..5),
        ) {
            let wire = Words(words.clone()).wire();
            let (reply, used) = parse(&wire).unwrap().unwrap();
            prop_assert_eq!(used, wire.len());
            prop_assert_eq!(reply, Reply::Array(words.into_iter().map(Reply::Bulk).collect()));
            for cut in 0..wire.len() {
                prop_assert_eq!(parse(&wire[..cut]), Ok(None));
            }
        }
    }
}
