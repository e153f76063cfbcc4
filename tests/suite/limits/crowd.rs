//! Great numbers of waiters, and how late what has to happen at an instant does happen. Prints figures; the bounds are for a machine
//! that is busy with something else as well.

use std::time::{Duration, Instant};

use harness::{ANY, Client, INT, NULL, Server, eventually, unix_ms};

use crate::support::line::Line;

/// Times from shortest to longest.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn part(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }

    fn print(&self, what: &str) {
        let [median, p99, worst] = [50, 99, 100].map(|percent| self.part(percent));
        println!("{what}: {} times, median {median:.2?}, p99 {p99:.2?}, worst {worst:.2?}", self.0.len());
    }
}

#[test]
#[ignore = "large: make test-large"]
fn ten_thousand_waits_end_at_their_time_each_with_one_answer() {
    const WAITERS: usize = 9_500;
    let server = Server::builder().config("maxclients 19900").start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000", ANY);
    let mut waiters: Vec<(Duration, Client)> = (0..WAITERS).map(|_| (Duration::ZERO, server.client())).collect();
    let mut random = fastrand::Rng::with_seed(1);
    // Long enough that the last one has asked before the first one's time is over.
    for (n, (due, client)) in waiters.iter_mut().enumerate() {
        let wait = random.u64(5_000..9_000);
        client.send(format!("LOCK.ACQUIRE lock TOKEN t{n} WAIT {wait}"));
        *due = Duration::from_millis(u64::try_from(unix_ms()).expect("after 1970") + wait);
    }
    line.until("lock_waiters", i64::try_from(WAITERS).expect("few"));
    waiters.sort_by_key(|(due, _)| *due);
    let mut late = vec![];
    for (due, client) in &mut waiters {
        client.read().is(NULL);
        let now = Duration::from_millis(u64::try_from(unix_ms()).expect("after 1970"));
        assert!(now + Duration::from_millis(1) >= *due, "{now:?} is before {due:?}");
        late.push(now.saturating_sub(*due));
    }
    assert_eq!(line.count("lock_timeouts"), i64::try_from(WAITERS).expect("few"));
    for (_, client) in &mut waiters {
        // Whatever else had been sent would come before this.
        client.expect("PING", ANY);
    }
    let late = Times::of(late);
    late.print("a wait ends late by");
    assert!(late.part(99) < Duration::from_millis(100), "{:?}", late.part(99));
    line.until("lock_waiters", 0);
}

#[test]
#[ignore = "large: make test-large"]
fn whoever_is_next_learns_of_the_end_of_a_session_at_once() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let kill = |client: Client, id: i64| {
        server.expect(format!("CLIENT KILL ID {id}"), 1);
        drop(client);
    };
    let names = ["closed", "reset", "killed by CLIENT KILL"];
    let ways: [&dyn Fn(Client, i64); 3] = [&|client, _| client.close(), &|client, _| client.reset(), &kill];
    for (name, end) in names.into_iter().zip(ways) {
        let mut times = vec![];
        for _ in 0..200 {
            let mut holder = server.client();
            let id = holder.id();
            holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000 SESSION", ANY);
            let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
            let begun = Instant::now();
            end(holder, id);
            waiter.read().is(("waiter", INT, 30_000));
            times.push(begun.elapsed());
            waiter.expect("LOCK.RELEASE lock waiter", 1);
        }
        let times = Times::of(times);
        times.print(&format!("a holder's connection is {name}; the next holds the lock after"));
        assert!(times.part(50) < Duration::from_millis(10), "{:?}", times.part(50));
    }
}

#[test]
#[ignore = "large: make test-large"]
fn a_lease_is_over_on_the_millisecond_with_no_traffic() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut late = vec![];
    for n in 0..100 {
        let mut holder = server.client();
        let before = unix_ms();
        let lease = 50 + n;
        holder.expect(format!("LOCK.ACQUIRE lock TOKEN holder PX {lease}"), ANY);
        let after = unix_ms();
        let mut waiter = line.join("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
        waiter.read().is(("waiter", INT, 30_000));
        let now = unix_ms();
        assert!(now >= before + lease, "early by {} ms", before + lease - now);
        late.push(Duration::from_millis(u64::try_from((now - after - lease).max(0)).expect("not negative")));
        waiter.expect("LOCK.RELEASE lock waiter", 1);
    }
    let late = Times::of(late);
    late.print("a lease ends and the next holds the lock after");
    assert!(late.part(50) <= Duration::from_millis(10), "{:?}", late.part(50));
}

#[test]
#[ignore = "large: make test-large"]
fn hundreds_of_waiters_that_die_in_the_line_delay_nobody() {
    let server = Server::start();
    let mut line = Line::at(&server);
    let mut holder = server.client();
    let mut times = vec![];
    for _ in 0..20 {
        holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
        let mut dead: Vec<Client> = (0..500).map(|_| server.client()).collect();
        for (n, client) in dead.iter_mut().enumerate() {
            client.send(format!("LOCK.ACQUIRE lock TOKEN dead{n} WAIT 0"));
        }
        line.until("lock_waiters", 500);
        let mut last = line.join("LOCK.ACQUIRE lock TOKEN last WAIT 0");
        for client in dead {
            client.reset();
        }
        let begun = Instant::now();
        holder.expect("LOCK.RELEASE lock holder", 1);
        last.read().is(("last", INT, 30_000));
        times.push(begun.elapsed());
        last.expect("LOCK.RELEASE lock last", 1);
        eventually("nobody is left", || line.count("lock_waiters") == 0);
    }
    let times = Times::of(times);
    times.print("behind 500 dead waiters one is granted the lock after");
    assert!(times.part(50) < Duration::from_millis(50), "{:?}", times.part(50));
}

#[test]
#[ignore = "large: make test-large"]
fn a_lock_that_is_deleted_under_ten_thousand_waiters_goes_to_the_next_at_once() {
    const WAITERS: usize = 9_500;
    let server = Server::builder().config("maxclients 19900").start();
    let mut line = Line::at(&server);
    let (mut holder, mut other) = (server.client(), server.client());
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 3600000", ANY);
    let mut waiters: Vec<Client> = (0..WAITERS).map(|_| server.client()).collect();
    for (n, client) in waiters.iter_mut().enumerate() {
        client.send(format!("LOCK.ACQUIRE lock TOKEN t{n} PX 3600000 WAIT 0"));
        // So that they come in this order.
        if n < 20 {
            line.until("lock_waiters", i64::try_from(n + 1).expect("few"));
        }
    }
    line.until("lock_waiters", i64::try_from(WAITERS).expect("few"));
    let mut times = vec![];
    for (n, waiter) in waiters.iter_mut().take(20).enumerate() {
        let begun = Instant::now();
        holder.expect("DEL lock", 1);
        waiter.read().is((format!("t{n}"), INT, 3_600_000));
        // Whatever the server does about all the others, it has done when it answers this.
        other.expect("PING", ANY);
        times.push(begun.elapsed());
    }
    let times = Times::of(times);
    times.print(&format!(
        "a lock with {WAITERS} waiters is deleted; the next one has it, and the server has time, after"
    ));
    assert!(times.part(50) < Duration::from_millis(20), "{:?}", times.part(50));
}
