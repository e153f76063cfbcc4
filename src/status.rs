//! The section of `INFO lockstock`.

use crate::server::info::Section;
use crate::service;

/// Writes every field.
pub fn write(section: &mut Section) {
    let Some((held, waiters, locks)) =
        service::enter(|state| (state.locks.locks(), state.locks.waiters(), *state.locks.stats()))
    else {
        return;
    };
    section.field(c"locks_held", held as u64);
    section.field(c"lock_waiters", waiters as u64);
    section.field(c"lock_grants", locks.grants);
    section.field(c"lock_waits", locks.waits);
    section.field(c"lock_timeouts", locks.timeouts);
    section.field(c"lock_handover_release", locks.handover_release);
    section.field(c"lock_handover_expiry", locks.handover_expiry);
    section.field(c"lock_handover_disconnect", locks.handover_disconnect);
    section.field(c"lock_longest_queue", locks.longest_queue);
    section.field(c"lock_lapses", locks.lapses);
}
