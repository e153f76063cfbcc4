//! The power cut in the middle of everything: what was acknowledged is there, and nothing that was not asked for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::shop::{Replay, events};
use harness::{ANY, Client, OK, Reply, Server, eventually, random};

use crate::support::scene::holds;

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

/// The mode in which all clients take this lock.
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

/// Buys, reserves, confirms and cancels at random, and keeps the last answer to each id: status, units.
fn buy(
    mut client: Client,
    name: &str,
    mut random: fastrand::Rng,
    answers: &AtomicUsize,
) -> BTreeMap<String, Option<Reply>> {
    let mut orders = BTreeMap::new();
    loop {
        let id = format!("{name}-{}", random.u16(..400));
        let words = match random.u8(..10) {
            0..6 => format!("STOCK.DECR_ONCE sale {id} QTY {} BUYER {name} REF {id}", random.u8(1..4)),
            6..8 => format!("STOCK.DECR_ONCE sale {id} HOLD 3600000 BUYER {name}"),
            8 => format!("STOCK.CONFIRM sale {id}"),
            _ => format!("STOCK.CANCEL sale {id}"),
        };
        let answer = client.attempt(&words);
        let end = answer.is_none();
        if answer.as_ref().is_none_or(|answer| ["OK", "DUPLICATE"].contains(&answer.at(0).text().as_str())) {
            let state = answer.and_then(|_| client.attempt(format!("STOCK.ORDER sale {id}")));
            orders.insert(id, state);
        }
        answers.fetch_add(1, Ordering::Relaxed);
        if end {
            return orders;
        }
    }
}

#[test]
fn every_acknowledged_order_outlives_kill_9_and_no_unit_is_lost_or_doubled() {
    let mut server = Server::builder().aof("always").start();
    server.expect("STOCK.CREATE sale 1000 LIMIT 400 STREAM events", OK);
    let mut random = random();
    for round in 0..3 {
        let answers = AtomicUsize::new(0);
        let books: Vec<_> = thread::scope(|scope| {
            let buyers = (0..4).map(|number| {
                let (client, random, answers) = (server.client(), random.fork(), &answers);
                scope.spawn(move || buy(client, &format!("buyer-{round}-{number}"), random, answers))
            });
            let buyers: Vec<_> = buyers.collect();
            eventually("there was some work", || answers.load(Ordering::Relaxed) > 200 + random.usize(..300));
            if round > 0 {
                server.expect(format!("CONFIG SET aof-use-rdb-preamble {}", if round == 1 { "yes" } else { "no" }), OK);
                server.cmd("BGREWRITEAOF");
                eventually("there was more work", || answers.load(Ordering::Relaxed) > 700);
            }
            server.kill9();
            buyers.into_iter().map(|buyer| buyer.join().expect("a buyer never fails")).collect()
        });
        server.start_again();

        for (id, state) in books.into_iter().flatten() {
            if let Some(state) = state {
                server.expect(["STOCK.ORDER", "sale", &id], state);
            }
        }
        // The books of the sale, of its orders and of its stream agree.
        let info = server.cmd("STOCK.INFO sale");
        let [total, remaining, held, sold, seq] =
            ["total", "remaining", "held", "sold", "seq"].map(|field| info.field(field).int());
        assert_eq!(total, remaining + held + sold);
        let page = server.cmd("STOCK.ORDERS sale 0 COUNT 100000");
        page.at(0).clone().is("0");
        let units = |state: &str| -> i64 {
            page.at(1).items().iter().filter(|order| order.at(1).text() == state).map(|order| order.at(2).int()).sum()
        };
        assert_eq!((units("held"), units("sold")), (held, sold));
        assert_eq!(server.cmd("XLEN events").int(), seq);
    }
}

/// The append-only file that is written to; there is one only.
fn appended(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("the append-only directory");
    let mut files = files.filter_map(|file| Some(file.ok()?.path()));
    files.find(|file| file.to_string_lossy().ends_with(".incr.aof")).expect("an append-only file")
}

#[test]
fn a_file_cut_within_a_step_has_all_of_it_or_nothing_once_it_is_written_anew() {
    // Within the event, within the change of the sale, and within the end of the transaction that both are in.
    for cut in ["XADD", "STOCK.APPLY", "EXEC"] {
        let mut server = Server::builder().aof("always").start();
        server.expect("STOCK.CREATE sale 1000 STREAM events", OK);
        server.expect("STOCK.DECR_ONCE sale before", ("OK", 1, 999, -1, ""));
        let whole = fs::read(appended(&server)).unwrap().len();
        server.expect("STOCK.DECR_ONCE sale cut", ANY);
        server.kill9();
        let file = appended(&server);
        let bytes = fs::read(&file).unwrap();
        let at = bytes[whole..].windows(cut.len()).position(|part| part == cut.as_bytes()).unwrap();
        File::options().write(true).open(&file).unwrap().set_len((whole + at + 2) as u64).unwrap();
        server.start_again();
        // The servers leave the transaction open when they mend such a file: what comes after would end it at the next start.
        server.rewrite_aof(true);
        server.expect("STOCK.DECR_ONCE sale after", ("OK", 1, 998, -1, ""));
        server.kill9();
        server.start_again();
        let told = events(&mut server.client(), "events");
        assert_eq!(told.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["before", "after"]);
        Replay::of(1_000, &told).agrees_with(&mut server.client(), "sale");
    }
}
