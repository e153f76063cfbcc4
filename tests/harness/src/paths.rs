//! Where everything is.

use std::env;
use std::io;
use std::path::{Path, PathBuf, absolute};

/// The directory of the whole repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The server program, or a script that ends in `exec` of one.
pub fn server_path() -> PathBuf {
    let path = env::var_os("LOCKSTOCK_SERVER").map_or_else(|| "redis-server".into(), PathBuf::from);
    // A bare name is looked up in the PATH. Everything else has to be found from the servers' own directories, too.
    if path.components().count() > 1 { absolute(&path).unwrap_or(path) } else { path }
}

/// The module to load; fails the test if it is not there.
#[track_caller]
pub fn module_path() -> PathBuf {
    find_module().unwrap_or_else(|error| panic!("{error}"))
}

/// The module to load, if it is there.
pub fn find_module() -> io::Result<PathBuf> {
    let release = || repository().join("target/release/liblockstock.so");
    let path = env::var_os("LOCKSTOCK_MODULE").map_or_else(release, PathBuf::from);
    path.canonicalize().map_err(|error| {
        let path = path.display();
        io::Error::new(
            error.kind(),
            format!("no module at {path} ({error}): run `cargo build --release` or set LOCKSTOCK_MODULE"),
        )
    })
}
