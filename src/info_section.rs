//! The section of `INFO lockstock`.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use crate::core::invariant;
use crate::module::sale_counts;
use crate::module::state::{self, State};
use crate::server::ctx::c_text;
use crate::server::info_fields::Section;

/// The version as a C string.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// Writes every field.
pub fn write(section: &mut Section) {
    section.text(c"version", VERSION);
    state::enter(|state| of_state(section, state));
    section.field(c"invariants_violated", invariant::violations());
}

fn of_state(section: &mut Section, state: &State) {
    let (locks, stats) = (&state.locks, state.locks.stats());
    section.field(c"locks_held", locks.locks());
    section.field(c"lock_waiters", locks.waiters());
    section.field(c"lock_waiters_notified", locks.notified());
    section.field(c"lock_vacant_places", locks.vacant_places());
    section.field(c"lock_grants", stats.grants);
    section.field(c"lock_waits", stats.waits);
    section.field(c"lock_wait_ms", locks.waited().0.unsigned_abs());
    section.field(c"lock_deadlocks", stats.deadlocks);
    section.field(c"lock_timeouts", stats.timeouts);
    section.field(c"lock_handover_release", stats.handover_release);
    section.field(c"lock_handover_expiry", stats.handover_expiry);
    section.field(c"lock_handover_disconnect", stats.handover_disconnect);
    section.field(c"lock_longest_queue", stats.longest_queue);
    section.field(c"lock_lapses", stats.expirations);
    section.field(c"lock_guards", stats.guards);
    section.field(c"lock_guards_refused", stats.guards_refused);
    section.field(c"sales", sale_counts::SALES.load(Ordering::Relaxed));
    section.field(c"orders", sale_counts::ORDERS.load(Ordering::Relaxed));
    for (word, answered) in sale_counts::answers() {
        section.field(&c_text(&format!("stock_{}", word.to_ascii_lowercase())), answered);
    }
    section.field(c"stock_lapses", state.expirations);
}
