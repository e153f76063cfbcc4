//! `LOCK.FAULT`: injects a panic. Only in debug builds.

use super::{Args, Command, Ctx, Error, KeyUse, Keys, Param, Range, Spec};
use crate::core::invariant;
use crate::server::faults::{self, Fault};

/// `LOCK.FAULT doing [point [times]]`
///
/// Makes the next entry from the server with the name `doing` (as in the log: `a command`, `deferred work` …) panic, at its start (0) or
/// before the step `point`; there is a step wherever the work calls the server. If an entry has fewer steps, the panic stays armed for the
/// next. `times` is the number of entries that panic; an empty `doing` disarms. With `an invariant` as `doing` nothing panics: an invariant
/// counts as violated, as in a release build.
///
/// Replies the number of panics so far, and the most steps of an entry that the last one was armed for.
pub struct LockFault;

impl Command for LockFault {
    const SPEC: Spec = Spec {
        name: c"lock.fault",
        flags: c"readonly admin",
        arity: -2,
        summary: c"Injects a fault.",
        since: c"0.1.0",
        complexity: c"O(1)",
        tips: c"",
        keys: Keys::First(KeyUse::Read),
        args: &[Param::string(c"doing"), Param::integer(c"point").optional(), Param::integer(c"times").optional()],
    };

    fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let fault = parse(args)?;
        if fault.doing == b"an invariant" {
            invariant::count("a test says so");
        }
        faults::arm(fault);
        let (struck, most) = faults::seen();
        ctx.reply_array(2);
        ctx.reply_int(struck);
        ctx.reply_int(most);
        Ok(())
    }
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
