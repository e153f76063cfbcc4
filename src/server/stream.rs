//! Entries of streams.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::call::{How, Reply, RunAs, Text, call};
use super::ctx::Ctx;
use super::faults;

/// The id of an entry of a stream: two numbers and a hyphen.
pub type EntryId = Text;

/// A name and its value in an entry of a stream.
pub type Field<'a> = (&'static [u8], &'a [u8]);

/// Whether an entry is being appended. A module that hears of that may not append another one on behalf of nobody: the server sends
/// the later one first, and replicas refuse the earlier one then.
static IS_APPENDING: AtomicBool = AtomicBool::new(false);

/// Appends an entry with `fields` to the stream `key`, creating it if need be, and replicates that. The error is the server's own line.
pub fn append(ctx: &mut Ctx<'_>, run_as: RunAs, key: &[u8], fields: &[Field<'_>]) -> Result<EntryId, String> {
    faults::point();
    let mut words: SmallVec<[&[u8]; 16]> = SmallVec::from_slice(&[key, b"*"]);
    words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    let outermost = !IS_APPENDING.swap(true, Ordering::Relaxed);
    let done = done(c"XADD", call(ctx, c"XADD", How::Replicated(run_as), &words));
    IS_APPENDING.store(!outermost, Ordering::Relaxed);
    if outermost && run_as == RunAs::Client && done.as_ref().is_err_and(|why| why.starts_with(NO_USER)) {
        return append(ctx, RunAs::Module, key, fields);
    }
    done
}

/// How every server refuses to look at a user's rights where there is no user: another module runs our command, and has asked the
/// server to let it do what it likes.
const NO_USER: &str = "ERR cannot run as user, no user directly attached";

/// Takes an entry out of the stream `key` again, and replicates that. False if it is not there, which is not replicated.
pub fn take_out(ctx: &mut Ctx<'_>, key: &[u8], entry: &EntryId) -> Result<bool, String> {
    let reply = call(ctx, c"XDEL", How::Replicated(RunAs::Module), &[key, entry]);
    let count = reply.as_ref().map_or(0, Reply::integer);
    done(c"XDEL", reply).map(|_| count > 0)
}

/// What came of a call of `command`, which answers a string or an error.
fn done(command: &CStr, reply: Option<Reply>) -> Result<EntryId, String> {
    let Some(reply) = reply else { return Err("ERR this node does not serve the key".into()) };
    let text = reply.text();
    if !reply.is_error() {
        return Ok(text);
    }
    let line = String::from_utf8_lossy(&text);
    // Redis 7.0 has no code of its own for this refusal.
    if let Some(why) = line.strip_prefix("ERR acl verification failed, ") {
        return Err(format!("NOPERM {why}"));
    }
    if line.starts_with("ERR unknown command") {
        return Err(format!("ERR {} is renamed or disabled on this server", command.to_string_lossy()));
    }
    Err(line.into_owned())
}
