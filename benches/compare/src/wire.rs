//! RESP as a load needs it: commands are appended to a buffer, and replies are looked at where they lie.

use std::str;

/// Appends a command as clients send it.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    header(out, b'*', words.len());
    for word in words {
        header(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn header(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// One whole reply, with the bytes that it came as.
#[derive(Clone, Copy)]
pub struct Reply<'a>(&'a [u8]);

impl<'a> Reply<'a> {
    /// The first reply in `bytes`, if all of it has come.
    pub fn first(bytes: &'a [u8]) -> Option<Self> {
        Some(Self(&bytes[..length(bytes)?]))
    }

    /// How many bytes it has.
    pub fn len(self) -> usize {
        self.0.len()
    }

    pub fn is_error(self) -> bool {
        self.0[0] == b'-'
    }

    pub fn is_null(self) -> bool {
        self.0.starts_with(b"$-1") || self.0.starts_with(b"*-1") || self.0[0] == b'_'
    }

    pub fn is_array(self) -> bool {
        self.0[0] == b'*' && !self.is_null()
    }

    pub fn is_ok(self) -> bool {
        self.0 == b"+OK\r\n"
    }

    /// The number, if it is one.
    pub fn int(self) -> Option<i64> {
        let digits = self.0.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
        str::from_utf8(digits).ok()?.parse().ok()
    }

    /// The string, if it is one.
    pub fn text(self) -> Option<&'a [u8]> {
        let (line, rest) = split_line(self.0)?;
        match self.0[0] {
            b'+' => Some(&line[1..]),
            b'$' if !self.is_null() => rest.strip_suffix(b"\r\n"),
            _ => None,
        }
    }

    /// An element, if it is an array that has so many.
    pub fn item(self, number: usize) -> Option<Reply<'a>> {
        if !self.is_array() {
            return None;
        }
        let (line, mut rest) = split_line(self.0)?;
        if number >= size(line)? {
            return None;
        }
        for _ in 0..number {
            rest = &rest[length(rest)?..];
        }
        Reply::first(rest)
    }

    /// The text of this reply, for the message about an unexpected reply.
    pub fn show(self) -> String {
        self.0.escape_ascii().to_string()
    }
}

/// The number of bytes of the first reply in `bytes`, if all of it has come.
fn length(bytes: &[u8]) -> Option<usize> {
    let (line, rest) = split_line(bytes)?;
    let head = bytes.len() - rest.len();
    let whole = match line.first()? {
        b'$' if line != b"$-1" => head + size(line)? + 2,
        b'*' if line != b"*-1" => {
            let mut end = head;
            for _ in 0..size(line)? {
                end += length(bytes.get(end..)?)?;
            }
            end
        }
        _ => head,
    };
    (bytes.len() >= whole).then_some(whole)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((bytes[..end].strip_suffix(b"\r")?, &bytes[end + 1..]))
}

/// The number behind the sign of a string or an array.
fn size(line: &[u8]) -> Option<usize> {
    str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}
