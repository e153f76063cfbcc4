//! Starting processes that cannot outlive the tests, and finding ports for them.

use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::set_parent_process_death_signal;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts `command` in a process group of its own; the kernel kills it when this process ends, however it ends.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();

    command.process_group(0);
    #[cfg(target_os = "linux")]
    // SAFETY: the closure makes one system call and touches no memory that the parent shares.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    // "Parent" means the thread that started it, and the thread of a test ends with the test: one thread that stays starts
    // them all.
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                answer.send(command.spawn()).expect("the test waits for the answer");
            }
        });
        orders
    });
    let (answer, outcome) = channel();
    spawner.send((command, answer)).expect("the spawner lives as long as the process");
    outcome.recv().expect("the spawner answers every order")
}

/// Kills a process started by [`spawn`] with everything it started itself (a server forks to save), and reaps it. The
/// result tells whether it had died of something else before.
pub fn kill(child: &mut Child) -> ExitStatus {
    if matches!(child.try_wait(), Ok(None)) {
        // Fails only if it ended since we looked.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
    child.wait().expect("a child can be waited for")
}

/// Asks a process started by [`spawn`] to end, and kills it if it does not in half a minute.
///
/// For a server under a checker of memory (`LOCKSTOCK_GENTLY`), which reports at the end. Every other server is killed at once.
pub fn end(child: &mut Child) -> ExitStatus {
    if std::env::var_os("LOCKSTOCK_GENTLY").is_some() {
        // Fails only if it has ended by itself.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        for _ in 0..3_000 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    kill(child)
}

/// A TCP port that was free a moment ago, never given twice by this process.
///
/// Taken from below the range that the system hands to outgoing connections, so no client's end can grab it meanwhile.
pub fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static TURN: AtomicU16 = AtomicU16::new(0);
    // Test processes that run side by side start looking at different places.
    let start = u16::try_from(std::process::id().wrapping_mul(997) % u32::from(COUNT)).expect("below COUNT");
    for _ in 0..COUNT {
        let turn = TURN.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + turn) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port on this machine");
}
