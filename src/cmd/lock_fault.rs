//! `LOCK.FAULT`: a fault on purpose. Only in builds with the feature `inject-faults`.

use super::Command;
use crate::error::Error;
use crate::server::args::{Args, Range};
use crate::server::entry::{Call, Run};
use crate::server::faults::{self, Fault};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `LOCK.FAULT doing [point [times]]`
///
/// Has the next entry from the server that does `doing` (as the log calls it: `a command`, `deferred work` …) panic, at its start (0) or
/// before the step with this number: there is one wherever the work touches the server. An entry with fewer steps leaves the fault
/// to the next. `times` does so for several entries; an empty `doing` takes back what was armed.
///
/// Replies how many faults have struck so far, and the most steps of an entry that the last one was armed for.
pub struct LockFault;

impl Command for LockFault {
    const SPEC: Spec = Spec {
        name: c"lock.fault",
        flags: c"readonly",
        acl: c"admin dangerous",
        arity: -2,
        summary: c"Injects a fault.",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[
            register::Arg::string(c"doing"),
            register::Arg::integer(c"point").optional(),
            register::Arg::integer(c"times").optional(),
        ],
    };
}

fn parse(mut args: Args<'_>) -> Result<Fault, Error> {
    let doing = args.next()?.bytes().to_vec();
    let mut number = |name, default| {
        if args.len() > 0 { args.unsigned(name, Range::new(0..=i64::MAX)) } else { Ok(default) }
    };
    let fault = Fault { doing, point: number("point", 0)?, times: number("times", 1)? };
    args.finish()?;
    Ok(fault)
}

impl Run for LockFault {
    type Error = Error;

    fn run(call: Call<'_>) -> Result<(), Error> {
        let Call { ctx, args } = call;
        faults::arm(parse(args)?);
        let (struck, most) = faults::seen();
        ctx.reply_array(2);
        ctx.reply_int(struck);
        ctx.reply_int(most);
        Ok(())
    }
}
