//! The data type of a lock.

use std::ffi::CStr;

use crate::core::key::KeyRef;
use crate::core::lock::Lock;
use crate::module::destroyed::{self, Destroyed};
use crate::module::fence_clock;
use crate::module::inbox::{self, Notification};
use crate::server::clock;
use crate::server::ctx;
use crate::server::datatype::{AofOut, DataType, Handle, RdbIn, RdbOut};
use crate::server::renames;
use crate::server::server_facts;

static HANDLE: Handle = Handle::new();

impl DataType for Lock {
    const NAME: &'static CStr = c"lockstk-l";
    const ENCODING: i32 = 1;

    fn handle() -> &'static Handle {
        &HANDLE
    }

    fn save(&self, out: &mut RdbOut) {
        out.bytes(&self.encode());
    }

    fn load(input: &mut RdbIn) -> Result<Self, String> {
        let lock = Self::decode(&input.bytes()?).map_err(|why| why.to_string())?;
        if let Some(newest) = lock.holds().last() {
            // A fence from a file or from the primary was really issued, but a payload can claim anything; that includes `MIGRATE` of a
            // slot. On a writable replica the origin is unknown, but the primary would have refused such a payload too.
            let told = ctx::flags();
            if newest.fence.is_out_of_reach(clock::now().us)
                && !told.is_loading()
                && (told.is_primary() || server_facts::is_writable_replica())
            {
                return Err("its fence is more than an hour ahead of the server's clock".into());
            }
            fence_clock::loaded(newest.fence);
        }
        if let Some(key) = input.key() {
            inbox::loaded(key);
        }
        Ok(lock)
    }

    fn rewrite(&self, out: &mut AofOut<'_>) {
        fence_clock::rewrite(out);
        out.command(c"LOCK.APPLY", &[b"LOAD", &self.encode()]);
    }

    fn memory(&self) -> usize {
        Self::memory(self)
    }

    fn free_effort(&self) -> usize {
        Self::effort(self)
    }

    fn digest(&self, part: &mut dyn FnMut(&[u8])) {
        Self::digest(self).for_each(|bytes| part(&bytes));
    }

    fn unlinked(&mut self, at: KeyRef<'_>) {
        // The engine has released this entry and is deleting the key.
        if self.is_empty() && self.deadline_id().is_none() {
            return;
        }
        renames::expect();
        let (entry, watch) = self.mark_unlinked();
        inbox::post(Notification::LockVanished(at.to_buf(), entry, watch));
    }

    fn destroyed(&mut self) {
        if let Some(entry) = self.deadline_id().filter(|_| !self.is_unlinked()) {
            destroyed::add(Destroyed::Lock(entry));
        }
    }

    /// The fence clock, in the cases where the wall clock is not enough: while there are locks, because then the file needs the module
    /// anyway, and while the counter is ahead of the clock, because the clock was set back.
    fn save_aux() -> Vec<u8> {
        fence_clock::to_save()
    }

    fn load_aux(saved: &[u8]) -> Result<(), String> {
        fence_clock::saved(saved)
    }
}
