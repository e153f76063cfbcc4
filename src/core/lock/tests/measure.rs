//! What calls take and what entries weigh:
//! `cargo test --release --lib lock::tests::measure -- --ignored --nocapture --test-threads=1`.
#![expect(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "small numbers")]

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use super::world::{ask, token};
use crate::core::deadline_index::DeadlineIndex;
use crate::core::id::Ident;
use crate::core::key::KeyRef;
use crate::core::lock::{
    Acquired, Claim, EndReason, Engine, Extension, Found, Hold, Keyspace, Lock, Mode, Notice, WaitResult, WaiterId,
};
use crate::core::time::{Millis, Now, UnixMs, Wakeup};

/// A world of one key, which costs next to nothing.
#[derive(Default)]
struct OneKey {
    lock: Option<Lock>,
    answered: Option<WaiterId>,
}

impl Keyspace for OneKey {
    fn find(&mut self, _: KeyRef<'_>) -> Found<'_> {
        self.lock.as_mut().map_or(Found::Nothing, Found::Lock)
    }

    fn put(&mut self, _: KeyRef<'_>, lock: Lock) {
        self.lock = Some(lock);
    }

    fn delete(&mut self, _: KeyRef<'_>) {
        self.lock = None;
    }

    fn held(&mut self, _: KeyRef<'_>, _: Mode, hold: Hold) {
        black_box(hold);
    }

    fn ended(&mut self, _: KeyRef<'_>, token: Ident, _: EndReason) {
        black_box(token);
    }

    fn clear_expire(&mut self, _: KeyRef<'_>) {}

    fn block_client(&mut self, _: Millis) -> bool {
        true
    }

    fn client_blocked(&mut self, _: WaiterId) {}

    fn answer(&mut self, waiter: WaiterId, _: WaitResult) {
        self.answered = Some(waiter);
    }

    fn publish(&mut self, notice: Box<Notice>, outcome: WaitResult) {
        black_box((notice, outcome));
    }

    fn owns_slot(&mut self, _: KeyRef<'_>) -> bool {
        true
    }
}

const NOW: Now = Now { ms: UnixMs(1_800_000_000_000), us: 1_800_000_000_000_000 };

fn key(number: usize) -> Vec<u8> {
    format!("lock:order:{number:012}").into_bytes()
}

/// Nanoseconds that this thread has had of the processor, so that a busy machine does not count.
fn cpu() -> u64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    times.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

/// Runs `f` often and prints what one call takes at best.
fn time(what: &str, times: usize, mut f: impl FnMut(usize)) {
    let rounds = (0..9).map(|_| {
        let start = cpu();
        (0..times).for_each(&mut f);
        (cpu() - start) / times as u64
    });
    println!("{what}: {} ns", rounds.min().unwrap_or_default());
}

fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4_096
}

#[test]
#[ignore = "a measurement"]
fn the_agenda() {
    for entries in [0, 1_000, 100_000, 1_000_000] {
        let mut index = DeadlineIndex::default();
        let keys: Vec<Vec<u8>> = (0..entries).map(key).collect();
        let with_keys = resident();
        let mut slowest = 0;
        for (number, name) in keys.iter().enumerate() {
            let start = Instant::now();
            index.insert(KeyRef { db: 0, key: name }, UnixMs(number as i64));
            slowest = slowest.max(start.elapsed().as_micros());
        }
        let each = (resident() - with_keys) / entries.max(1);
        println!("{entries} entries: {each} bytes each with a key of 23, slowest arm {slowest} us");
        let name = key(7);
        time(&format!("arm and disarm beside {entries}"), 200_000, |number| {
            let entry = index.insert(KeyRef { db: 0, key: &name }, UnixMs((entries + number) as i64));
            index.remove(entry);
        });
        let entry = index.insert(KeyRef { db: 0, key: &name }, UnixMs(0));
        time(&format!("rearm later beside {entries}"), 200_000, |number| {
            index.reschedule(entry, UnixMs(number as i64));
        });
        let start = cpu();
        index.flush(Some(0));
        println!("flush of {entries}: {} us", (cpu() - start) / 1_000);
    }
}

#[test]
#[ignore = "a measurement"]
fn the_cycle() {
    let mut engine = Engine::default();
    let mut keyspace = OneKey::default();
    let name = key(7);
    let at = KeyRef { db: 0, key: &name };
    for request in
        [ask("67e55044-10b1-426f-9247-bb680e5fe0c8"), ask("67e55044-10b1-426f-9247-bb680e5fe0c8").session().by(1)]
    {
        time(
            if request.session { "acquire and release, with session" } else { "acquire and release" },
            200_000,
            |_| {
                black_box(engine.acquire(NOW, at, &request, &mut keyspace)).unwrap().granted();
                black_box(engine.release(NOW, &[at], Claim::of(&request.token), &mut keyspace)).unwrap();
            },
        );
    }
    let mine = ask("mine");
    engine.acquire(NOW, at, &mine, &mut keyspace).unwrap().granted();
    time("renewal", 200_000, |_| {
        black_box(engine.acquire(NOW, at, &mine, &mut keyspace)).unwrap().granted();
    });
    time("extend", 200_000, |_| {
        black_box(engine.extend(
            NOW,
            &[at],
            Claim::of(&mine.token),
            Extension { lease: Millis(5_000), only_later: false },
            &mut keyspace,
        ))
        .unwrap();
    });
    let other = ask("other");
    time("refusal", 200_000, |_| {
        assert_eq!(engine.acquire(NOW, at, &other, &mut keyspace), Ok(Acquired::Refused));
    });
}

#[test]
#[ignore = "a measurement"]
fn the_hand_over() {
    for waiters in [10, 1_000, 100_000] {
        let mut engine = Engine::default();
        let mut keyspace = OneKey::default();
        let at = KeyRef { db: 0, key: b"door" };
        let name = |number: usize| token(&format!("waiter-{number}"));
        let mut holder = 0;
        let first = ask("waiter-0");
        engine.acquire(NOW, at, &first, &mut keyspace).unwrap().granted();
        for number in 1..=waiters {
            let request = ask(&format!("waiter-{number}")).waiting(0);
            engine.acquire(NOW, at, &request.by(number as u64), &mut keyspace).unwrap().parked();
        }
        let mut last = waiters;
        time(&format!("release, hand-over, delivery and a new waiter behind {waiters}"), 20_000, |_| {
            assert_eq!(engine.release(NOW, &[at], Claim::of(&name(holder)), &mut keyspace), Ok(1));
            engine.delivered(keyspace.answered.take().unwrap());
            holder += 1;
            last += 1;
            let request = ask(&format!("waiter-{last}")).waiting(0);
            engine.acquire(NOW, at, &request.by(last as u64), &mut keyspace).unwrap().parked();
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn a_hundred_thousand_readers() {
    let mut engine = Engine::default();
    let mut keyspace = OneKey::default();
    let at = KeyRef { db: 0, key: b"book" };
    let readers: Vec<_> = (0..100_000).map(|number| ask(&format!("reader-{number}")).shared()).collect();
    let before = resident();
    let start = cpu();
    for reader in &readers {
        engine.acquire(NOW, at, reader, &mut keyspace).unwrap().granted();
    }
    let each = (cpu() - start) / readers.len() as u64;
    let bytes = (resident() - before) / readers.len();
    let lock = keyspace.lock.as_ref().unwrap();
    println!("each of 100,000 readers: {each} ns, {bytes} bytes, {} by its own account", lock.memory() / readers.len());
    let start = cpu();
    let copy = Lock::decode(&black_box(lock.encode())).unwrap();
    println!("saved and loaded: {} us, {} bytes", (cpu() - start) / 1_000, copy.encode().len());
    let later = Now::from_micros(NOW.us + 1_000_000);
    let (mut ticks, mut slowest) = (0, 0);
    loop {
        let start = cpu();
        let next = engine.tick(later, 500, &mut keyspace);
        slowest = slowest.max((cpu() - start) / 1_000);
        ticks += 1;
        if next != Wakeup::Now {
            break;
        }
    }
    println!("lapsed in {ticks} ticks of 500, the slowest {slowest} us");
}
