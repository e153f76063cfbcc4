//! The group is dead when the lease ends, whatever happens.

use std::time::{Duration, Instant};

use harness::{INT, Server, eventually};
use rustix::process::{Pid, Signal, kill_process_group};

use super::support::{Frozen, Job, SECOND, assert_one_line, is_alive, is_free, send};

/// Children and grandchildren, none of which heeds TERM.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done) & \
                        echo > $DIR/ready; while :; do sleep 1; done";
/// One that ends when it is told.
const OBEDIENT: &str = "trap 'echo > $DIR/told; exit 0' TERM; echo > $DIR/ready; sleep 60 & wait";

fn stubborn(server: &Server, options: &[&str]) -> Job {
    let job = Job::start(server, options, STUBBORN);
    job.appears("ready");
    job
}

/// The best of three: what is measured shares the machine with other tests.
#[track_caller]
fn within_a_second(mut measured: impl FnMut() -> Duration) {
    let took: Vec<_> = (0..3).map(|_| measured()).collect();
    assert!(took.iter().any(|took| *took < SECOND), "{took:?}");
}

#[track_caller]
fn was_lost(job: Job, words: &str) {
    let ended = job.end();
    assert_eq!((ended.status, ended.out.as_str()), (Some(73), ""), "{ended:?}");
    assert_one_line(&ended.err, words);
}

#[test]
fn it_is_extended_as_long_as_it_runs() {
    let server = Server::start();
    let job = Job::start(&server, &["--lease", "3s"], "sleep 7");
    while is_alive(job.group()) {
        assert!(!is_free(&server) || !is_alive(job.group()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(job.end().status, Some(0));
    assert!(is_free(&server));
}

#[test]
fn a_frozen_server() {
    let server = Server::start();
    let job = stubborn(&server, &["--lease", "3s"]);
    let frozen = Frozen::new(&server);
    let begun = Instant::now();
    let dead = job.dies();
    // The last extension was before, so the lease ends before this.
    assert!(dead - begun < SECOND * 3, "{:?}", dead - begun);
    was_lost(job, "job");
    drop(frozen);
}

#[test]
fn a_dead_server() {
    let mut server = Server::start();
    let job = stubborn(&server, &["--lease", "3s"]);
    server.kill9();
    let begun = Instant::now();
    let dead = job.dies();
    assert!(dead - begun < SECOND * 3, "{:?}", dead - begun);
    was_lost(job, "job");
}

#[test]
fn a_command_that_heeds_term_is_told_in_time() {
    let server = Server::start();
    let job = Job::start(&server, &["--lease", "3s"], OBEDIENT);
    job.appears("ready");
    let frozen = Frozen::new(&server);
    job.appears("told");
    was_lost(job, "job");
    drop(frozen);
}

#[test]
fn a_loss_that_mends_is_none() {
    let server = Server::start();
    let job = Job::start(&server, &["--lease", "4s"], "sleep 6");
    let frozen = Frozen::new(&server);
    std::thread::sleep(SECOND * 3 / 2);
    drop(frozen);
    let ended = job.end();
    assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""));
    assert!(is_free(&server));
}

#[test]
fn a_restarted_server_that_kept_the_lock() {
    let mut server = Server::builder().aof("always").start();
    let job = Job::start(&server, &["--lease", "6s"], "sleep 4");
    server.kill9();
    server.start_again();
    assert_eq!(job.end().status, Some(0));
}

#[test]
fn a_lock_that_an_administrator_deletes() {
    let server = Server::start();
    let job = stubborn(&server, &["--lease", "3s"]);
    server.expect("DEL job", 1);
    let begun = Instant::now();
    let dead = job.dies();
    assert!(dead - begun < SECOND * 3, "{:?}", dead - begun);
    was_lost(job, "job");
}

#[test]
fn when_lockstock_is_killed_the_group_is() {
    let server = Server::start();
    for options in [&["--session"][..], &[]] {
        within_a_second(|| {
            let job = stubborn(&server, options);
            let group = job.group();
            job.signal(Signal::KILL);
            let begun = Instant::now();
            while is_alive(group) {
                // Looked at in this order, the lock was free while something lived.
                assert!(!(is_free(&server) && is_alive(group)), "the lock is free before the group is dead");
            }
            let took = begun.elapsed();
            eventually("the lock is free", || is_free(&server));
            assert_eq!(job.end().status, None);
            took
        });
    }
}

#[test]
fn when_lockstock_is_frozen_the_group_dies_in_time() {
    let server = Server::start();
    let job = stubborn(&server, &["--lease", "3s"]);
    job.signal(Signal::STOP);
    let begun = Instant::now();
    let dead = job.dies();
    assert!(dead - begun < SECOND * 3, "{:?}", dead - begun);
    eventually("the lock is free", || is_free(&server));
    job.signal(Signal::CONT);
    was_lost(job, "job");
}

/// All that is of this machine stands still, as while a laptop is shut; the server's clock goes on.
#[test]
fn after_a_sleep_that_outlasted_the_lease_the_group_dies_at_once() {
    let server = Server::start();
    within_a_second(|| {
        let job = stubborn(&server, &["--lease", "2s"]);
        let (guardian, group) = (job.guardian(), job.group());
        let all = |signal| {
            kill_process_group(Pid::from_raw(group).expect("a number"), signal).expect("the group lives");
            job.signal(signal);
            send(guardian, signal);
        };
        all(Signal::STOP);
        server.expect("LOCK.ACQUIRE job TOKEN other PX 60000 WAIT 10000", ("other", INT, 60000));
        // The guardian wakes last.
        all(Signal::CONT);
        let begun = Instant::now();
        let dead = job.dies();
        was_lost(job, "job");
        server.expect("LOCK.RELEASE job other", 1);
        dead - begun
    });
}

#[test]
fn when_the_guardian_is_killed_the_group_is() {
    let server = Server::start();
    within_a_second(|| {
        let job = stubborn(&server, &[]);
        send(job.guardian(), Signal::KILL);
        let begun = Instant::now();
        let dead = job.dies();
        was_lost(job, "guardian");
        server.cmd("DEL job");
        dead - begun
    });
}

#[test]
fn a_session_that_ends() {
    let server = Server::start();
    within_a_second(|| {
        let job = Job::start(&server, &["--session", "--grace", "5s"], OBEDIENT);
        job.appears("ready");
        server.client().expect("CLIENT KILL TYPE normal SKIPME yes", INT);
        let begun = Instant::now();
        let dead = job.dies();
        assert!(!job.file("told").exists(), "without grace");
        was_lost(job, "job");
        dead - begun
    });
}

#[test]
fn connections_that_break_are_made_anew() {
    let server = Server::start();
    let job = Job::start(&server, &["--lease", "4s"], "sleep 6");
    server.client().expect("CLIENT KILL TYPE normal SKIPME yes", INT);
    assert_eq!(job.end().status, Some(0));
}

#[test]
fn what_the_command_leaves_behind_is_ended_before_the_release() {
    let server = Server::start();
    let job = Job::start(&server, &[], "sleep 60 & exit 3");
    let group = job.group();
    let ended = job.end();
    assert_eq!((ended.status, ended.err.as_str()), (Some(3), ""));
    assert!(!is_alive(group) && is_free(&server));
    let job = Job::start(&server, &["--grace", "500ms"], "(trap '' TERM; while :; do sleep 1; done) & exit 4");
    let group = job.group();
    while is_alive(group) {
        assert!(!(is_free(&server) && is_alive(group)));
    }
    assert_eq!(job.end().status, Some(4));
}

#[test]
fn a_release_that_nobody_hears_takes_no_longer_than_five_seconds() {
    let server = Server::start();
    let job = Job::start(&server, &[], "while [ ! -e $DIR/go ]; do sleep 0.02; done; exit 5");
    let frozen = Frozen::new(&server);
    std::fs::write(job.file("go"), "").expect("written");
    let begun = Instant::now();
    let ended = job.end();
    assert_eq!(ended.status, Some(5));
    assert!(begun.elapsed() < SECOND * 6, "{:?}", begun.elapsed());
    assert_one_line(&ended.err, "not released");
    drop(frozen);
}

#[test]
fn a_frozen_guardian() {
    let server = Server::start();
    let job = stubborn(&server, &["--lease", "3s"]);
    let guardian = job.guardian();
    send(guardian, Signal::STOP);
    let begun = Instant::now();
    let dead = job.dies();
    // The last extension was before, so the lease ends before this.
    assert!(dead - begun < SECOND * 3, "{:?}", dead - begun);
    was_lost(job, "the guardian of the lock stands still");
    send(guardian, Signal::CONT);
    eventually("it is released", || is_free(&server));
}
