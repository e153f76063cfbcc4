//! The clients that are blocked for locks. Requests with NOTIFY are not among them.

use crate::core::lock::{WaitResult, WaiterId};
use crate::server::blocked_clients::BlockedClients;

/// All clients that are blocked for a lock.
pub static BLOCKED: BlockedClients<WaiterId, WaitResult> = BlockedClients::new();
