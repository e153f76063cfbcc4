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
mod plain;
mod play;
mod python;
mod readme;
mod recipes;
mod release;
mod runbook;
mod shop;
