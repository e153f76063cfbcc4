//! The program: see the library for what it does.

use std::env;
use std::error::Error;
use std::path::Path;

use lockstock_consumer::consume;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [url, stream, database] => consume(url, stream, Path::new(database), None),
        [url, stream, database, "--go-on", entry] => consume(url, stream, Path::new(database), Some(entry)),
        _ => Err("usage: consumer URL STREAM DATABASE [--go-on ENTRY]".into()),
    }
}
