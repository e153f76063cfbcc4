//! `LOCK.FAULT`: injects a panic. Only in builds with the feature `inject-faults`.

use super::Command;
use crate::error::Error;
use crate::server::args::{Args, Range};
use crate::server::entry::{Call, Run};
use crate::server::faults::{self, Fault};
use crate::server::keyspec::{KeyUse, Keys};
use crate::server::register::{self, Spec};

/// `LOCK.FAULT doing [point [times]]`
///
/// Makes the next entry from the server with the name `doing` (as in the log: `a command`, `deferred work` …) panic, at its start (0) or
/// before the step `point`; there is a step wherever the work calls the server. If an entry has fewer steps, the panic stays armed for the
/// next. `times` is the number of entries that panic; an empty `doing` disarms.
///
/// Replies the number of panics so far, and the most steps of an entry that the last one was armed for.
pub struct LockFault;

impl Command for LockFault {
    const SPEC: Spec = Spec {
        name: c"lock.fault",
        flags: c"readonly",
        acl: c"admin dangerous",
        arity: -2,
        summary: c"Injects a fault.",
        since: c"0.1.0",
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
