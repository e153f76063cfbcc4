//! `LOCK.FAULT`: a fault on purpose. Only in builds with the feature `inject-faults`.

use super::Command;
use crate::error::Error;
use crate::server::entry::{Call, Run};
use crate::server::faults;
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{Arg, Spec};

/// `LOCK.FAULT doing`
///
/// Has the next entry from the server that does `doing` (as the log calls it: `a command`, `deferred work` …) panic. Replies OK.
pub struct LockFault;

impl Command for LockFault {
    const SPEC: Spec = Spec {
        name: c"lock.fault",
        flags: c"readonly",
        acl: c"admin dangerous",
        arity: 2,
        summary: c"Injects a fault.",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[Arg::string(c"doing")],
    };
}

impl Run for LockFault {
    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { ctx, mut args } = call;
        faults::arm(args.next()?.bytes());
        ctx.reply_ok();
        Ok(())
    }
}
