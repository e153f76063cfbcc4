//! Writes the sections of `INFO lockstock`.

use std::ffi::{CStr, c_int};

use super::api::{self, RawInfo};
use super::cell::ServerCell;
use super::ctx::Ctx;
use super::guard::guard;

/// The destination of a section's fields.
pub struct Section(*mut RawInfo);

impl Section {
    /// Adds `lockstock_<name>:<value>`.
    pub fn text(&mut self, name: &CStr, value: &CStr) {
        // SAFETY: the server's handle is valid for the callback that made `self`; the server copies name and value.
        unsafe { api::info_add_field_c_string(self.0, name.as_ptr(), value.as_ptr()) };
    }

    /// Adds `lockstock_<name>:<value>`, where the value is a number.
    pub fn field(&mut self, name: &CStr, value: impl TryInto<u64>) {
        let value = value.try_into().unwrap_or(u64::MAX);
        // SAFETY: the server's handle is valid for the callback that made `self`; the server copies the name.
        unsafe { api::info_add_field_ulong_long(self.0, name.as_ptr(), value) };
    }
}

/// Writes all fields.
pub type Write = fn(&mut Section);

static WRITE: ServerCell<Option<Write>> = ServerCell::new(None);

/// Registers `write` for every `INFO` that includes the module's section.
pub fn register(ctx: &Ctx<'_>, write: Write) -> bool {
    WRITE.with(|slot| *slot = Some(write));
    // SAFETY: the context is valid.
    unsafe { api::register_info_func(ctx.raw(), Some(section)) == api::OK }
}

unsafe extern "C" fn section(info: *mut RawInfo, for_crash_report: c_int) {
    // In a crash report none of our data may be used, because it may be the broken part.
    if for_crash_report != 0 {
        return;
    }
    // SAFETY: the handle is valid while the callback runs; an empty name means the module's own section.
    if unsafe { api::info_add_section(info, c"".as_ptr()) } != api::OK {
        return;
    }
    if let Some(Some(write)) = WRITE.with(|slot| *slot) {
        guard("INFO", || write(&mut Section(info)));
    }
}
