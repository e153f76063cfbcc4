//! All that may come in between.

use std::fmt::Display;
use std::process::ExitCode;

use lockstock::Error;

use crate::report::say;

/// Wrong usage.
pub const USAGE: u8 = 64;
/// The database or the server refuses, and would each time.
pub const REFUSED: u8 = 78;

/// Why a piece of work was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server or the database does not answer, or cannot now: trying again helps.
    Away(Place, String),
    /// Nothing but an administrator helps: the program ends.
    Refused(String),
    /// This sale cannot go on: the line says why, and what to do.
    Stopped(String),
    /// Another outbox has the sale, or has written since, or the sale is gone or another: look again.
    Lost,
}

/// Where the trouble is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    Server,
    Database,
    /// Both answer, but the tables have the fence of another outbox.
    Fence,
}

impl Place {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Database => "the database",
            Self::Fence => "the fence",
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let refused = |error: &redis::RedisError| {
            matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM"))
                || matches!(
                    error.kind(),
                    redis::ErrorKind::AuthenticationFailed | redis::ErrorKind::InvalidClientConfig
                )
        };
        match error {
            Error::Lost | Error::NotGranted => Self::Lost,
            Error::NoModule => Self::Refused(format!("{}: {error}", Place::Server.name())),
            Error::Refused(error) | Error::Unreachable(error) if refused(&error) => {
                let why = match (error.code(), error.detail()) {
                    (Some("NOAUTH"), _) => "it wants a password".to_owned(),
                    (Some(code), Some(detail)) => format!("{code} {detail}"),
                    _ => error.to_string(),
                };
                Self::Refused(format!("{} refuses: {why}", Place::Server.name()))
            }
            Error::Unreachable(error) => Self::Away(Place::Server, error.to_string()),
            error => Self::Away(Place::Server, error.to_string()),
        }
    }
}

/// The classes of SQLSTATE that stay: the user, the database or a table is not there or not ours, or a value does not fit.
const STAYING: [&str; 7] = ["0A", "22", "23", "28", "3D", "3F", "42"];
/// The results of SQLite that stay: no such column, no right, read-only, corrupt, cannot be opened, a constraint, a type, no database.
const STAYING_IN_SQLITE: [i64; 9] = [1, 3, 8, 11, 14, 19, 20, 23, 26];
/// MariaDB and MySQL call these wrong access: too many connections of one user.
const CROWDED: [u16; 2] = [1203, 1226];

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        let name = Place::Database.name();
        match &error {
            sqlx::Error::Database(refusal) => {
                if stays(refusal.as_ref()) {
                    Self::Refused(format!("{name} refuses: {}", refusal.message()))
                } else {
                    Self::Away(Place::Database, refusal.message().to_owned())
                }
            }
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
                Self::Away(Place::Database, error.to_string())
            }
            _ => Self::Refused(format!("{name}: {error}")),
        }
    }
}

fn stays(refusal: &dyn sqlx::error::DatabaseError) -> bool {
    let code = refusal.code().unwrap_or_default();
    if refusal.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        // The low byte is the kind, and the bits above it are the occasion.
        return code.parse().is_ok_and(|code: i64| STAYING_IN_SQLITE.contains(&(code & 0xff)));
    }
    if let Some(refusal) = refusal.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
        && CROWDED.contains(&refusal.number())
    {
        return false;
    }
    STAYING.iter().any(|class| code.starts_with(class))
}

/// A status other than success, and why.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    reason: String,
}

impl Failure {
    pub fn new(status: u8, reason: impl Display) -> Self {
        Self { status, reason: reason.to_string() }
    }

    /// The error of clap about the arguments, without the pages that it adds.
    pub fn usage(error: &clap::Error) -> Self {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        Self::new(USAGE, text.split("\n\n").next().unwrap_or_default())
    }

    /// Says it on standard error; the status.
    pub fn tell(self) -> ExitCode {
        say(self.reason);
        ExitCode::from(self.status)
    }
}
