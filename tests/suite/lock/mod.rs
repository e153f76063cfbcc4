//! Locks: taking, waiting, handing over, and what the rest of the server makes of them.

mod against_model;
mod apply;
mod busy;
mod cancel;
mod cluster;
mod deadlock;
mod delivery;
mod effects;
mod extend;
mod fairness;
mod fence_option;
mod fences;
mod guard;
mod keys;
mod many;
mod moving;
mod notify;
mod own;
mod parking;
mod pause;
mod places;
mod session;
mod taken_back;
mod tracking;
mod vanish;
mod waiting;
