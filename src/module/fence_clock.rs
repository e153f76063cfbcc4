//! Saving the fence clock.
//!
//! A fence must not repeat after a restart. Fences follow the wall clock, so usually nothing needs to be saved for that.

use std::sync::atomic::Ordering;

use crate::core::fence::Fence;
use crate::module::{sale_counts, state};
use crate::server::clock;
use crate::server::datatype::AofOut;

/// The fence clock, to be saved besides the locks themselves.
///
/// Usually nothing: fences follow the wall clock in microseconds, so after a restart they are larger than all before. It is saved in two
/// cases: while there are locks or sales, because then the file needs the module anyway; and while the counter is ahead of the clock,
/// because the clock was set back and the counter must not be lost.
pub fn to_save() -> Vec<u8> {
    let now = clock::now();
    let (last, locks) = state::enter_as_is(|state| (state.locks.last_fence(), state.locks.locks())).unwrap_or_default();
    let is_needed = locks > 0 || sale_counts::SALES.load(Ordering::Relaxed) > 0;
    if last > 0 && (is_needed || last >= now.us) { last.to_le_bytes().to_vec() } else { Vec::new() }
}

/// The fence clock, if it is ahead of the wall clock: then a file without it would let old fences repeat.
fn ahead() -> Option<Fence> {
    let last = state::enter_as_is(|state| state.locks.last_fence()).unwrap_or_default();
    (last >= clock::now().us).then_some(Fence(last))
}

/// Writes commands that restore the fence clock, if the wall clock is not enough: a hold with the newest fence, under a key that is still
/// empty, and its end. An AOF can only have commands on keys, so this goes with each of our keys.
pub fn rewrite(out: &mut AofOut<'_>) {
    if let Some(Fence(ahead)) = ahead() {
        let ahead = ahead.to_string();
        out.command(c"LOCK.APPLY", &[b"HELD", b"fence", ahead.as_bytes(), b"1", b"ENDED", b"fence"]);
    }
}

/// Restores the saved fence clock.
pub fn saved(saved: &[u8]) -> Result<(), String> {
    let last = saved.try_into().map(u64::from_le_bytes).map_err(|_| "the fence is not 8 bytes long".to_owned())?;
    state::enter_as_is(|state| state.locks.observe_fence(Fence(last)));
    Ok(())
}

/// A lock from a file or a payload has this fence. It counts at once, even if the lock is deleted before the engine registers it.
pub fn loaded(fence: Fence) {
    state::enter_as_is(|state| state.locks.observe_fence(fence));
}
