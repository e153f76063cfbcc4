//! What a member of a cluster may decide.

use std::ffi::CStr;

use redis_module::raw;

use super::call::{self, Reply};
use super::cell::MainCell;
use super::ctx::Ctx;
use super::key::Name;

/// How the server is asked whether it would serve a call on some keys.
///
/// A command need not ask: the server did, before it ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A command of our own that would change the keys, and that is not run: all that the server looks at before it would. Nobody can
    /// have renamed it.
    DryRun,
    /// A command of the server that reads the keys, and is run, on servers from before there was such a thing (Redis 7.0).
    Read(&'static CStr),
    /// None of these: the operator has renamed them.
    None,
}

static QUESTION: MainCell<Question> = MainCell::new(Question::None);

/// Commands that read any number of keys, and do nothing to them that matters.
const READING: [&CStr; 3] = [c"EXISTS", c"TOUCH", c"MGET"];

/// The command that would change keys: `LOCK.MRELEASE token numkeys key [key …]`.
const CHANGING: &CStr = c"LOCK.MRELEASE";

/// Finds out how this server can be asked. Called once, at load, when the commands are registered.
pub fn learn(ctx: &mut Ctx<'_>) -> Question {
    let question = if call::can_be_dry(ctx, CHANGING) {
        Question::DryRun
    } else {
        let known = READING.into_iter().find(|name| call::is_known(ctx, name));
        known.map_or(Question::None, Question::Read)
    };
    QUESTION.with(|slot| *slot = question);
    question
}

/// Whether this node serves the key `name` at this moment: the slot is its own and the cluster is up. Also false for a key that has been
/// moved already while its slot is on the way to another node.
pub fn serves(ctx: &mut Ctx<'_>, name: &Name<'_>) -> bool {
    ask(ctx, &[name.bytes()])
}

/// Whether this node may work on both keys at this moment. As [`serves`]; and also false while one of them is here and the other one
/// is not, and their slot is on the way to another node or from one; and for keys of two slots.
pub fn serves_both(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    ask(ctx, &[one, other])
}

/// Asks for one key or two.
fn ask(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> bool {
    // SAFETY: a plain read of a pointer that was seen set at load.
    let Some(call) = (unsafe { (&raw const raw::RedisModule_Call).read() }) else { return false };
    let (one, other) = match keys {
        [one] => (*one, &[][..]),
        [one, other] => (*one, *other),
        _ => return false,
    };
    let two = keys.len() > 1;
    match QUESTION.with(|question| *question).unwrap_or(Question::None) {
        Question::DryRun => {
            let (format, count) = if two { (c"Dccbb", c"2") } else { (c"Dccb", c"1") };
            // SAFETY: the context is valid; the format announces two C strings and then a buffer with its length for each key, which
            // follow, and arguments beyond the format are not read.
            unsafe {
                let answer = Reply::new(call(
                    ctx.raw(),
                    CHANGING.as_ptr(),
                    format.as_ptr(),
                    c"token".as_ptr(),
                    count.as_ptr(),
                    one.as_ptr(),
                    one.len(),
                    other.as_ptr(),
                    other.len(),
                ));
                // Null on most servers, and on Valkey 9.1 an empty reply, unless it is an error.
                answer.is_none_or(|answer| !answer.is_error())
            }
        }
        Question::Read(name) => {
            let format = if two { c"bb" } else { c"b" };
            // SAFETY: the context is valid; the format announces a buffer with its length for each key, which follow, and arguments
            // beyond the format are not read. Refused calls give null.
            unsafe {
                let (name, format) = (name.as_ptr(), format.as_ptr());
                Reply::new(call(ctx.raw(), name, format, one.as_ptr(), one.len(), other.as_ptr(), other.len()))
                    .is_some()
            }
        }
        Question::None => false,
    }
}
