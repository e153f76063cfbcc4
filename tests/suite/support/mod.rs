//! What the tests share.

/// Numbers at edges: the fuzz targets have the same.
#[path = "../../../src/fuzz/edges.rs"]
pub mod edges;
pub mod forms;
mod harness_itself;
pub mod line;
pub mod load;
pub mod models;
pub mod scene;
