//! The pure core: the rules of locks and sales.
//!
//! Nothing in here uses a server, a socket or a clock. Time, clients and keys come in as plain values, and the resulting actions go out as
//! values too. So these rules can run under property tests and Miri, and the same input always gives the same decision.
//!
//! Reading order: [`limits`], [`time`], [`id`], [`key`], [`fence`], then the [`lock`], the [`sale`] and the [`deadline_index`]; `chunks`,
//! [`codec`], [`decimal`], `inline`, `invariant`, [`pause`], [`retry`], [`slab`], [`slot`] and [`unlinked`] are their foundations.
#![forbid(unsafe_code)]

mod chunks;
pub mod codec;
pub mod deadline_index;
pub mod decimal;
pub mod fence;
pub mod id;
pub(crate) mod inline;
pub(crate) mod invariant;
pub mod key;
pub mod limits;
pub mod lock;
pub mod pause;
pub mod retry;
pub mod sale;
pub mod slab;
pub mod slot;
#[cfg(test)]
mod tests;
pub mod time;
pub mod unlinked;
