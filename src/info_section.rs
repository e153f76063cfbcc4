//! The section of `INFO lockstock`.

use std::ffi::CStr;

use crate::core::sale::Status;
use crate::module::{sale_counts, state};
use crate::server::info::Section;

/// The version as a C string.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// Writes every field.
pub fn write(section: &mut Section) {
    section.text(c"version", VERSION);
    let seen = state::enter(|state| {
        let locks = &state.locks;
        (
            locks.locks(),
            locks.waiters(),
            locks.notified(),
            locks.vacant_places(),
            locks.waited(),
            *locks.stats(),
            state.expirations,
        )
    });
    let Some((held, waiters, notified, vacant, waited, locks, expirations)) = seen else { return };
    section.field(c"locks_held", number(held));
    section.field(c"lock_waiters", number(waiters));
    section.field(c"lock_waiters_notified", number(notified));
    section.field(c"lock_vacant_places", number(vacant));
    section.field(c"lock_grants", locks.grants);
    section.field(c"lock_waits", locks.waits);
    section.field(c"lock_wait_ms", waited.0.unsigned_abs());
    section.field(c"lock_deadlocks", locks.deadlocks);
    section.field(c"lock_timeouts", locks.timeouts);
    section.field(c"lock_handover_release", locks.handover_release);
    section.field(c"lock_handover_expiry", locks.handover_expiry);
    section.field(c"lock_handover_disconnect", locks.handover_disconnect);
    section.field(c"lock_longest_queue", locks.longest_queue);
    section.field(c"lock_lapses", locks.expirations);
    section.field(c"sales", sale_counts::sales());
    section.field(c"orders", sale_counts::orders());
    for (status, answered) in sale_counts::answers() {
        section.field(counter(status), answered);
    }
    section.field(c"stock_lapses", expirations);
}

/// The field that counts this status.
fn counter(status: Status) -> &'static CStr {
    match status {
        Status::Ok => c"stock_ok",
        Status::Duplicate => c"stock_duplicate",
        Status::SoldOut => c"stock_soldout",
        Status::Insufficient => c"stock_insufficient",
        Status::Limit => c"stock_limit",
        Status::NotStarted => c"stock_notstarted",
        Status::Ended => c"stock_ended",
        Status::Expired => c"stock_expired",
        Status::Cancelled => c"stock_cancelled",
        Status::Queued => c"stock_queued",
        Status::Skipped => c"stock_skipped",
        Status::NoOrder => c"stock_noorder",
        Status::NoStock => c"stock_nostock",
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
