//! What the documentation says is true.

mod names;
mod readme;
