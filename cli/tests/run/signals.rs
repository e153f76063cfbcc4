//! Signals and what else a command inherits.

use std::process::Command;

use harness::{ANY, Server, eventually};
use rustix::process::Signal;

use super::support::{Ended, Job, SECOND, ended, is_free, lockstock, processes, state};

#[test]
fn signals_go_to_the_command() {
    let server = Server::start();
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::CONT, "CONT"),
    ] {
        let script = format!("trap 'echo {name}; exit 9' {name}; echo > $DIR/ready; sleep 60 & wait");
        let job = Job::start(&server, &[], &script);
        job.appears("ready");
        job.signal(signal);
        assert_eq!(job.end(), Ended { status: Some(9), out: format!("{name}\n"), err: String::new() });
    }
    assert!(is_free(&server));
}

#[test]
fn a_command_that_a_signal_kills() {
    let server = Server::start();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::USR1, 138)] {
        let job = Job::start(&server, &[], "exec sleep 60");
        job.signal(signal);
        assert_eq!(job.end(), Ended { status: Some(status), out: String::new(), err: String::new() });
    }
}

#[test]
fn stopping_and_going_on() {
    let server = Server::start();
    let job = Job::start(&server, &["--lease", "3s"], "exec sleep 8");
    let group = job.group();
    job.signal(Signal::TSTP);
    eventually("the command has stopped", || state(group) == Some('T'));
    // Longer than the lease: a user who stops a command does not want to lose its lock.
    std::thread::sleep(SECOND * 4);
    assert!(!is_free(&server));
    assert_eq!(state(group), Some('T'));
    job.signal(Signal::CONT);
    eventually("the command goes on", || state(group) == Some('S'));
    assert_eq!(job.end().status, Some(0));
}

#[test]
fn a_user_who_stops_the_wait_keeps_the_lock_that_it_gets() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", ANY);
    let job = Job::begin(&server, &["--lease", "2s", "--wait", "forever"], "true");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    job.signal(Signal::TSTP);
    let front = i32::try_from(job.front.id()).expect("a number");
    eventually("it has stopped", || state(front) == Some('T'));
    server.expect("LOCK.RELEASE job other", 1);
    std::thread::sleep(SECOND * 3);
    assert!(!is_free(&server));
    job.signal(Signal::CONT);
    assert_eq!(job.end(), Ended { status: Some(0), out: String::new(), err: String::new() });
}

#[test]
fn a_signal_ends_the_wait() {
    let server = Server::start();
    server.expect("LOCK.ACQUIRE job TOKEN other PX 60000", ANY);
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let job = Job::begin(&server, &["--wait", "forever"], "true");
        eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
        job.signal(signal);
        assert_eq!(job.end(), Ended { status: Some(status), out: String::new(), err: String::new() });
        assert_eq!(server.info_int("lockstock", "lockstock_lock_waiters"), 0);
    }
    let job = Job::begin(&server, &["--wait", "forever"], "true");
    eventually("it waits", || server.info_int("lockstock", "lockstock_lock_waiters") == 1);
    job.signal(Signal::KILL);
    eventually("it does not wait any more", || server.info_int("lockstock", "lockstock_lock_waiters") == 0);
}

/// The words that show what a process has inherited.
const SHOW: [&str; 3] =
    ["sh", "-c", "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; umask; pwd; ulimit -n"];

#[test]
fn what_is_inherited_is_as_without_it() {
    let server = Server::start();
    for setting in
        ["true", "trap '' HUP INT PIPE", "trap '' CHLD TSTP", "exec <&-", "exec 5</dev/null", "umask 027; cd /"]
    {
        let wrap = |mut words: Vec<String>| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("{setting}; exec \"$@\"")).arg("sh").args(words.drain(..));
            command.env("LOCKSTOCK_URL", format!("redis://{}", server.address()));
            ended(command)
        };
        let show = SHOW.map(String::from);
        let without = wrap(show.to_vec());
        let mut words: Vec<String> = [env!("CARGO_BIN_EXE_lockstock"), "run", "job", "--"].map(String::from).to_vec();
        words.extend(show);
        assert_eq!(wrap(words), without, "{setting}");
    }
}

#[test]
fn nothing_is_left_of_it() {
    let server = Server::start();
    let job = Job::start(&server, &[], "true");
    let front = i32::try_from(job.front.id()).expect("a number");
    assert_eq!(job.end().status, Some(0));
    eventually("the guardian has ended", || !processes().iter().any(|process| process.parent == front));
    assert_eq!(ended(lockstock(&server, &["run", "job", "--", "true"])).status, Some(0));
    eventually("the connections are closed", || server.cmd("CLIENT LIST").text().lines().count() == 1);
}
