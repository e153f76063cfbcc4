//! Commands of the server that the module runs itself. There is one way to run one, [`call`].

use std::ffi::CStr;
use std::ptr::NonNull;
use std::{io, slice};

use redis_module::raw;
use smallvec::SmallVec;

use super::api::{self, RawReply, RawString};
use super::ctx::Ctx;
use super::key::Name;

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As the module itself, and nobody else is told of it. A refusal by the server is no reply.
    Quietly,
    /// Not at all: the server says whether it would refuse.
    Dry,
    /// So that replicas and the AOF get it. A refusal is a reply.
    Replicated(RunAs),
}

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The client's, whose ACL rules apply; where another module calls for no user, that module's.
    Client,
    /// The module's own.
    Module,
}

impl How {
    /// What the server calls it: `v` is for an array of words, `!` replicates, `E` gives refusals as replies, `C` asks the client's ACL.
    fn format(self) -> &'static CStr {
        match self {
            Self::Quietly => c"v",
            Self::Dry => c"Dv",
            Self::Replicated(RunAs::Module) => c"!Ev",
            Self::Replicated(RunAs::Client) => c"!ECv",
        }
    }
}

/// Runs `command` with `words`. `None` if the server did not run it; the reason is the last error of the system then.
pub(super) fn call(ctx: &mut Ctx<'_>, command: &CStr, how: How, words: &[&[u8]]) -> Option<Reply> {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    let words: SmallVec<[Name<'_>; 4]> = words.iter().map(|word| Name::make(word)).collect();
    let strings: SmallVec<[*mut RawString; 4]> = words.iter().map(|word| word.arg().raw()).collect();
    // SAFETY: the context is valid. The format announces an array of strings and its length, which follow; the server keeps its own references
    // to the strings. The reply is nobody else's.
    let reply = unsafe { call(ctx.raw(), command.as_ptr(), how.format().as_ptr(), strings.as_ptr(), strings.len()) };
    NonNull::new(reply).map(Reply)
}

/// Whether the server has the command `name`, which takes arguments: the operator may have renamed or disabled it. It is called without
/// any, which the server refuses before it runs.
pub fn is_known(ctx: &mut Ctx<'_>, name: &CStr) -> bool {
    /// No such command, in the words of the C library.
    const ENOENT: i32 = 2;
    call(ctx, name, How::Quietly, &[]).is_some() || io::Error::last_os_error().raw_os_error() != Some(ENOENT)
}

/// Whether this server can say what it would do with a call without doing it. It is asked for a call of our own command `name`
/// without its arguments: one that can gives an error, one that cannot does not understand the question.
pub(super) fn can_be_dry(ctx: &mut Ctx<'_>, name: &CStr) -> bool {
    call(ctx, name, How::Dry, &[]).is_some()
}

/// A text in a reply. Most are short.
pub type Text = SmallVec<[u8; 32]>;

/// An answer of the server, until it is dropped.
pub(super) struct Reply(NonNull<RawReply>);

impl Reply {
    /// Whether it is an error.
    pub(super) fn is_error(&self) -> bool {
        // SAFETY: the reply is ours until the drop.
        unsafe { api::call_reply_type(self.0.as_ptr()) == api::int(raw::REDISMODULE_REPLY_ERROR) }
    }

    /// A string, or the text of an error; empty for anything else.
    pub(super) fn text(&self) -> Text {
        // SAFETY: as above.
        unsafe { text(self.0.as_ptr()) }
    }

    /// An integer; below zero for anything else.
    pub(super) fn integer(&self) -> i64 {
        // SAFETY: as above.
        unsafe { api::call_reply_integer(self.0.as_ptr()) }
    }

    /// A string in an array.
    pub(super) fn element(&self, index: usize) -> Option<Text> {
        // SAFETY: as above; what is in the reply is freed with it.
        unsafe {
            let element = api::call_reply_array_element(self.0.as_ptr(), index);
            (!element.is_null()).then(|| text(element))
        }
    }

    /// The strings of an array in an array.
    pub(super) fn elements(&self, index: usize) -> Vec<Text> {
        // SAFETY: as above; past the last element there is null.
        unsafe {
            let array = api::call_reply_array_element(self.0.as_ptr(), index);
            let elements = (0..).map_while(|nth| NonNull::new(api::call_reply_array_element(array, nth)));
            if array.is_null() { Vec::new() } else { elements.map(|element| text(element.as_ptr())).collect() }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours, and nothing of it was lent.
        unsafe { api::free_call_reply(self.0.as_ptr()) };
    }
}

/// A copy of the text of a reply.
///
/// # Safety
/// The reply has not been freed.
unsafe fn text(reply: *mut RawReply) -> Text {
    let mut len = 0;
    // SAFETY: the caller's promise; the text belongs to the reply and is copied at once.
    unsafe {
        let text = api::call_reply_string_ptr(reply, &raw mut len);
        if text.is_null() { Text::new() } else { slice::from_raw_parts(text.cast(), len).into() }
    }
}
