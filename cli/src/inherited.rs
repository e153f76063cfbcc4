//! The state with which this process was started, and which it restores for a command that it starts: the signal mask, what is ignored, and
//! which standard descriptors are closed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, sigset_t};

/// Those that go to the command.
const PASSED: [c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// The state at the beginning.
pub struct Inherited {
    mask: sigset_t,
    pipe_ignored: bool,
    child_ignored: bool,
}

impl Inherited {
    /// Looks, and then has this process neither die of a closed pipe nor miss its child.
    pub fn take() -> Self {
        for fd in 0..3 {
            keep_closed(fd);
        }
        let found =
            Self { mask: mask(), pipe_ignored: is_ignored(libc::SIGPIPE), child_ignored: is_ignored(libc::SIGCHLD) };
        dispose(libc::SIGPIPE, libc::SIG_IGN);
        dispose(libc::SIGCHLD, libc::SIG_DFL);
        found
    }

    /// The child's part between fork and exec. Only calls that are safe there.
    pub fn restore(&self) {
        dispose(libc::SIGPIPE, if self.pipe_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        dispose(libc::SIGCHLD, if self.child_ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        set_mask(libc::SIG_SETMASK, &self.mask);
    }
}

/// Signals as something to read. A signal that was ignored from the start stays ignored, for the command, too.
pub struct Signals(OwnedFd);

impl Signals {
    /// From now on these signals do nothing but to be read here.
    pub fn begin() -> io::Result<Self> {
        let mut set = empty();
        for signal in PASSED.into_iter().filter(|signal| !is_ignored(*signal)).chain([libc::SIGCHLD]) {
            add(&mut set, signal);
        }
        let mut blocked = set;
        // Taking the terminal back from the background is not to stop us.
        add(&mut blocked, libc::SIGTTOU);
        set_mask(libc::SIG_BLOCK, &blocked);
        // SAFETY: the set is initialised, and the result is checked before it is owned.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to nobody but us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// The next signal that has come.
    pub fn next(&self) -> Option<c_int> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has this size.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(read) != Ok(size) {
            return None;
        }
        // SAFETY: the kernel has written all of it.
        c_int::try_from(unsafe { info.assume_init() }.ssi_signo).ok()
    }
}

/// Stops this process as a terminal does, or its whole group; returns when it is continued. `false` if there was nobody to continue
/// it, so that the kernel did not stop it.
pub fn stop(group: bool) -> bool {
    let mut set = empty();
    add(&mut set, libc::SIGTSTP);
    // SAFETY: these calls take numbers only.
    unsafe { libc::kill(if group { 0 } else { libc::getpid() }, libc::SIGTSTP) };
    // It takes effect here.
    set_mask(libc::SIG_UNBLOCK, &set);
    set_mask(libc::SIG_BLOCK, &set);
    let mut pending = empty();
    // SAFETY: the set is ours.
    unsafe { libc::sigpending(&raw mut pending) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigismember(&raw const pending, libc::SIGCONT) == 1 }
}

/// Whether a signal was ignored when this process began, or is now.
pub fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the old one is written into a buffer of its type.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid `sigaction`, whether or not it was written.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn dispose(signal: c_int, action: libc::sighandler_t) {
    // SAFETY: the action is one of the kernel's own, no function of ours.
    unsafe { libc::signal(signal, action) };
}

fn empty() -> sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the call initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: it is initialised.
    unsafe { set.assume_init() }
}

fn add(set: &mut sigset_t, signal: c_int) {
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(set, signal) };
}

fn mask() -> sigset_t {
    let mut found = empty();
    // SAFETY: nothing is changed, and the mask is written into a set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, ptr::null(), &raw mut found) };
    found
}

fn set_mask(how: c_int, set: &sigset_t) {
    // SAFETY: the set is initialised; this process has one thread where this is called.
    unsafe { libc::sigprocmask(how, set, ptr::null_mut()) };
}

/// A standard descriptor that is closed is kept from becoming something else here, and stays closed for the command.
fn keep_closed(fd: RawFd) {
    // SAFETY: the call takes numbers only.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        // SAFETY: the path is a C string. The lowest free descriptor, which this is, is never closed again.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    }
}
