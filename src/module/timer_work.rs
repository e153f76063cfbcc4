//! Work between commands: the inbox, due expirations, renamed values.
//!
//! It runs on the module's one deferred timer, a little at a time; the kinds of work alternate.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use crate::core::lock::{Dismissed, Found, Keyspace, Lock, LockError, WaitResult};
use crate::core::time::{Millis, Now, Wakeup};
use crate::error::Error;
use crate::module::blocked::BLOCKED;
use crate::module::destroyed::{self, Destroyed};
use crate::module::lock_session::LockSession;
use crate::module::sale_type::SaleValue;
use crate::module::state::{self, State};
use crate::module::{expirations, expire_watch, inbox, repair, sale_type};
use crate::server::ctx::{Ctx, is_connected};
use crate::server::datatype::DataType;
use crate::server::key::Shown;
use crate::server::{clock, cluster, import, panics, write_check};

/// The longest time of one turn of the timer. After it the server serves its clients before the next turn.
const TURN: Duration = Duration::from_micros(500);

/// How many steps one kind of work does before the next kind: some ten microseconds.
const SLICE: usize = 16;

/// The most clients per turn that the timer answers because the server has missed their timeout.
const FORGOTTEN: usize = 100;

/// The most requests per turn that the timer reports ended because of a demotion or a move of slots.
const DISMISSED: usize = 200;

/// How long to wait before the next check while writes are paused or data is loading. There is no event for the end of a pause.
const PAUSED: Millis = Millis(5);

/// How long to wait before the next check while the server refuses the writes of clients. There is no event for the end of that either.
const REFUSED: Millis = Millis(100);

/// What the timer may do in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// Find out whether anything is due. If so, the server is asked whether it takes writes.
    Look,
    /// All that is due.
    Decide,
    /// End waits whose time is over, which writes nothing. The server refuses the writes of clients, because what it writes now may be lost:
    /// its disk is full, or it has too few replicas and may have been replaced. Or a copying tool fills the server and decides.
    EndWaits,
    /// Nothing. This server is a replica, or writes are paused, or data is loading.
    Nothing,
}

impl May {
    /// How many decisions one kind of work may make before the next kind; `None` if it may not even look.
    fn steps(self) -> Option<usize> {
        match self {
            Self::Look => Some(0),
            Self::Decide => Some(SLICE),
            Self::EndWaits | Self::Nothing => None,
        }
    }
}

/// One turn of the timer. The server reports the end of import mode. A replica need not look again, because its effects come from the primary,
/// and a change of role arms the timer.
pub fn run(ctx: &mut Ctx<'_>) -> Wakeup {
    let began = Instant::now();
    let now = clock::now();
    let (mut may, mut pause) = if !ctx.may_write() {
        (May::Nothing, ctx.flags().is_primary().then_some(PAUSED))
    } else if import::is_on(ctx) {
        (May::EndWaits, None)
    } else {
        (May::Look, None)
    };
    // Left from a panic where nothing could be written, or on a replica that has been promoted since.
    repair::repair_all(ctx);
    let (searching, watching) = catch_up(ctx, now);
    let next = loop {
        let locks = work_on_locks(ctx, now, may);
        let sales = may.steps().map_or(Wakeup::Never, |steps| expirations::tick(ctx, now, steps));
        let next = locks.min(sales);
        if next != Wakeup::Now {
            break next;
        }
        if may == May::Look {
            let refused = write_check::refuses_all(ctx);
            (may, pause) = if refused { (May::EndWaits, Some(REFUSED)) } else { (May::Decide, None) };
        } else if began.elapsed() >= TURN {
            break next;
        }
    };
    // The scan yields to all other users of the server.
    let search = if searching { now.ms.plus(Millis(1)).into() } else { Wakeup::Never };
    let again = Wakeup::from(pause.and_then(|pause| now.ms.plus(pause)));
    next.min(search).min(watching).min(again).min(BLOCKED.next_over(now.ms))
}

/// Processes the inbox and continues the scan for renamed values; returns whether there is more to scan, and when to look at the slots.
fn catch_up(ctx: &mut Ctx<'_>, now: Now) -> (bool, Wakeup) {
    let mut session = LockSession::new(ctx.reborrow());
    let caught_up = state::enter_as_is(|state| {
        state::drain_inbox(state);
        let faulty = panics::take_fault();
        if faulty {
            state.locks.reconcile(now.ms, |client| is_connected(client.get()), |waiter| BLOCKED.is_waiting(waiter));
            for waiter in BLOCKED.unanswered().into_iter().filter(|waiter| !state.locks.is_queued(now.ms, *waiter)) {
                session.answer(waiter, WaitResult::Failed(LockError::Fault));
            }
            state.renamed.for_everything();
        }
        let forgotten = BLOCKED.forgotten(now.ms, FORGOTTEN);
        for waiter in &forgotten {
            state.locks.timed_out(now.ms, *waiter);
            session.answer(*waiter, WaitResult::TimedOut);
        }
        let State { slots, locks, .. } = &mut *state;
        let watching = if cluster::is_node() { slots.look(session.free_ctx(), now.ms, locks) } else { Wakeup::Never };
        let dismissed = locks.take_dismissed(DISMISSED);
        let more = forgotten.len() == FORGOTTEN || dismissed.len() == DISMISSED;
        for dismissed in dismissed {
            match dismissed {
                Dismissed::Demoted(notice) => session.fail(notice, &Error::Demoted),
                Dismissed::Moved(notice, slot) => session.fail(notice, &slots.redirection(slot)),
            }
        }
        // Values that were loaded or found need no scan.
        register_loaded(state, &mut session);
        state.locks.is_searching = state.renamed.go_on(session.free_ctx(), &TYPES, is_unlinked, inbox::loaded);
        (state.locks.is_searching | more, watching, faulty)
    });
    session.leave();
    // It borrows the context.
    drop(session);
    let (searching, watching, faulty) = caught_up.unwrap_or((true, Wakeup::Never, false));
    if faulty {
        BLOCKED.unblock_nameless(ctx, &WaitResult::Failed(LockError::Fault));
    }
    (searching, watching)
}

/// A slice of the work on locks, and of registering loaded values.
fn work_on_locks(ctx: &mut Ctx<'_>, now: Now, may: May) -> Wakeup {
    let mut session = LockSession::new(ctx.reborrow());
    let next = state::enter_as_is(|state| {
        state::drain_inbox(state);
        let more = forget_destroyed(state) | register_loaded(state, &mut session);
        for client in state.locks.take_unverified_sessions().into_iter().filter(|client| !is_connected(client.get())) {
            state.locks.client_gone(now.ms, client);
        }
        let State { locks, expiring, .. } = &mut *state;
        let next = if let Some(steps) = may.steps() {
            let looking = expire_watch::look(expiring, &mut session, now.ms, locks);
            looking.min(locks.tick(now, steps, &mut session))
        } else if may == May::EndWaits {
            locks.end_waits(now, SLICE, &mut session)
        } else {
            Wakeup::Never
        };
        if more { Wakeup::Now } else { next }
    });
    session.leave();
    next.unwrap_or(Wakeup::Now)
}

/// Closes the entries of locks and sales that were destroyed without an `unlink` callback; returns whether there are more.
fn forget_destroyed(state: &mut State) -> bool {
    for gone in destroyed::take(SLICE) {
        match gone {
            Destroyed::Lock(entry) => state.locks.destroyed(entry),
            Destroyed::Sale(entry) => state.sales.remove(entry),
        }
    }
    destroyed::any()
}

/// The data types with values that may be renamed.
const TYPES: [&CStr; 2] = [Lock::NAME, SaleValue::NAME];

/// Whether the value of a key has lost its name; `None` if it is neither a lock nor a sale.
fn is_unlinked(key: &mut Shown<'_>) -> Option<bool> {
    let lock = key.content::<Lock>().ok().flatten().map(|lock| lock.is_unlinked());
    lock.or_else(|| key.content::<SaleValue>().ok().flatten().map(|sale| sale.is_unlinked()))
}

/// Registers locks and sales that were loaded or found; returns whether there are more.
fn register_loaded(state: &mut State, session: &mut LockSession<'_>) -> bool {
    for _ in 0..SLICE {
        let Some(key) = inbox::next_loaded() else { return false };
        if let Found::Lock(lock) = session.find(key.as_key()) {
            state.locks.reregister(key.as_key(), lock);
        } else if let Some(sale) = session.sale(key.as_key()) {
            sale_type::schedule(&mut state.sales, key.as_key(), sale);
        }
    }
    true
}
