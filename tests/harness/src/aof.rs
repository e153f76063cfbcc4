//! Reading an append-only file back into commands.

use std::fs;
use std::path::Path;

use super::resp::parse;
use super::{Reply, Server, Words};

/// The contents of a server's append-only files.
#[derive(Debug)]
pub struct Aof {
    /// The state at the last rewrite.
    pub base: Base,
    /// The commands since then, in order; SELECT is left out.
    pub commands: Vec<Words>,
}

/// The state that an append-only file starts from.
#[derive(Debug)]
pub enum Base {
    /// None: never rewritten.
    Nothing,
    /// An RDB file (`aof-use-rdb-preamble yes`, the default).
    Rdb(Vec<u8>),
    /// The commands that make it; SELECT is left out.
    Commands(Vec<Words>),
}

impl Aof {
    /// Reads what `server` has written so far. A command is in the file before its reply is sent.
    #[track_caller]
    pub fn of(server: &Server) -> Self {
        Self::read(&server.dir().join("appendonlydir"))
    }

    /// Reads the files that the manifest in `dir` names.
    #[track_caller]
    pub fn read(dir: &Path) -> Self {
        let manifest = fs::read_to_string(dir.join("appendonly.aof.manifest")).expect("the manifest of the AOF");
        let mut aof = Self { base: Base::Nothing, commands: vec![] };
        for line in manifest.lines() {
            let (name, kind) = manifest_entry(line);
            let file = || fs::read(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            match kind {
                "b" if Path::new(name).extension().is_some_and(|extension| extension == "rdb") => {
                    aof.base = Base::Rdb(file());
                }
                "b" => aof.base = Base::Commands(commands(&file())),
                "i" => aof.commands.extend(commands(&file())),
                // "h", history: files that a rewrite has made obsolete.
                _ => {}
            }
        }
        aof
    }
}

/// The file name and type (`b`ase, `h`istory, `i`ncremental) in `file appendonly.aof.1.base.rdb seq 1 type b`.
#[track_caller]
fn manifest_entry(line: &str) -> (&str, &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |key| words.chunks(2).find(|pair| pair[0] == key).and_then(|pair| pair.get(1).copied());
    match (value("file"), value("type")) {
        (Some(name), Some(kind)) => (name, kind),
        _ => panic!("not a line of a manifest: {line:?}"),
    }
}

/// The commands in `bytes`, without SELECT and timestamps. A command cut off at the end fails the test.
#[track_caller]
fn commands(mut bytes: &[u8]) -> Vec<Words> {
    let mut found = vec![];
    while !bytes.is_empty() {
        if bytes.starts_with(b"#") {
            // A timestamp annotation (`aof-timestamp-enabled yes`).
            let end = bytes.iter().position(|byte| *byte == b'\n').expect("a whole line");
            bytes = &bytes[end + 1..];
            continue;
        }
        let (reply, used) = match parse(bytes) {
            Ok(Some(found)) => found,
            Ok(None) => panic!("the AOF ends in the middle of {:?}", bytes.escape_ascii().to_string()),
            Err(malformed) => panic!("{malformed:?} in the AOF"),
        };
        bytes = &bytes[used..];
        let words = Words(reply.items().iter().map(Reply::bytes).collect());
        if words.name() != "SELECT" {
            found.push(words);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(lines: &[&str]) -> Vec<u8> {
        lines.iter().flat_map(|line| Words::from(*line).wire()).collect()
    }

    #[test]
    fn the_manifest_decides_which_files_count() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
        put(
            "appendonly.aof.manifest",
            b"file appendonly.aof.2.base.aof seq 2 type b\n\
              file appendonly.aof.1.incr.aof seq 1 type h\n\
              file appendonly.aof.2.incr.aof seq 2 type i\n\
              file appendonly.aof.3.incr.aof seq 3 type i\n",
        );
        put("appendonly.aof.2.base.aof", &wire(&["SELECT 0", "SET base 1"]));
        put("appendonly.aof.1.incr.aof", b"obsolete");
        put("appendonly.aof.2.incr.aof", &[b"#TS:1700000000\r\n".to_vec(), wire(&["SELECT 0", "SET a 1"])].concat());
        put("appendonly.aof.3.incr.aof", &wire(&["DEL a"]));
        let aof = Aof::read(dir.path());
        assert!(matches!(aof.base, Base::Commands(commands) if commands == ["SET base 1"]));
        assert_eq!(aof.commands, ["SET a 1", "DEL a"]);
    }

    #[test]
    #[should_panic(expected = "ends in the middle of")]
    fn a_cut_off_command_is_noticed() {
        let whole = wire(&["SET a 1", "SET b 2"]);
        commands(&whole[..whole.len() - 1]);
    }
}
