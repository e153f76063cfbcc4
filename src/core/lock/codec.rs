//! A lock as bytes: for the RDB file, the AOF, DUMP and the digest.
//!
//! ```text
//! version(1) mode(1) count { token fence-step deadline [limit] }*
//! ```
//! The holds are in fence order. Each fence is stored as the distance from the one before, so no two can be equal. Sessions are not saved,
//! because no connection survives a restart.

use super::hold::{Hold, HoldRef};
use super::terms::Mode;
use super::value::Lock;
use crate::core::codec::{Corrupt, Encode, Reader};
use crate::core::fence::Fence;
use crate::core::id::Ident;
use crate::core::limits::{MAX_FENCE, MAX_PERMITS};
use crate::core::time::UnixMs;

/// The version that is written. All versions up to it can be read.
const VERSION: u8 = 1;

impl Lock {
    /// The lock as bytes. O(n) in its holds.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Vec::new();
        writer.push(VERSION);
        writer.push(self.mode() as u8);
        writer.number(u64::try_from(self.len()).unwrap_or(u64::MAX));
        let mut last = 0;
        for hold in self.holds() {
            write_hold(&mut writer, self.mode(), hold, hold.fence.0.saturating_sub(last));
            last = hold.fence.0;
        }
        writer
    }

    /// Decodes the bytes that [`encode`](Self::encode) has made.
    ///
    /// # Errors
    /// [`Corrupt`] for any other bytes. Allocates at most one hold for each hold in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let (mut reader, _) = Reader::versioned(bytes, VERSION)?;
        let code = reader.byte()?;
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Limit];
        let mode = modes.into_iter().find(|mode| *mode as u8 == code).ok_or(Corrupt::Invalid)?;
        let count = reader.number()?;
        if count == 0 || (mode == Mode::Exclusive && count > 1) {
            return Err(Corrupt::Invalid);
        }
        let mut lock = Self::vacant();
        let mut last = 0;
        for _ in 0..count {
            let hold = read_hold(&mut reader, mode, last)?;
            last = hold.fence.0;
            if lock.set(mode, hold).is_some() {
                return Err(Corrupt::Invalid);
            }
        }
        reader.finish()?;
        Ok(lock)
    }

    /// The lock for the server's digest: one byte string per hold, in a fixed order.
    pub fn digest(&self) -> impl Iterator<Item = Vec<u8>> {
        self.holds().map(|hold| {
            let mut writer = Vec::new();
            writer.push(self.mode() as u8);
            write_hold(&mut writer, self.mode(), hold, hold.fence.0);
            writer
        })
    }
}

fn write_hold(writer: &mut Vec<u8>, mode: Mode, hold: HoldRef<'_>, fence: u64) {
    writer.string(&hold.token.text());
    writer.number(fence);
    writer.number(u64::try_from(hold.deadline.0).unwrap_or(0));
    if mode == Mode::Limit {
        writer.number(hold.limit);
    }
}

fn read_hold(reader: &mut Reader<'_>, mode: Mode, last: u64) -> Result<Hold, Corrupt> {
    let token = Ident::new(reader.string()?).ok_or(Corrupt::Invalid)?;
    let step = reader.number()?;
    let fence = last.checked_add(step).filter(|fence| step > 0 && *fence <= MAX_FENCE).ok_or(Corrupt::Invalid)?;
    let deadline = i64::try_from(reader.number()?).ok().filter(|ms| *ms > 0).ok_or(Corrupt::Invalid)?;
    let limit = match mode {
        Mode::Limit => {
            Some(reader.number()?).filter(|limit| (1..=MAX_PERMITS).contains(limit)).ok_or(Corrupt::Invalid)?
        }
        Mode::Exclusive | Mode::Shared => 0,
    };
    Ok(Hold { token, fence: Fence(fence), deadline: UnixMs(deadline), limit, session: None })
}
