//! The statements of the documentation are true.

mod clients;
mod commands;
mod contrib;
mod drawn;
mod examples;
mod figures;
mod migrating;
mod names;
mod operations;
mod page;
mod play;
mod python;
mod readme;
mod recipes;
mod runbook;
mod shop;
