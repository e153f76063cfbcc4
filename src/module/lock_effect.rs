//! What replicas and the AOF hear of a lock: `LOCK.APPLY key EFFECT …`.

use std::ffi::CStr;

use smallvec::SmallVec;

use crate::core::id::Ident;
use crate::core::lock::{EndReason, Hold, Lock, Mode};
use crate::server::ctx::Ctx;
use crate::server::key::Name;
use crate::server::replicate;

/// The command that carries them.
const APPLY: &CStr = c"LOCK.APPLY";

/// What happened to one lock: a hold ended, then one began or changed. Together they are a hand-over, which travels as one
/// command.
#[derive(Default)]
pub struct Effects {
    /// The hold of this token ended.
    pub ended: Option<(Ident, EndReason)>,
    /// This hold began or changed.
    pub held: Option<(Mode, Hold)>,
}

/// The module's event for the end of a hold, in the keyspace notifications.
pub fn event_of(why: EndReason) -> &'static CStr {
    match why {
        EndReason::Released => c"lock.released",
        EndReason::Expired => c"lock.lapsed",
        EndReason::Disconnected | EndReason::Undelivered => c"lock.disconnected",
    }
}

/// Sends all holds of a lock, for a key that holds nothing there.
pub fn send_whole(ctx: &Ctx<'_>, name: &Name<'_>, lock: &Lock) {
    replicate::effect(ctx, APPLY, name, &[b"LOAD", &lock.encode()]);
}

/// Sends effects.
pub fn send(ctx: &Ctx<'_>, name: &Name<'_>, effects: &Effects) {
    let ended = effects.ended.as_ref().map(|(token, why)| (token.text(), *why));
    let held = effects.held.as_ref().map(|(mode, hold)| (hold.token.text(), *mode, hold));
    let (mut fence, mut deadline, mut limit) = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
    let mut words: SmallVec<[&[u8]; 9]> = SmallVec::new();
    if let Some((token, why)) = &ended {
        words.extend([b"ENDED".as_slice(), token]);
        match why {
            EndReason::Released => {}
            EndReason::Expired => words.push(b"LAPSED"),
            EndReason::Disconnected | EndReason::Undelivered => words.push(b"DISCONNECTED"),
        }
    }
    if let Some((token, mode, hold)) = &held {
        let (fence, deadline) = (fence.format(hold.fence.0), deadline.format(hold.deadline.0));
        words.extend([b"HELD".as_slice(), token, fence.as_bytes(), deadline.as_bytes()]);
        match mode {
            Mode::Exclusive => {}
            Mode::Shared => words.push(b"SHARED"),
            Mode::Limit => words.extend([b"LIMIT".as_slice(), limit.format(hold.limit).as_bytes()]),
        }
    }
    replicate::effect(ctx, APPLY, name, &words);
}
