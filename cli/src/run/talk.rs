//! The messages of the two processes to each other: lines over a socket.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::options::Wait;

/// The first line: what to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    pub url: String,
    pub keys: Vec<Vec<u8>>,
    pub token: Vec<u8>,
    pub wait: Wait,
    pub lease: Duration,
    pub shared: bool,
    pub limit: Option<u64>,
    pub session: bool,
    pub replicas: u32,
    pub grace: Duration,
    pub at_least: Duration,
    pub verbose: bool,
}

/// The messages of the front.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuardian {
    /// I am alive.
    Pong,
    /// The command is about to run, as the leader of this process group. The child itself says so, before it can have children.
    Group(i32),
    /// I stop, with the command, because the user says so; I shall not answer.
    Stopping,
    /// I go on.
    Continued,
    /// The command has ended, or could not be run.
    Ended {
        /// It ran.
        ran: bool,
    },
    /// The lock is no longer wanted.
    Cancel,
}

/// The messages of the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToFront {
    /// Are you alive?
    Ping,
    Granted {
        fence: i64,
    },
    /// No lock.
    Refused {
        status: i32,
        reason: String,
    },
    /// The group is told to end.
    Lost {
        reason: String,
    },
    /// A line for the user.
    Say(String),
    /// All is done.
    Done,
}

pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}
