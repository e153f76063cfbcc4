//! Names of sales, orders and buyers are bytes; those of a database are text.

use std::fmt::Write;

/// The beginning of a name that is written in hex.
const HEX: &str = "\\x";
/// How much of the name of a stream is noted, in characters; each has at most four of the 1026 bytes of a column.
const NOTED: usize = 256;

/// How a name is stored: as it is, or as `\x` and its hex if it is no valid UTF-8, has a NUL or begins with `\x`. Two names are never
/// stored alike.
pub fn stored(name: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(name)
        && !text.contains('\0')
        && !text.starts_with(HEX)
    {
        return text.to_owned();
    }
    let mut hex = HEX.to_owned();
    for byte in name {
        // Writing into a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// How the name of a stream is noted: as one that is stored, and cut to what a column takes.
pub fn noted(stream: &[u8]) -> String {
    stored(stream).chars().take(NOTED).collect()
}

/// How a name is shown on a terminal.
pub fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().collect()
}

#[cfg(test)]
mod tests {
    use super::{noted, stored};

    #[test]
    fn names_stay_what_they_are_or_become_hex() {
        for (name, expected) in [
            (&b"mug"[..], "mug"),
            ("Tasse für Zoë 杯".as_bytes(), "Tasse für Zoë 杯"),
            (b"a\\x41", "a\\x41"),
            (b"a'b\"c\\ \n", "a'b\"c\\ \n"),
            (b"", ""),
            (b"\\x41", "\\x5c783431"),
            (b"a\0b", "\\x610062"),
            (b"\xff\x00", "\\xff00"),
        ] {
            assert_eq!(stored(name), expected);
        }
    }

    #[test]
    fn what_is_noted_fits_into_a_column() {
        assert_eq!(noted(b"events:1"), "events:1");
        assert_eq!(noted("\u{1f37a}".repeat(300).as_bytes()).len(), 1024);
    }
}
