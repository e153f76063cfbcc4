//! The lock as a value: its size, its indexes, its bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::world::{client, token};
use crate::core::codec::Corrupt;
use crate::core::fence::Fence;
use crate::core::limits::{MAX_FENCE, MAX_PERMITS};
use crate::core::lock::{Hold, HoldRef, Lock, Mode};
use crate::core::time::UnixMs;

fn hold(name: &str, fence: u64, deadline: i64) -> Hold {
    Hold { token: token(name), fence: Fence(fence), deadline: UnixMs(deadline), limit: 0, session: None }
}

#[test]
fn a_lock_with_one_hold_is_small_and_keeps_nothing_elsewhere() {
    assert_eq!(size_of::<Hold>(), 56);
    assert!(size_of::<Lock>() <= 64, "{}", size_of::<Lock>());
    let mut lock = Lock::vacant();
    lock.set(Mode::Exclusive, hold("ann", 1, 1));
    assert_eq!((lock.memory(), lock.effort()), (0, 1));
    lock.set(Mode::Exclusive, Hold { session: Some(client(4)), ..hold("ann", 1, 1) });
    assert_eq!(lock.memory(), 24);
    lock.set(Mode::Shared, hold("a token that does not fit beside its length", 2, 1));
    assert!(lock.memory() > 100 && lock.effort() == 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// However holds come and go, every way to look at them shows the same.
    #[test]
    fn the_indexes_agree(steps in vec((0..6_u8, 0..6_u64, 1..6_i64, any::<bool>()), 0..40)) {
        let mut lock = Lock::vacant();
        let mut plain: Vec<Hold> = Vec::new();
        for (number, (name, _, deadline, add)) in steps.into_iter().enumerate() {
            let name = format!("token-{name}");
            let before = plain.iter().position(|hold| hold.token == token(&name));
            if add {
                let fresh = hold(&name, number as u64 + 1, deadline);
                let old = before.map(|at| plain.remove(at));
                plain.push(fresh.clone());
                prop_assert_eq!(lock.set(Mode::Shared, fresh), old);
            } else if let Some(at) = before {
                let old = plain.remove(at);
                prop_assert_eq!(lock.take(old.fence), Some(old));
            }
            prop_assert_eq!(lock.holds().map(HoldRef::to_hold).collect::<Vec<_>>(), plain.clone());
            prop_assert_eq!((lock.len(), lock.is_empty()), (plain.len(), plain.is_empty()));
            prop_assert_eq!(lock.earliest(), plain.iter().map(|hold| hold.deadline).min());
            for hold in &plain {
                prop_assert_eq!((lock.hold(&hold.token), lock.hold_of(hold.fence)), (Some(hold.as_ref()), Some(hold.as_ref())));
            }
            prop_assert_eq!(lock.hold(&token("nobody")), None);
            prop_assert_eq!(lock.hold_of(Fence(0)), None);
        }
        while let Some((deadline, fence)) = lock.first().filter(|(deadline, _)| deadline.reached(UnixMs(3))) {
            let hold = lock.take(fence).unwrap();
            prop_assert_eq!(hold.deadline, deadline);
            prop_assert!(plain.iter().all(|other| hold.deadline <= other.deadline));
            plain.retain(|other| *other != hold);
        }
        prop_assert!(plain.iter().all(|hold| hold.deadline > UnixMs(3)));
    }

    #[test]
    fn a_lock_comes_back_from_its_bytes(lock in lock()) {
        let bytes = lock.encode();
        let copy = Lock::decode(&bytes).unwrap();
        prop_assert_eq!(&copy, &lock);
        prop_assert_eq!(copy.encode(), bytes);
        prop_assert!(copy.digest().eq(lock.digest()));
        prop_assert_eq!(copy.deadline_id(), None);
    }

    #[test]
    fn damaged_bytes_are_refused_or_a_sound_lock(lock in lock(), at in any::<prop::sample::Index>(), flip: u8, cut: bool) {
        let mut bytes = lock.encode();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
            prop_assert!(Lock::decode(&bytes).is_err());
        } else {
            bytes[at] ^= flip;
            check_decode(&bytes);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_sound_lock(mut bytes in vec(any::<u8>(), 0..80), ours: bool) {
        if ours && bytes.len() > 2 {
            bytes[0] = 1;
            bytes[1] %= 3;
            bytes[2] %= 4;
        }
        check_decode(&bytes);
    }
}

/// Whatever decodes has one form only, and nothing in it that cannot be.
fn check_decode(bytes: &[u8]) {
    let Ok(lock) = Lock::decode(bytes) else { return };
    assert_eq!(lock.encode(), bytes);
    assert!(!lock.is_empty() && (lock.mode() != Mode::Exclusive || lock.len() == 1));
    for hold in lock.holds() {
        assert!((1..=MAX_FENCE).contains(&hold.fence.0) && hold.deadline.0 > 0);
        assert_eq!(lock.mode() == Mode::Limit, (1..=MAX_PERMITS).contains(&hold.limit));
        assert_eq!(lock.hold(hold.token), Some(hold));
    }
}

fn lock() -> impl Strategy<Value = Lock> {
    let modes = prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared), Just(Mode::Limit)];
    let hold = (vec(any::<u8>(), 1..40), 1..=MAX_FENCE, 1..=i64::MAX, 1..=MAX_PERMITS);
    (modes, vec(hold, 1..6)).prop_map(|(mode, holds)| {
        let mut lock = Lock::vacant();
        for (name, fence, deadline, limit) in holds {
            let token = crate::core::id::Ident::new(&name).unwrap();
            let fits = mode != Mode::Exclusive || lock.is_empty();
            if fits && lock.hold(&token).is_none() && lock.hold_of(Fence(fence)).is_none() {
                let limit = if mode == Mode::Limit { limit } else { 0 };
                lock.set(mode, Hold { token, fence: Fence(fence), deadline: UnixMs(deadline), limit, session: None });
            }
        }
        lock
    })
}

#[test]
fn each_impossible_lock_is_refused() {
    let mut lock = Lock::vacant();
    lock.set(Mode::Exclusive, Hold { session: Some(client(4)), ..hold("ann", 300, 5) });
    let good = lock.encode();
    assert_eq!(good, [1, 0, 1, 3, b'a', b'n', b'n', 0xac, 2, 5], "the session is not kept");
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Lock::decode(&bytes)
    };
    assert_eq!(changed(0, 2), Err(Corrupt::Newer { version: 2, newest: 1 }));
    assert_eq!(changed(0, 0), Err(Corrupt::Invalid));
    assert_eq!(changed(1, 3), Err(Corrupt::Invalid), "no such mode");
    assert_eq!(changed(1, 2), Err(Corrupt::Truncated), "no limit");
    assert_eq!(changed(2, 0), Err(Corrupt::Invalid), "no hold");
    assert_eq!(changed(2, 2), Err(Corrupt::Invalid), "two exclusive ones");
    assert_eq!(changed(9, 0), Err(Corrupt::Invalid), "no deadline");
    assert_eq!(Lock::decode(&[&good[..], &[0]].concat()), Err(Corrupt::Invalid), "left over");
    assert_eq!(Lock::decode(&[]), Err(Corrupt::Truncated));
    assert_eq!(Lock::decode(&[1, 1, 1, 0, 1, 1]), Err(Corrupt::Invalid), "no token");
    assert_eq!(Lock::decode(&[1, 1, 1, 1, b'a', 0, 1]), Err(Corrupt::Invalid), "no fence");
    assert_eq!(Lock::decode(&[1, 1, 2, 1, b'a', 1, 1, 1, b'b', 0, 1]), Err(Corrupt::Invalid), "the same fence");
    assert_eq!(Lock::decode(&[1, 1, 2, 1, b'a', 1, 1, 1, b'a', 1, 1]), Err(Corrupt::Invalid), "the same token");
    assert_eq!(Lock::decode(&[1, 2, 1, 1, b'a', 1, 1, 0]), Err(Corrupt::Invalid), "no limit at all");
    let huge = [1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(Lock::decode(&huge), Err(Corrupt::Truncated), "a promise of holds allocates nothing");
}
