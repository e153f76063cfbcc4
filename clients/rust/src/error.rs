//! The errors of requests.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why there is no lock, no hold or no answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Others had the lock during the whole wait.
    NotGranted,
    /// The lock was granted, but fewer replicas than asked for had the grant within a second. It was released.
    NotReplicated {
        /// How many replicas had the grant.
        replicas: usize,
    },
    /// The token that was named has the lock already, or asks for it. A token is one holder.
    AlreadyHeld,
    /// The hold has ended: by its lease, by its session, or by an administrator.
    Lost,
    /// The hold has ended, but perhaps not by this release: an answer was lost, and another token may have had the lock.
    NotReleased,
    /// No server answered in time.
    Unreachable(RedisError),
    /// The holder of this lock waits for one that this token holds.
    Deadlock(RedisError),
    /// There is no such sale.
    NoSale,
    /// The key of the new sale is in use.
    SaleExists,
    /// The server does not know the commands: the module is not loaded.
    NoModule,
    /// The server refused the request.
    Refused(RedisError),
    /// The request would mean nothing; it was not sent.
    Invalid(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("the lock was not granted within the wait"),
            Self::NotReplicated { replicas } => write!(f, "the grant reached {replicas} replicas only"),
            Self::AlreadyHeld => {
                f.write_str("this token has the lock already, or asks for it: give each acquisition its own")
            }
            Self::Lost => f.write_str("the hold has ended"),
            Self::NotReleased => f.write_str("the hold has ended, but perhaps not by this release: an answer was lost"),
            Self::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
            Self::NoSale => f.write_str("there is no such sale"),
            Self::SaleExists => f.write_str("the key of the sale is in use"),
            Self::NoModule => f.write_str("the server has not loaded the lockstock module"),
            Self::Deadlock(error) | Self::Refused(error) => error.fmt(f),
            Self::Invalid(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(error) | Self::Deadlock(error) | Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        if is_silence(&error) || passes(&error) {
            Self::Unreachable(error)
        } else if error.code() == Some("NOTHELD") {
            Self::Lost
        } else if error.code() == Some("DEADLOCK") {
            Self::Deadlock(error)
        } else if error.code() == Some("NOSTOCK") {
            Self::NoSale
        } else if error.detail().is_some_and(|text| OURS.iter().any(|name| text.starts_with(name))) {
            Self::NoModule
        } else {
            Self::Refused(error)
        }
    }
}

/// How the answers of a server without the module begin. Other commands may be unknown, too.
const OURS: [&str; 2] = ["unknown command 'LOCK.", "unknown command 'STOCK."];

/// The error of a request whose time was over.
pub fn timed_out() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into()
}

/// Whether no answer came.
pub fn is_silence(error: &RedisError) -> bool {
    // An answer that was cut in the middle cannot be parsed.
    error.kind() == ErrorKind::Parse || error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
}

/// Whether asking again, of the same server or another, may help.
pub fn passes(error: &RedisError) -> bool {
    let demoted = || {
        let text = error.detail().unwrap_or_default();
        error.code() == Some("UNBLOCKED") && (text.starts_with("force") || text.starts_with("this server"))
    };
    let server = [
        ServerErrorKind::Moved,
        ServerErrorKind::Ask,
        ServerErrorKind::TryAgain,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::BusyLoading,
        ServerErrorKind::MasterDown,
        ServerErrorKind::ReadOnly,
    ];
    is_silence(error)
        || demoted()
        || error.code() == Some("BUSY")
        || server.iter().any(|kind| error.kind() == ErrorKind::Server(*kind))
}

/// Whether a release that the server has refused may be taken a little later.
pub fn passes_for_release(error: &RedisError) -> bool {
    passes(error) || matches!(error.code(), Some("NOREPLICAS" | "MISCONF"))
}

/// Whether a key has another value, so that nothing is held of it.
pub fn has_other_value<T>(answer: &Result<T, RedisError>) -> bool {
    answer.as_ref().is_err_and(|error| error.code() == Some("WRONGTYPE"))
}
