//! lockstock: distributed locks and oversell-proof stock as native commands of Redis and Valkey.
pub mod core;
