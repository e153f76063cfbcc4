//! The clients that wait for locks.

use crate::core::lock::{Answer, WaiterId};
use crate::server::blocked_clients::BlockedClients;

/// All of them.
pub static WAITERS: BlockedClients<WaiterId, Answer> = BlockedClients::new();
