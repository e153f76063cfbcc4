//! A command as a list of words: what a client sends, an AOF holds and a replica receives.

use std::fmt;

/// The words of one command, binary-safe.
///
/// A text is split at white space, so `"SET k v"` is a command. Where a word holds spaces or raw bytes, give a list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Words(pub Vec<Vec<u8>>);

impl Words {
    /// The command's name in upper case, for telling commands apart.
    pub fn name(&self) -> String {
        self.0.first().map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default()
    }

    /// The command as it crosses the wire.
    pub fn wire(&self) -> Vec<u8> {
        let mut wire = format!("*{}\r\n", self.0.len()).into_bytes();
        for word in &self.0 {
            wire.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            wire.extend_from_slice(word);
            wire.extend_from_slice(b"\r\n");
        }
        wire
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, word) in self.0.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            // A long word would bury the rest of the message.
            match word.get(..80) {
                Some(start) if word.len() > 100 => {
                    write!(f, "{space}{}…({} bytes)", start.escape_ascii(), word.len())?;
                }
                _ if word.is_empty() => write!(f, "{space}\"\"")?,
                _ => write!(f, "{space}{}", word.escape_ascii())?,
            }
        }
        Ok(())
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        text.split_whitespace().collect::<Vec<_>>().into()
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Words {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Words> for Words {
    fn from(words: &Words) -> Self {
        words.clone()
    }
}

impl<T: AsRef<[u8]>> From<&[T]> for Words {
    fn from(words: &[T]) -> Self {
        Self(words.iter().map(|word| word.as_ref().to_vec()).collect())
    }
}

impl<T: AsRef<[u8]>> From<Vec<T>> for Words {
    fn from(words: Vec<T>) -> Self {
        words.as_slice().into()
    }
}

impl<T: AsRef<[u8]>> From<&Vec<T>> for Words {
    fn from(words: &Vec<T>) -> Self {
        words.as_slice().into()
    }
}

impl<T: AsRef<[u8]>, const N: usize> From<[T; N]> for Words {
    fn from(words: [T; N]) -> Self {
        words.as_slice().into()
    }
}

impl<T: AsRef<[u8]>, const N: usize> From<&[T; N]> for Words {
    fn from(words: &[T; N]) -> Self {
        words.as_slice().into()
    }
}

impl PartialEq<&str> for Words {
    fn eq(&self, text: &&str) -> bool {
        self.0.iter().map(Vec::as_slice).eq(text.split_whitespace().map(str::as_bytes))
    }
}
