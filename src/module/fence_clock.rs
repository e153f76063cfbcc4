//! The fence clock in files.
//!
//! A fence must not come again after a restart. Fences follow the wall clock, so as a rule nothing need be saved for that.

use std::ffi::CString;

use crate::core::fence::Fence;
use crate::module::{sale_counts, state};
use crate::server::clock;
use crate::server::datatype::AofOut;

/// What has to be saved of the fence clock besides the locks themselves.
///
/// Nothing, as a rule: fences follow the wall clock in microseconds and so pass, after a restart, whatever was given before. But while
/// there are locks or sales the file needs the module anyway, and when the counter is ahead of the clock, because that was set
/// back, it must not be lost.
pub fn to_save() -> Vec<u8> {
    let now = clock::now();
    let last = state::peek(|state| (state.locks.last_fence(), state.locks.locks() > 0 || sale_counts::sales() > 0))
        .unwrap_or_default();
    match last {
        (last, locks) if last > 0 && (locks || last >= now.us) => last.to_le_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The fence clock, if it is ahead of the wall clock: then a file that does not say so would bring fences that were given back.
fn ahead() -> Option<Fence> {
    let last = state::peek(|state| state.locks.last_fence()).unwrap_or_default();
    (last >= clock::now().us).then_some(Fence(last))
}

/// Writes what keeps the fence clock, where the wall clock would not do: a hold of the newest fence, under a key that holds nothing yet, and
/// its end. A file of commands has no place for anything but keys, so this goes with each of ours.
pub fn rewrite(out: &mut AofOut<'_>) {
    if let Some(fence) = ahead()
        && let Ok(fence) = CString::new(fence.0.to_string())
    {
        out.words(c"LOCK.APPLY", [c"HELD", c"fence", &fence, c"1", c"ENDED", c"fence"]);
    }
}

/// Takes the fence clock back.
pub fn saved(saved: &[u8]) -> Result<(), String> {
    let last = saved.try_into().map(u64::from_le_bytes).map_err(|_| "the fence is not 8 bytes long".to_owned())?;
    state::peek(|state| state.locks.observe_fence(Fence(last)));
    Ok(())
}

/// A fence came with a lock from a file or a payload, and counts from now on, even if the lock is deleted before anybody meets it.
pub fn loaded(fence: Fence) {
    state::peek(|state| state.locks.observe_fence(fence));
}
