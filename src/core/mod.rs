//! The pure core: what a lock and a sale *are*.
//!
//! Nothing in here knows a server, a socket or a clock. Time, clients and keys come in as plain values; what should
//! happen in the world goes out as values too. That is what lets these rules run under property tests and Miri, and
//! what makes the same decision come out the same way wherever it is taken.
//!
//! Reading order: [`limits`], [`time`], [`id`], [`key`], [`fence`], then the [`lock`], the [`sale`] and the [`deadline_index`]. They stand
//! on [`codec`], `invariant`, [`retry`], [`slab`], [`slot`] and [`unlinked`].
#![forbid(unsafe_code)]

pub mod codec;
pub mod deadline_index;
pub mod fence;
pub mod id;
pub(crate) mod invariant;
pub mod key;
pub mod limits;
pub mod lock;
pub mod retry;
pub mod sale;
pub mod slab;
pub mod slot;
pub mod time;
pub mod unlinked;
