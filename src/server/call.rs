//! Server commands that the module runs. All go through [`call`].

use std::ffi::CStr;
use std::io::{Error, ErrorKind};
use std::ptr::NonNull;
use std::slice;

use redis_module::raw;
use smallvec::SmallVec;

use super::api::{self, RawReply, RawString};
use super::args::{Arg, Name};
use super::ctx::Ctx;

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As the module itself, without replication. A refusal by the server gives no reply.
    Quietly,
    /// Not run: the server only says whether it would refuse.
    Dry,
    /// As a script would: the server also refuses a write when it refuses the writes of clients. A refusal is a reply.
    ForScript,
    /// The same, not run.
    DryForScript,
    /// Replicated to replicas and the AOF. A refusal is a reply.
    Replicated(RunAs),
    /// As the user of the client, without replication. A refusal by the server gives no reply.
    AsUser,
}

/// The user with whose rights a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The user of the client, with its ACL rules; if another module calls without a user, that module.
    Client,
    /// The module itself.
    Module,
}

impl How {
    /// The server's format string: `v` is an array of words, `!` replicates, `E` returns refusals as replies, `C` checks the client's ACL.
    /// `S` refuses what a script may not run; without `E` it crashes Valkey 9.1.
    fn format(self) -> &'static CStr {
        match self {
            Self::Quietly => c"v",
            Self::Dry => c"Dv",
            Self::ForScript => c"SEv",
            Self::DryForScript => c"DSEv",
            Self::AsUser => c"Cv",
            Self::Replicated(RunAs::Module) => c"!Ev",
            Self::Replicated(RunAs::Client) => c"!ECv",
        }
    }
}

/// Runs `command` with `words`. `None` if the server did not run it; then `errno` has the reason.
pub(super) fn call(ctx: &mut Ctx<'_>, command: &CStr, how: How, words: &[&[u8]]) -> Option<Reply> {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    let words: SmallVec<[Name<'_>; 4]> = words.iter().map(|word| Name::make(word)).collect();
    let strings: SmallVec<[*mut RawString; 4]> = words.iter().map(|word| word.arg().raw()).collect();
    // SAFETY: the context is valid. The format announces an array of strings and its length, which follow; the server keeps its own
    // references to the strings. The reply belongs to us alone.
    let reply = unsafe { call(ctx.raw(), command.as_ptr(), how.format().as_ptr(), strings.as_ptr(), strings.len()) };
    NonNull::new(reply).map(Reply)
}

/// Runs `command` as the client of the running command would: replicated, in its protocol, and refused if scripts may not run it or memory
/// is out. A refusal is a reply.
///
/// In the formats, `0` takes the client's protocol, and `M` refuses commands that need memory when memory is full; `b` is a text. [`How`]
/// explains the other letters.
pub(super) fn call_for_client(ctx: &mut Ctx<'_>, command: &CStr, run_as: RunAs, words: &[Arg<'_>]) -> Option<Reply> {
    // SAFETY: a plain read of a pointer that only module initialisation writes.
    let call = unsafe { (&raw const raw::RedisModule_Call).read() }?;
    let (whole, split) = match run_as {
        RunAs::Client => (c"!0SMECv", c"!0SMECvbv"),
        RunAs::Module => (c"!0SMEv", c"!0SMEvbv"),
    };
    let strings: SmallVec<[*mut RawString; 8]> = words.iter().map(|word| word.raw()).collect();
    let number = words.iter().enumerate().take(VALUES).skip(1).rfind(|(_, word)| word.is_integer());
    let parts = number.and_then(|(at, number)| {
        let (before, rest) = strings.split_at_checked(at)?;
        Some((before, number.bytes(), rest.get(1..)?))
    });
    let (ctx, name) = (ctx.raw(), command.as_ptr());
    let reply = match parts {
        // SAFETY: the context is valid. The format announces an array of strings with its length, a text with its length, and another array;
        // they follow. The server keeps its own references to the strings and copies the text. The reply belongs to us alone.
        Some((before, number, after)) => unsafe {
            let (text, len) = (number.as_ptr(), number.len());
            call(ctx, name, split.as_ptr(), before.as_ptr(), before.len(), text, len, after.as_ptr(), after.len())
        },
        // SAFETY: the same without the text.
        None => unsafe { call(ctx, name, whole.as_ptr(), strings.as_ptr(), strings.len()) },
    };
    NonNull::new(reply).map(Reply)
}

/// Where commands have the value that they store: `SET key value`, `SETEX key seconds value`. The server stores a number compactly only if
/// its string has no other owner, so it gets a string of its own.
const VALUES: usize = 3;

/// Whether the server has the command `name`, which requires arguments; the operator may have renamed or disabled it. The call has no
/// arguments, so the server refuses it before it runs.
pub fn is_known(ctx: &mut Ctx<'_>, name: &CStr) -> bool {
    call(ctx, name, How::Quietly, &[]).is_some() || Error::last_os_error().kind() != ErrorKind::NotFound
}

/// How every server refuses to check a user's rights if there is no user: another module runs our command, and has asked the server not to
/// check.
pub(super) const NO_USER: &str = "ERR cannot run as user, no user directly attached";

/// The error of Redis 7.0 for a command that the user may not run. It has no error code of its own for that.
pub(super) const ACL_FAILED: &str = "ERR acl verification failed, ";

/// A text in a reply. Most are short.
pub type Text = SmallVec<[u8; 32]>;

/// A reply of the server, freed when dropped.
pub(super) struct Reply(NonNull<RawReply>);

impl Reply {
    /// Whether it is an error.
    pub(super) fn is_error(&self) -> bool {
        // SAFETY: the reply is ours until the drop.
        unsafe { api::call_reply_type(self.0.as_ptr()) == api::int(raw::REDISMODULE_REPLY_ERROR) }
    }

    /// Replies with it to the running command, byte for byte.
    pub(super) fn pass_on(&self, ctx: &Ctx<'_>) {
        // SAFETY: the reply is ours until the drop; the server copies it. It is in the protocol of the client.
        unsafe { api::reply_with_call_reply(ctx.raw(), self.0.as_ptr()) };
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

    /// A string element of an array.
    pub(super) fn element(&self, index: usize) -> Option<Text> {
        // SAFETY: as above; what is in the reply is freed with it.
        unsafe {
            let element = api::call_reply_array_element(self.0.as_ptr(), index);
            (!element.is_null()).then(|| text(element))
        }
    }

    /// The string elements of an array inside an array.
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
        // SAFETY: the reply is ours, and nothing borrowed from it is left.
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
