//! `lockstock run`. Two processes that watch each other: [`front`], which the shell knows, has the terminal, the signals and the
//! command as its child; [`guardian`] has the lock, and ends the command's process group in time. Each notices when the other dies.

mod command;
pub mod front;
mod group;
pub mod guardian;
mod talk;
mod terminal;
