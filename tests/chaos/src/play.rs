//! One scene from its beginning to its end: clients, faults, calm, and the books.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use harness::{Reply, Server, Words, eventually_some};

use crate::check::{self, Books, Event, Figures, Verdict};
use crate::history::{Clock, Crash, Fault, Faults, History, Outcome, Seen, Time, millis};
use crate::route::{Line, PATIENCE, Route};
use crate::scene::{Nemesis, Plan, Scene, crashes, version};
use crate::work::{self, EVENTS, Guard, JOURNAL, Processes, SALES, shelf};

/// How long the clients go on when nothing is done to the servers any more: longer than any client waits.
const CALM: Duration = Duration::from_millis(2_800);

/// The outcome of a scene.
pub struct Played {
    pub server: String,
    pub figures: Figures,
    pub faults: Vec<Fault>,
    pub verdict: Verdict,
}

/// Plays a scene for about `span`; why not, if this machine cannot.
pub fn play(plan: &Plan, span: Duration, random: &mut fastrand::Rng) -> Result<Played, String> {
    let mut scene = (plan.set)()?;
    let clock = Clock::start();
    let route = Route::to(clock, scene.servers().iter().map(Server::address).collect(), 0);
    let guard = Guard::new(clock);
    let processes = Processes::default();
    let mut history = History { began_unix_ms: clock.began_unix_ms(), ..History::default() };
    let mut seller = Line::new(&route, usize::MAX, random.fork());
    // Some tell deadlines and one does not.
    for (((sale, total), events), options) in SALES.into_iter().zip(EVENTS).zip(["DEADLINES", "", "DEADLINES"]) {
        insist(&mut seller, sale, &format!("STOCK.CREATE {sale} {total} STREAM {events} {options}").into());
    }
    let (faults, measures) = (Faults::default(), vec![]);
    let mut nemesis = Nemesis { route: &route, processes: &processes, random: random.fork(), faults, measures };
    for (sale, stream, total) in (0..scene.shelves()).map(shelf) {
        insist(&mut seller, &sale, &format!("STOCK.CREATE {sale} {total} STREAM {stream}").into());
    }
    scene.open(&mut nemesis);
    let end = clock.now() + Time::try_from(span.saturating_sub(CALM).as_micros()).expect("a short time");
    thread::scope(|scope| {
        let _stop = StopAtEnd(&route, &processes);
        let mut clients = work::crew(scope, &route, &guard, scene.crew(), scene.replicas(), random);
        clients.extend(work::processes(scope, &route, &guard, &processes, (scene.processes(), scene.trade()), random));
        nemesis.rest(300, 600);
        loop {
            history.crashes = strike(&mut *scene, &mut nemesis);
            if clock.now() > end || !history.crashes.is_empty() {
                break;
            }
            nemesis.rest(500, 1_500);
        }
        if history.crashes.is_empty() {
            thread::sleep(CALM);
        }
        route.stop();
        work::gather(&mut history, clients, &guard);
    });
    nemesis.faults.all.append(&mut history.faults.all);
    history.faults = nemesis.faults;
    history.measures.append(&mut nemesis.measures);
    if history.crashes.is_empty() {
        history.crashes = crashes(&mut *scene);
    }
    let standstills = check::standstills(&history);
    history.faults.all.extend(standstills);
    // A server that crashed has no books.
    let there = scene.keeps_sales() && history.crashes.is_empty();
    if there {
        history.journal = journal(&mut seller);
    }
    let sales = SALES.into_iter().zip(EVENTS).filter(|_| there);
    let shelves = (0..if there { scene.shelves() } else { 0 }).map(shelf);
    let sales = sales.map(|((sale, total), events)| (sale.to_owned(), events.to_owned(), total)).chain(shelves);
    let books: Vec<Books> = sales.map(|(sale, events, total)| books(&mut seller, &sale, total, &events)).collect();
    let verdict = check::judge(&history, &books);
    if !verdict.violations.is_empty() {
        scene.keep();
    }
    let figures = Figures::of(&history);
    Ok(Played { server: version(&scene.servers()[0]), figures, faults: history.faults.all, verdict })
}

/// One fault, and the servers that did not survive it or what the clients did meanwhile. A scene whose server is gone may break down.
fn strike(scene: &mut dyn Scene, nemesis: &mut Nemesis<'_>) -> Vec<Crash> {
    let outcome = catch_unwind(AssertUnwindSafe(|| scene.strike(nemesis)));
    let Err(panic) = outcome else { return crashes(scene) };
    // A server that crashes is deaf for a while before its log says so.
    let late = (0..30).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        Some(crashes(scene)).filter(|crashes| !crashes.is_empty())
    });
    late.unwrap_or_else(|| resume_unwind(panic))
}

/// Ends the clients' work also when something fails, for nobody would.
struct StopAtEnd<'a>(&'a Route, &'a Processes);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
        self.1.wake();
    }
}

/// Asks until there is an answer.
fn insist(line: &mut Line<'_>, key: &str, words: &Words) -> Reply {
    eventually_some("an answer", || match line.ask((), key, words, PATIENCE).outcome {
        Outcome::Done(reply) => Some(reply),
        Outcome::Refused(text) if text.starts_with("BUSYKEY") => Some(Reply::Simple("OK".into())),
        _ => None,
    })
}

/// The fences of all writes that are there.
fn journal(line: &mut Line<'_>) -> Vec<i64> {
    let read = insist(line, JOURNAL, &format!("LRANGE {JOURNAL} 0 -1").into());
    read.items().iter().map(|fence| fence.text().parse().expect("a number")).collect()
}

/// The sums of the sale, read in one step.
const READ: &str = "
local orders, cursor = {}, '0'
repeat
    local page = redis.call('STOCK.ORDERS', KEYS[1], cursor, 'COUNT', 1000)
    cursor = page[1]
    for _, order in ipairs(page[2]) do table.insert(orders, order) end
until cursor == '0'
return {redis.call('STOCK.INFO', KEYS[1]), orders, redis.call('XRANGE', KEYS[2], '-', '+')}";

/// The books of a sale. A hold that lapses just then is in the stream a moment later, so they are read again while they do not
/// agree.
fn books(line: &mut Line<'_>, sale: &str, total: i64, stream: &str) -> Books {
    let deadline = line.route.clock.now() + millis(3_000);
    loop {
        let from = line.route.clock.now();
        let read = insist(line, sale, &["EVAL", READ, "2", sale, stream].into());
        let books = Books {
            sale: sale.to_owned(),
            total,
            info: numbers(read.at(0)),
            orders: read.at(1).items().iter().map(order).collect(),
            events: read.at(2).items().iter().map(|entry| event(entry.at(1))).collect(),
            read: (from, line.route.clock.now()),
        };
        let mut verdict = Verdict::default();
        books.check(&mut verdict);
        if verdict.violations.is_empty() || line.route.clock.now() > deadline {
            return books;
        }
    }
}

fn numbers(info: &Reply) -> BTreeMap<String, i64> {
    let fields = ["total", "remaining", "held", "sold", "seq", "waiting"];
    fields.map(|field| (field.to_owned(), info.field(field).int())).into()
}

fn order(row: &Reply) -> (String, Seen) {
    let (state, units) = (row.at(1).text(), row.at(2).int());
    (row.at(0).text(), Seen { state, units, deadline: row.at(5).int() })
}

fn event(fields: &Reply) -> Event {
    let text = |name: &str| fields.field(name).text();
    let number = |name: &str| text(name).parse().expect("a number");
    let deadline = fields.fields().contains_key("deadline").then(|| number("deadline"));
    Event { seq: number("seq"), kind: text("event"), id: text("id"), units: number("units"), deadline }
}
