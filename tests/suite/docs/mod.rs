//! What the documentation says is true.

mod commands;
mod contrib;
mod names;
mod operations;
mod page;
mod play;
mod python;
mod readme;
