//! Sales: orders, holds, their stream, and what becomes of them in a cluster and in a storm.

mod acl;
mod adjust_once;
mod against_model;
mod buckets;
mod cart;
mod cart_cluster;
mod carts_of_a_shop;
mod cluster;
mod cutoff;
mod deadlines;
mod effects;
mod errors;
mod half_loaded;
mod holds;
mod keep;
mod late_payments;
mod orders;
mod railway;
mod random;
mod random_carts;
mod stock;
mod storm;
mod stream;
mod waitlist;
