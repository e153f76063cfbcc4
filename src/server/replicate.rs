//! Sending effects to replicas and the AOF.
//!
//! A decision is made once, here, and its result is sent: a hold that begins or ends, a change of a sale. No other server's clock or queue
//! matters.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{self, RawString};
use super::args::{Arg, Name};
use super::ctx::{Ctx, Level};
use super::faults;

/// Sends the running command unchanged. Only for commands that are their own effect.
pub fn verbatim(ctx: &Ctx<'_>) {
    faults::point();
    // SAFETY: the context is that of a running command.
    unsafe { api::replicate_verbatim(ctx.raw()) };
}

/// Sends a message to the subscribers of the replicas; the AOF does not get it.
pub fn message(ctx: &Ctx<'_>, channel: &Name<'_>, text: &Name<'_>) {
    // SAFETY: a plain read of a pointer that was checked at load.
    let Some(replicate) = (unsafe { (&raw const raw::RedisModule_Replicate).read() }) else { return };
    // SAFETY: the context is valid. The format excludes the AOF and announces two server strings, which follow. The server refuses a
    // command that the operator has renamed; then the replicas hear nothing.
    unsafe { replicate(ctx.raw(), c"PUBLISH".as_ptr(), c"Ass".as_ptr(), channel.arg().raw(), text.arg().raw()) };
}

/// A word that the server gets as a string once, because a string for each effect would cost more than the rest of the word.
pub struct Fixed {
    text: &'static [u8],
    string: AtomicPtr<RawString>,
}

impl Fixed {
    /// The word `text`.
    pub const fn new(text: &'static [u8]) -> Self {
        Self { text, string: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its string, which is never freed.
    pub fn word(&'static self) -> Name<'static> {
        let mut string = self.string.load(Ordering::Relaxed);
        if string.is_null() {
            // SAFETY: the server copies the bytes. Without a context the string is ours.
            string = unsafe { api::create_string(ptr::null_mut(), self.text.as_ptr().cast(), self.text.len()) };
            self.string.store(string, Ordering::Relaxed);
        }
        // SAFETY: nobody frees or changes the string.
        Name::of(unsafe { Arg::new(string) })
    }
}

/// The most words of an effect besides its key.
const MOST: usize = 9;

/// One letter for the key and for each word: a server string.
const FORMAT: &CStr = c"ssssssssss";

/// Sends `COMMAND key word…`, with up to nine words.
///
/// Effects of one call stay together, because the server wraps several of them in a transaction.
pub fn effect(ctx: &Ctx<'_>, command: &CStr, key: &Name<'_>, words: &[Name<'_>]) {
    faults::point();
    // SAFETY: a plain read of a pointer that was checked at load.
    let Some(replicate) = (unsafe { (&raw const raw::RedisModule_Replicate).read() }) else { return };
    let word = |nth: usize| words.get(nth).map_or(ptr::null_mut(), |word| word.arg().raw());
    // The end of the format, so that it has a letter for the key and for each of the words.
    let format = MOST.checked_sub(words.len()).and_then(|unused| FORMAT.to_bytes_with_nul().get(unused..));
    let sent = format.map(|format| {
        // SAFETY: the context is valid. The format announces as many server strings as there are words, and one for the key. These come
        // first; the server takes references of its own to them, and does not look at the null pointers behind them.
        unsafe {
            replicate(
                ctx.raw(),
                command.as_ptr(),
                format.as_ptr().cast(),
                key.arg().raw(),
                word(0),
                word(1),
                word(2),
                word(3),
                word(4),
                word(5),
                word(6),
                word(7),
                word(8),
            )
        }
    });
    if sent != Some(api::OK) {
        ctx.log(Level::Warning, "lockstock: an effect could not be sent to the replicas and the AOF");
    }
}
