//! Stream entries.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::call::{ACL_FAILED, How, NO_USER, Reply, RunAs, Text, call};
use super::ctx::Ctx;
use super::faults;

/// The id of a stream entry: two numbers and a hyphen.
pub type EntryId = Text;

/// A field name and its value in a stream entry.
pub type Field<'a> = (&'static [u8], &'a [u8]);

/// Whether an entry is being appended. A module that is notified of it may not append another entry without a user: the server would send
/// the later entry first, and replicas would refuse the earlier one.
static IS_APPENDING: AtomicBool = AtomicBool::new(false);

/// Appends an entry with `fields` to the stream `key`, creates the stream if necessary, and replicates that. The error is the server's own
/// text.
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

/// Removes an entry from the stream `key`, and replicates that. False if it is not there, which is not replicated.
pub fn take_out(ctx: &mut Ctx<'_>, key: &[u8], entry: &EntryId) -> Result<bool, String> {
    let reply = call(ctx, c"XDEL", How::Replicated(RunAs::Module), &[key, entry]);
    let count = reply.as_ref().map_or(0, Reply::integer);
    done(c"XDEL", reply).map(|_| count > 0)
}

/// The result of a call of `command`, which returns a string or an error.
fn done(command: &CStr, reply: Option<Reply>) -> Result<EntryId, String> {
    let Some(reply) = reply else { return Err("ERR this node does not serve the key".into()) };
    let text = reply.text();
    if !reply.is_error() {
        return Ok(text);
    }
    let line = String::from_utf8_lossy(&text);
    if let Some(why) = line.strip_prefix(ACL_FAILED) {
        return Err(format!("NOPERM {why}"));
    }
    if line.starts_with("ERR unknown command") {
        return Err(format!("ERR {} is renamed or disabled on this server", command.to_string_lossy()));
    }
    Err(line.into_owned())
}
