//! What the documentation says is true.

mod commands;
mod names;
mod page;
mod play;
mod python;
mod readme;
