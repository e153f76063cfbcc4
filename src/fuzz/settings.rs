//! Settings, as they stand behind `loadmodule`.

use crate::config;

/// Words with a blank between two of them. Either each setting is in its range afterwards, or the error says why not.
pub fn settings(data: &[u8]) {
    let words: Vec<&[u8]> = data.split(|byte| *byte == b' ').collect();
    let before = config::values();
    match config::read(&words) {
        Ok(()) => assert!(words.len().is_multiple_of(2)),
        Err(why) => assert!(!why.is_empty() && why.is_ascii(), "{why:?} is no line for a log"),
    }
    for (setting, was) in config::values().into_iter().zip(before) {
        assert!(setting.1.contains(setting.0), "{setting:?} is out of range; it was {was:?}");
    }
}
