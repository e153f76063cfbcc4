//! A scan through the whole keyspace, a little at a time, round after round.
//!
//! There are two methods. On Valkey, `SCAN` with `TYPE` skips other keys without copying their names, and takes a fifth of the time of the
//! server's module function. On Redis it gains little or nothing, and Redis 7.0 would count each key as used. So the function is used on
//! Redis, and also if `rename-command` has removed `SCAN`.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use super::api::{self, RawCtx, RawCursor, RawKey, RawString};
use super::args::{Arg, Name};
use super::call::{How, Text, call};
use super::ctx::Ctx;
use super::faults;
use super::guard::guard;
use super::key::{Access, Key, Shown};
use super::server_facts;
use crate::core::key::KeyRef;

/// The position of a scan. It sees all keys that exist for a whole round, perhaps others, and some twice.
pub struct KeyspaceScan {
    way: Way,
    /// The current database; `None` before a round.
    db: Option<i32>,
    /// The databases still to come in this round, the next one last.
    coming: Vec<i32>,
    /// All databases known in this round, in order.
    known: BTreeSet<i32>,
    /// Whether it has shown every key so far.
    is_whole: bool,
}

/// How to scan a database, and the position in it.
enum Way {
    /// With `SCAN`; its cursor.
    Command(u64),
    /// With the function for modules.
    Function(NonNull<RawCursor>),
}

// SAFETY: the cursor is memory of the server that is not tied to a thread; scans are kept in a `ServerCell` anyway.
unsafe impl Send for KeyspaceScan {}

/// Looks at one key. It may read the value but change nothing in the keyspace.
type See<'f> = &'f mut dyn FnMut(KeyRef<'_>, &mut Shown<'_>);

struct Visit<'f> {
    db: i32,
    see: See<'f>,
}

impl Way {
    fn function() -> Option<Self> {
        // SAFETY: takes nothing; the cursor is ours. There is at most one scan in the life of the server, so it is never freed.
        NonNull::new(unsafe { api::scan_cursor_create() }).map(Self::Function)
    }

    /// Goes to the first key of a database.
    fn begin(&mut self) {
        match self {
            Self::Command(cursor) => *cursor = 0,
            // SAFETY: the cursor is ours.
            Self::Function(cursor) => unsafe { api::scan_cursor_restart(cursor.as_ptr()) },
        }
    }
}

impl KeyspaceScan {
    /// A scan that begins at the first key of the first database; `None` if the server has no memory for it.
    pub fn new() -> Option<Self> {
        let way = if server_facts::is_valkey() { Some(Way::Command(0)) } else { Way::function() };
        way.map(|way| Self { way, db: None, coming: Vec::new(), known: BTreeSet::new(), is_whole: true })
    }

    /// Continues for about `span` and shows keys to `see`: those with a value of one of the types `kinds`, and perhaps others. Returns true
    /// after a whole round in which every key was shown; then the next key is the first one.
    pub fn go(&mut self, ctx: &mut Ctx<'_>, kinds: &[&CStr], span: Duration, see: See<'_>) -> bool {
        let (db, begun) = (ctx.db(), Instant::now());
        if self.db.is_none() {
            self.coming.clear();
            self.known.clear();
            self.is_whole = true;
            self.db = self.next_db(ctx);
        }
        while let Some(current) = self.db
            && begun.elapsed() < span
        {
            if !ctx.select(current) || self.step(ctx, current, kinds, see) {
                self.way.begin();
                self.db = self.next_db(ctx);
            }
        }
        ctx.select(db);
        self.db.is_none() && self.is_whole
    }

    /// A database that is left in this round. The server is asked for the list when all known ones are done, because another may have got
    /// its first key since. There may be thousands of databases, so the server is not asked after each.
    fn next_db(&mut self, ctx: &mut Ctx<'_>) -> Option<i32> {
        if self.coming.is_empty() {
            let Self { coming, known, .. } = self;
            coming.extend(server_facts::databases(ctx).into_iter().filter(|db| known.insert(*db)));
            coming.reverse();
        }
        self.coming.pop()
    }

    /// Scans for some ten microseconds: shows the next keys of the database `db`, which `ctx` has selected; true after the last key.
    fn step(&mut self, ctx: &mut Ctx<'_>, db: i32, kinds: &[&CStr], see: See<'_>) -> bool {
        match self.way {
            Way::Function(cursor) => by_function(ctx, db, cursor, see),
            Way::Command(cursor) => {
                let Some((next, is_whole)) = by_command(ctx, db, cursor, kinds, see) else {
                    // Restart this database with the other method.
                    self.way = Way::function().unwrap_or(Way::Command(0));
                    return false;
                };
                self.way = Way::Command(next);
                self.is_whole &= is_whole;
                next == 0
            }
        }
    }
}

/// The number of keys that `SCAN` looks at in one step.
const COUNT: &[u8] = b"200";

/// Scans the next keys in the database of `ctx` for values of the type `kind`. Returns where to continue, 0 after the last key, and the names
/// that it found; `None` if the server refuses.
fn scan(ctx: &mut Ctx<'_>, cursor: u64, kind: &CStr) -> Option<(u64, Vec<Text>)> {
    faults::point();
    let mut from = itoa::Buffer::new();
    let words = [from.format(cursor).as_bytes(), b"TYPE", kind.to_bytes(), b"COUNT", COUNT];
    let reply = call(ctx, c"SCAN", How::Quietly, &words)?;
    let cursor = std::str::from_utf8(&reply.element(0)?).ok()?.parse().ok()?;
    Some((cursor, reply.elements(1)))
}

/// Shows the next keys of each of the types `kinds`. It scans the same part of the database for each type, which is in the processor's
/// cache for all but the first. Returns where to continue, 0 after the last key, and whether the parts were the same; `None` if the server
/// refuses.
fn by_command(ctx: &mut Ctx<'_>, db: i32, cursor: u64, kinds: &[&CStr], see: See<'_>) -> Option<(u64, bool)> {
    let mut ends = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let (next, names) = scan(ctx, cursor, kind)?;
        for name in &names {
            let mut key = Key::open(ctx.reborrow(), &Name::make(name), Access::Glance);
            if let Some(mut key) = key.show() {
                see(KeyRef { db, key: name }, &mut key);
            }
        }
        ends.push(next);
    }
    // The parts differ if the hash table is rebuilt in between, because the first scan found expired keys.
    ends.dedup();
    Some((*ends.first()?, ends.len() == 1))
}

/// The number of function calls, of a few keys each, between two checks of the clock.
const STEPS: usize = 16;

/// Makes the server show some keys of the database of `ctx`; true after the last key.
fn by_function(ctx: &mut Ctx<'_>, db: i32, cursor: NonNull<RawCursor>, see: See<'_>) -> bool {
    let mut visit = Visit { db, see };
    (0..STEPS).any(|_| {
        let visit = (&raw mut visit).cast::<c_void>();
        // SAFETY: context and cursor are valid; `visit` outlives the call, and the callback is only called within it.
        unsafe { api::scan(ctx.raw(), cursor.as_ptr(), Some(on_key), visit) == 0 }
    })
}

unsafe extern "C" fn on_key(_: *mut RawCtx, name: *mut RawString, key: *mut RawKey, visit: *mut c_void) {
    // SAFETY: `by_function` passed this, and waits for the call to end.
    if let Some(visit) = unsafe { visit.cast::<Visit<'_>>().as_mut() }
        && let Some(key) = NonNull::new(key)
    {
        // SAFETY: the name and the open key are valid while the callback runs, and the server uses the value for nothing else.
        let (name, mut key) = unsafe { (Arg::new(name), Shown::new(key)) };
        guard("a scan of the keys", || (visit.see)(KeyRef { db: visit.db, key: name.bytes() }, &mut key));
    }
}
