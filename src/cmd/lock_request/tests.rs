//! Requests that would wait, on servers that block clients and on such as do not.

use super::super::lock_acquire::LockAcquire;
use super::super::lock_release::LockRelease;
use crate::core::lock::{LockError, WaitResult};
use crate::core::time::{UnixMs, Wakeup};
use crate::module::blocked::BLOCKED;
use crate::module::state;
use crate::server::fake_server::clients::{Blocking, call, ctx, serve};

/// One token holds the lock, another asks to wait for it, and this is its reply.
fn ask(told: &[&str]) {
    assert_eq!(call::<LockAcquire>("LOCK.ACQUIRE lock TOKEN holder PX 60000")[..2], ["array of 3", "holder"]);
    assert_eq!(call::<LockAcquire>("LOCK.ACQUIRE lock TOKEN waiter WAIT 1000"), told);
}

/// No request waits in line, no client is parked, with a place in line or without, and no time limit runs.
fn nobody_waits() {
    assert_eq!(state::enter_as_is(|state| state.locks.waiters()), Some(0));
    assert_eq!(BLOCKED.unanswered(), []);
    assert_eq!(BLOCKED.next_over(UnixMs(0)), Wakeup::Never);
    BLOCKED.unblock_nameless(&mut ctx(), &WaitResult::Failed(LockError::Fault));
}

/// So there is no client to be woken.
fn nobody_is_next() {
    nobody_waits();
    assert_eq!(call::<LockRelease>("LOCK.RELEASE lock holder"), ["1"]);
    // It is free.
    assert_eq!(call::<LockAcquire>("LOCK.ACQUIRE lock TOKEN next")[..2], ["array of 3", "next"]);
    assert_eq!(call::<LockRelease>("LOCK.RELEASE lock next"), ["1"]);
}

#[test]
fn a_client_that_is_blocked_waits_for_its_turn() {
    serve(Blocking::Done, || {
        ask(&[]);
        assert_eq!((state::enter_as_is(|state| state.locks.waiters()), BLOCKED.unanswered().len()), (Some(1), 1));
        let replies = call::<LockRelease>("LOCK.RELEASE lock holder");
        // The releasing client gets its reply before the waiter does.
        assert_eq!((&replies[..3], replies.len()), (&["1", "array of 3", "waiter"].map(String::from)[..], 5));
        nobody_waits();
        assert_eq!(call::<LockRelease>("LOCK.RELEASE lock waiter"), ["1"]);
    });
}

#[test]
fn a_client_that_the_server_will_not_block_hears_null_as_in_a_transaction() {
    serve(Blocking::Refused, || {
        ask(&["null"]);
        nobody_is_next();
    });
}

#[test]
fn a_client_that_the_server_has_told_why_it_does_not_block_it_hears_nothing_else() {
    serve(Blocking::Feigned, || {
        ask(&["ERR timeout is out of range"]);
        nobody_is_next();
    });
}
