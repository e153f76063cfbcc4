//! Another module on the same server: `listener.c`, which answers keyspace events with commands of its own.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::{env, fs};

use super::repository;

/// The line of redis.conf that loads the listener.
#[track_caller]
pub fn line() -> String {
    format!("loadmodule {}", built().display())
}

/// The listener, compiled once for each run of the tests.
#[track_caller]
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/listener.c")))
}

/// Compiles a module in C by whatever links Rust programs here.
#[track_caller]
pub fn compile(source: &Path) -> PathBuf {
    let dir = repository().join("target/tmp");
    fs::create_dir_all(&dir).expect("a directory for the module");
    let module = dir.join(source.file_name().expect("a file")).with_extension("so");
    // Other runs may be using the one that is there.
    let fresh = module.with_extension(process::id().to_string());
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let done = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-o"])
        .arg(&fresh)
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", compiler.display()));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{} does not compile:\n{said}", source.display());
    fs::rename(&fresh, &module).expect("the module is put in its place");
    module
}
