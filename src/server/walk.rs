//! A walk through the whole keyspace, a little at a time, round and round.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::api::{self, RawCtx, RawCursor, RawKey, RawString};
use super::args::Arg;
use super::call;
use super::ctx::Ctx;
use super::entry::guard;
use super::key::Shown;
use crate::core::place::At;

/// Where a walk has come to. Keys that are there for a whole round, from wherever it began, are seen, others perhaps; some twice.
pub struct Walk {
    cursor: NonNull<RawCursor>,
    /// The databases that this round has still to go through, the next one last.
    dbs: Vec<i32>,
}

// SAFETY: the cursor is the server's memory, not tied to a thread; walks are kept in a `MainCell` anyway.
unsafe impl Send for Walk {}

/// Looks at one key. It may read the value but change nothing in the keyspace.
type See<'f> = &'f mut dyn FnMut(At<'_>, &mut Shown<'_>);

struct Visit<'f> {
    db: i32,
    see: See<'f>,
}

impl Walk {
    /// A walk that begins at the first key of the first database; `None` when the server has no memory for it.
    pub fn new() -> Option<Self> {
        // SAFETY: takes nothing; the cursor is ours. There is one walk at most for as long as the server lives, so it is not
        // given back.
        NonNull::new(unsafe { api::scan_cursor_create() }).map(|cursor| Self { cursor, dbs: Vec::new() })
    }

    /// Goes on for about `span` and shows the keys on the way to `see`; true when the last key has been shown. Then the first one is the next.
    pub fn go(&mut self, ctx: &mut Ctx<'_>, span: Duration, see: See<'_>) -> bool {
        let (db, begun) = (ctx.db(), Instant::now());
        if self.dbs.is_empty() {
            self.dbs = call::databases(ctx);
            self.dbs.reverse();
        }
        while !self.dbs.is_empty() && begun.elapsed() < span {
            self.go_on(ctx, see);
        }
        ctx.select(db);
        self.dbs.is_empty()
    }

    /// Goes some steps, of a few keys each.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, see: See<'_>) {
        let Some(db) = self.dbs.last().copied() else { return };
        let mut visit = Visit { db, see };
        let more = ctx.select(db)
            && (0..STEPS).all(|_| {
                let visit = (&raw mut visit).cast::<c_void>();
                // SAFETY: context and cursor are valid; `visit` outlives the call, in which alone the callback is called.
                unsafe { api::scan(ctx.raw(), self.cursor.as_ptr(), Some(on_key), visit) != 0 }
            });
        if !more {
            self.dbs.pop();
            // SAFETY: the cursor is ours.
            unsafe { api::scan_cursor_restart(self.cursor.as_ptr()) };
        }
    }
}

/// How many steps to go between two looks at the clock: some ten microseconds.
const STEPS: usize = 16;

unsafe extern "C" fn on_key(_: *mut RawCtx, name: *mut RawString, key: *mut RawKey, visit: *mut c_void) {
    // SAFETY: `go` passed this, and waits for the call to end.
    if let Some(visit) = unsafe { visit.cast::<Visit<'_>>().as_mut() }
        && let Some(key) = NonNull::new(key)
    {
        // SAFETY: the name and the open key are valid while the callback runs, and the server uses the value for nothing else.
        let (name, mut key) = unsafe { (Arg::new(name), Shown::new(key)) };
        guard("a walk through the keys", || (visit.see)(At { db: visit.db, key: name.bytes() }, &mut key));
    }
}
