//! The power cut in the middle of everything: what was acknowledged is there, and nothing that was not asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::harness::{Client, OK, Reply, Server, eventually};
use crate::scene::{holds, random};

/// What a client knows of one of its tokens at one lock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// It holds the lock with this fence.
    Held(i64),
    /// It does not.
    Free,
    /// The cut came before the answer.
    Unasked,
}

/// By lock and token. Each token belongs to one client, so its book is exact.
type Book = BTreeMap<(String, String), Known>;

const LOCKS: u8 = 12;

/// The mode that everybody takes this lock in.
fn mode(lock: u8) -> &'static str {
    ["", "SHARED", "LIMIT 3"][usize::from(lock % 3)]
}

/// Takes, extends and releases locks at random and checks every answer, until the connection ends.
fn work(mut client: Client, name: &str, mut book: Book, mut random: fastrand::Rng, answers: &AtomicUsize) -> Book {
    loop {
        let lock = random.u8(..LOCKS);
        let token = format!("{name}-{}", random.u8(..3));
        let words = match random.u8(..10) {
            0..5 => format!("LOCK.ACQUIRE lock-{lock} TOKEN {token} EX 3600 {}", mode(lock)),
            5 => format!("LOCK.EXTEND lock-{lock} {token} EX 7200"),
            _ => format!("LOCK.RELEASE lock-{lock} {token}"),
        };
        let known = book.entry((format!("lock-{lock}"), token)).or_insert(Known::Free);
        let Some(answer) = client.attempt(&words) else {
            *known = Known::Unasked;
            return book;
        };
        *known = match (*known, &answer) {
            (Known::Held(fence), Reply::Array(grant)) if grant[1] == Reply::Int(fence) => Known::Held(fence),
            (Known::Free, Reply::Array(grant)) => Known::Held(grant[1].int()),
            (Known::Held(fence), Reply::Int(1)) if words.starts_with("LOCK.EXTEND") => Known::Held(fence),
            (Known::Held(_), Reply::Int(1)) | (Known::Free, Reply::Int(0) | Reply::Nil(_)) => Known::Free,
            (before, answer) => panic!("{words}: {answer:?}, after {before:?}"),
        };
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Compares the server with all books, and writes into them what came of the requests without an answer.
#[track_caller]
fn settle(server: &Server, books: &mut [Book]) {
    for lock in 0..LOCKS {
        let lock = format!("lock-{lock}");
        let held = holds(server, &lock);
        let mut accounted = 0;
        for ((_, token), known) in books.iter_mut().flatten().filter(|((name, _), _)| *name == lock) {
            let now = held.get(token).map_or(Known::Free, |fence| Known::Held(*fence));
            assert!(*known == now || *known == Known::Unasked, "{token} at {lock}: {known:?} before, {now:?} after");
            *known = now;
            accounted += usize::from(now != Known::Free);
        }
        assert_eq!(accounted, held.len(), "holds that nobody asked for at {lock}: {held:?}");
    }
}

#[test]
fn every_acknowledged_hold_and_release_outlives_kill_9() {
    const CLIENTS: usize = 6;
    let mut server = Server::builder().aof("always").start();
    let mut books = vec![Book::new(); CLIENTS];
    let mut random = random();
    for round in 0..4 {
        let answers = AtomicUsize::new(0);
        books = thread::scope(|scope| {
            let workers: Vec<_> = books
                .drain(..)
                .enumerate()
                .map(|(number, book)| {
                    let (client, random, answers) = (server.client(), random.fork(), &answers);
                    scope.spawn(move || work(client, &format!("client-{number}"), book, random, answers))
                })
                .collect();
            // Two of the cuts come when a rewrite has just begun, as RDB and as commands.
            eventually("there was some work", || answers.load(Ordering::Relaxed) > 500);
            if round > 1 {
                let preamble = if round == 2 { "yes" } else { "no" };
                server.expect(format!("CONFIG SET aof-use-rdb-preamble {preamble}"), OK);
                server.cmd("BGREWRITEAOF");
            }
            let enough = 1_000 + random.usize(..500);
            eventually("there was more work", || answers.load(Ordering::Relaxed) > enough);
            server.kill9();
            workers.into_iter().map(|worker| worker.join().expect("a worker's books are right")).collect()
        });
        server.start_again();
        settle(&server, &mut books);
    }
}
