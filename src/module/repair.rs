//! Repairing keys after a module panic.
//!
//! A panic may come between a change and its effect, or between an event in a sale's stream and its change, and its exact position is
//! unknown. So every key that was in use is repaired: an event without a change is removed from the stream, and replicas and the AOF get
//! the whole value, which replaces their own. This is done within the same call from the server, so nothing can happen in between.

use std::thread;

use crate::core::key::{KeyBuf, KeyRef};
use crate::core::lock::Lock;
use crate::module::sale_type::SaleValue;
use crate::module::{lock_effect, sale_effect};
use crate::server::args::Name;
use crate::server::cell::ServerCell;
use crate::server::ctx::{Ctx, Level};
use crate::server::key::{self, Access, Key};
use crate::server::replicate;
use crate::server::stream::{self, EntryId};

/// A stream entry whose change was not committed, so it must be removed.
pub struct OrphanEvent {
    /// The stream's key.
    pub stream: Box<[u8]>,
    /// The entry.
    pub entry: EntryId,
}

impl OrphanEvent {
    /// Removes the entry from the stream; `sale` is the key of the sale.
    pub fn take_out(&self, ctx: &mut Ctx<'_>, sale: &[u8]) {
        match stream::take_out(ctx, &self.stream, &self.entry) {
            Ok(true) => {}
            Ok(false) => {
                // Another command removed it here before replicas and the AOF got it.
                replicate::effect(ctx, c"XDEL", &Name::make(&self.stream), &[Name::make(&self.entry)]);
                self.complain(ctx, sale, "the entry is not there any more");
            }
            Err(why) => self.complain(ctx, sale, &why),
        }
    }

    fn complain(&self, ctx: &Ctx<'_>, sale: &[u8], why: &str) {
        let [sale, stream, entry] = [sale, &self.stream, &self.entry].map(|text| text.escape_ascii().to_string());
        let told = format!("the entry {entry} of {stream} tells what did not happen in the sale {sale}");
        ctx.log(Level::Warning, &format!("lockstock: {told}: {why}"));
    }
}

struct Damaged {
    key: KeyBuf,
    orphans: Vec<OrphanEvent>,
}

static DAMAGED: ServerCell<Vec<Damaged>> = ServerCell::new(Vec::new());

/// Runs `schedule_them` if a panic has interrupted the caller's work. For the `Drop` of types that work on keys.
pub fn if_interrupted(schedule_them: impl FnOnce()) {
    if thread::panicking() {
        schedule_them();
    }
}

/// Has the key `at` repaired: a panic interrupted work on it.
pub fn schedule(at: KeyRef<'_>, orphans: Vec<OrphanEvent>) {
    DAMAGED.with(|damaged| {
        // A replica may come here repeatedly before it is promoted.
        if !orphans.is_empty() || damaged.iter().all(|known| known.key.as_key() != at) {
            damaged.push(Damaged { key: at.to_buf(), orphans });
        }
    });
}

/// Repairs the scheduled keys, if this server may write now. Otherwise the timer calls this again.
pub fn repair_all(ctx: &mut Ctx<'_>) {
    let began_in = ctx.db();
    while DAMAGED.with(|damaged| !damaged.is_empty()).unwrap_or_default() && ctx.may_write() {
        let Some(Some(Damaged { key, orphans })) = DAMAGED.with(Vec::pop) else { break };
        let KeyRef { db, key } = key.as_key();
        ctx.select(db);
        let name = Name::make(key);
        for orphan in orphans {
            orphan.take_out(ctx, key);
        }
        send_whole(ctx, &name);
        key::touched(ctx, &name);
    }
    ctx.select(began_in);
}

/// Sends the value of the key `name`, unless it is of another type.
fn send_whole(ctx: &mut Ctx<'_>, name: &Name<'_>) {
    let mut open = Key::open(ctx.reborrow(), name, Access::Write);
    match open.content_and_ctx::<Lock>() {
        (Ok(None), ctx) => replicate::effect(ctx, c"UNLINK", name, &[]),
        (Ok(Some(lock)), ctx) if lock.is_empty() => {
            replicate::effect(ctx, c"UNLINK", name, &[]);
            open.delete();
        }
        (Ok(Some(lock)), ctx) => {
            replicate::effect(ctx, c"UNLINK", name, &[]);
            lock_effect::send_whole(ctx, name, lock);
        }
        (Err(_), _) => {
            let (Ok(Some(sale)), ctx) = open.content_and_ctx::<SaleValue>() else { return };
            replicate::effect(ctx, c"UNLINK", name, &[]);
            sale_effect::send_whole(ctx, name, sale);
        }
    }
    if let Some(at) = open.expires() {
        replicate::effect(open.quiet(), c"PEXPIREAT", name, &[Name::make(at.0.to_string().as_bytes())]);
    }
}
