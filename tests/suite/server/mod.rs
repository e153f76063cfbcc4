//! What the server does to everything in it: files, replicas, failover, settings, other names.

mod clock;
mod cluster_databases;
mod cluster_failover;
mod crash;
mod defrag;
mod effects;
mod files;
mod import;
mod io_threads;
mod looked_at;
mod observed;
mod old_files;
mod payload;
mod persist;
mod rename_scan;
mod renamed_commands;
pub mod replica;
mod role;
mod settings;
mod slot_moves;
pub mod surface;
mod upgrade;
mod verbatim;
mod verbatim_load;
mod wrong_words;
