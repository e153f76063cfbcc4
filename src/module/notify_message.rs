//! The messages about requests whose clients are not blocked: one JSON object each.

use std::collections::BTreeSet;

use crate::core::id::Ident;
use crate::core::lock::{Notice, WaitResult};
use crate::error::Error;

/// The part that every message about a request for `keys` has, for one key or several. `None` if a key or the token is not valid UTF-8.
pub fn about(keys: &[&[u8]], many: bool, token: &Ident) -> Option<Box<str>> {
    let mut text = String::new();
    text.push_str(if many { "\"keys\":[" } else { "\"key\":" });
    let mut named = BTreeSet::new();
    for (nth, key) in keys.iter().filter(|key| named.insert(**key)).enumerate() {
        if nth > 0 {
            text.push(',');
        }
        quote(&mut text, key)?;
    }
    text.push_str(if many { "],\"token\":" } else { ",\"token\":" });
    quote(&mut text, &token.text())?;
    Some(text.into())
}

/// The message with the outcome of a request.
pub fn message(notice: &Notice, outcome: &WaitResult) -> String {
    match outcome {
        WaitResult::Granted(grant) => {
            let (fence, lease) = (grant.fence.0, grant.lease.0);
            format!("{{\"event\":\"granted\",{},\"fence\":{fence},\"lease-ms\":{lease}}}", notice.about)
        }
        WaitResult::TimedOut => format!("{{\"event\":\"timeout\",{}}}", notice.about),
        WaitResult::Replaced => failure(notice, &Error::Replaced),
        WaitResult::Cancelled => failure(notice, &Error::Cancelled),
        WaitResult::Failed(error) => failure(notice, &Error::from(*error)),
    }
}

/// The message that a request has failed.
pub fn failure(notice: &Notice, error: &Error) -> String {
    let mut text = format!("{{\"event\":\"failed\",{},\"error\":", notice.about);
    // The text of an error is valid UTF-8.
    let _ = quote(&mut text, error.to_string().as_bytes());
    text.push('}');
    text
}

/// Appends `bytes` as a JSON string; `None` unless they are valid UTF-8.
fn quote(out: &mut String, bytes: &[u8]) -> Option<()> {
    let text = std::str::from_utf8(bytes).ok()?;
    out.push_str(&serde_json::to_string(text).ok()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fence::Fence;
    use crate::core::lock::{Grant, LockError};
    use crate::core::time::Millis;

    fn notice(keys: &[&[u8]], many: bool, token: &[u8]) -> Option<Notice> {
        let about = about(keys, many, &Ident::new(token).unwrap())?;
        Some(Notice { channel: (*b"news").into(), about })
    }

    #[test]
    fn each_outcome_is_one_object() {
        let one = notice(&[b"lock"], false, b"t").unwrap();
        let grant = Grant { token: Ident::new(b"t").unwrap(), fence: Fence(7), lease: Millis(50) };
        assert_eq!(
            message(&one, &WaitResult::Granted(grant)),
            r#"{"event":"granted","key":"lock","token":"t","fence":7,"lease-ms":50}"#
        );
        assert_eq!(message(&one, &WaitResult::TimedOut), r#"{"event":"timeout","key":"lock","token":"t"}"#);
        for (answer, code) in [
            (WaitResult::Replaced, "REPLACED "),
            (WaitResult::Cancelled, "CANCELLED "),
            (WaitResult::Failed(LockError::WrongType), "WRONGTYPE "),
        ] {
            let text = message(&one, &answer);
            let begin = format!(r#"{{"event":"failed","key":"lock","token":"t","error":"{code}"#);
            assert!(text.starts_with(&begin) && text.ends_with("\"}"), "{text}");
        }
        // Several keys as they were named, each once.
        let many = notice(&[b"b", b"a", b"b", b"a", b"c"], true, b"t").unwrap();
        assert_eq!(message(&many, &WaitResult::TimedOut), r#"{"event":"timeout","keys":["b","a","c"],"token":"t"}"#);
        assert_eq!(&*notice(&[b"a"], true, b"t").unwrap().about, r#""keys":["a"],"token":"t""#);
    }

    #[test]
    fn names_are_written_as_json_strings() {
        for (name, written) in [
            (&b"plain %s %n"[..], r"plain %s %n"),
            (b"quote \" and \\ and /", r#"quote \" and \\ and /"#),
            (b"\n\r\t\x08\x0c\x00\x1f\x7f", "\\n\\r\\t\\b\\f\\u0000\\u001f\u{7f}"),
            ("Schloß 🔒 \u{2028}".as_bytes(), "Schloß 🔒 \u{2028}"),
        ] {
            let about = notice(&[name], false, name).unwrap().about;
            assert_eq!(&*about, format!(r#""key":"{written}","token":"{written}""#));
            let read: serde_json::Value = serde_json::from_str(&format!("{{{about}}}")).unwrap();
            assert_eq!(
                (read["key"].as_str(), read["token"].as_str()),
                (std::str::from_utf8(name).ok(), read["key"].as_str())
            );
        }
        for name in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"a\xf4\x90\x80\x80"] {
            assert!(notice(&[name], false, b"t").is_none() && notice(&[b"k"], false, name).is_none());
            assert!(notice(&[b"k", name], true, b"t").is_none());
        }
    }
}
