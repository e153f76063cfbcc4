//! A holder freezes past its lease. The next one gets the lock; the first wakes up and believes it still has it. Only
//! the fence tells the resource who is right, and the late release must not free the lock of the other.

use anyhow::Result;

use super::{Site, WAIT, millis};
use crate::books::Findings;
use crate::show::Sheet;
use crate::stage::{Act, Stage};
use crate::wire::{Hold, Job, Word, Work};

/// The lease of the worker that freezes, in milliseconds.
const SHORT: u64 = 400;
/// The lease of the worker that takes over.
const LONG: u64 = 60_000;
/// What a server's millisecond clock may round away, in microseconds.
const ROUNDING: u64 = 2_000;
/// A hand-over later than this after the lease's end was not the timer's doing, in microseconds.
const LATE: u64 = 2_000_000;

/// Plays the scene.
pub fn play(stage: &mut Stage<'_>) -> Result<Act> {
    let lock = stage.fresh_key("freeze");
    let mut client = stage.client()?;
    let mut site = Site::new(stage.hire(2)?);
    let hold = |lease| Job::Hold(Hold { lock: lock.clone(), lease, wait: WAIT, session: false, work: Work::UntilTold });
    let bar = stage.bar(4)?;
    let step = |what: &str| {
        bar.inc(1);
        bar.set_message(format!("steps, {what}"));
    };

    site.crew.give(0, &hold(SHORT))?;
    let first = site.granted()?;
    site.at_work(0)?;
    site.crew.freeze(0)?;
    step("process 1 is frozen, its lease runs out");

    site.crew.give(1, &hold(LONG))?;
    let second = site.granted()?;
    site.at_work(1)?;
    let written = site.resource.accepted;
    step("process 2 holds the lock");

    site.crew.thaw(0)?;
    site.crew.say(0, &Word::Finish)?;
    let late = site.released(0)?;
    let refused = site.resource.refused;
    let still_held = !client.is_free(&lock)?;
    step("process 1 woke up and was refused");

    site.crew.say(1, &Word::Finish)?;
    let released = site.released(1)?;
    step("process 2 is done");
    bar.finish_and_clear();

    let gap = second.at.saturating_sub(first.asked_at);
    let mut findings = Findings::default();
    findings.check("nobody gets the lock before the lease ends", gap + ROUNDING >= SHORT * 1000, || millis(gap));
    findings.check("somebody gets it right after", gap < SHORT * 1000 + LATE, || millis(gap));
    findings.check("the next hold has a higher fence", second.fence > first.fence, || {
        format!("{} after {}", second.fence, first.fence)
    });
    findings.check("both wrote while they held the lock", written == 2, || format!("{written} writes were accepted"));
    findings.check("the late write was refused", refused == 1, || format!("{refused} writes were"));
    findings.check("the late extension revived nothing", late.revived == Some(false), || "LOCK.EXTEND said 1".into());
    findings.check("the late release ended nothing", !late.ended, || "LOCK.RELEASE said 1".into());
    findings.check("the new holder still held the lock", still_held, || "LOCK.INFO said nobody did".into());
    findings.check("the new holder's release ended its hold", released.ended, || "LOCK.RELEASE said 0".into());
    findings.check("the new holder's last write was accepted", site.resource.accepted == 3, || {
        format!("{} writes were accepted", site.resource.accepted)
    });

    let mut sheet = Sheet::new(["worker", "what it did", "fence", "heard"], 2);
    let mut row = |worker: &str, what: &str, fence: u64, heard: String| {
        sheet.row(vec![worker.into(), what.into(), fence.to_string(), heard]);
    };
    let yes_or_no = |yes: bool| i32::from(yes).to_string();
    row("process 1", "took it, wrote, froze", first.fence, "accepted".into());
    row("process 2", "waited for it, wrote", second.fence, "accepted".into());
    row("process 1", "woke up, wrote", first.fence, if refused == 1 { "refused" } else { "accepted" }.into());
    row("", "LOCK.EXTEND", first.fence, yes_or_no(late.revived == Some(true)));
    row("", "LOCK.RELEASE", first.fence, yes_or_no(late.ended));
    row("process 2", "undisturbed, released", second.fence, yes_or_no(released.ended));
    Ok(Act {
        sheet,
        notes: Vec::new(),
        verdict: format!("the next had it after {} (lease 400 ms), the late write was refused", millis(gap)),
        findings,
        answers: 2,
    })
}
