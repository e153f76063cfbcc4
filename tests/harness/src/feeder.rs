//! A primary that is none: its link breaks in the middle of its file, or what it sends behind that is made up.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::process::free_port;
use super::resp::parse;
use super::{Reply, Words};

/// Promises every replica that connects a whole RDB file, sends the beginning of it and hangs up, for as long as the tests run.
pub struct Feeder {
    port: u16,
    fed: Arc<AtomicUsize>,
}

impl Feeder {
    /// Starts feeding the first `sent` bytes of `rdb`.
    #[track_caller]
    pub fn start(rdb: Vec<u8>, sent: usize) -> Self {
        Self::feeding(rdb, sent, vec![])
    }

    /// Starts feeding all of `rdb` and then `commands`, and stays connected.
    #[track_caller]
    pub fn with_stream(rdb: Vec<u8>, commands: &[Words]) -> Self {
        let sent = rdb.len();
        Self::feeding(rdb, sent, commands.iter().flat_map(Words::wire).collect())
    }

    #[track_caller]
    fn feeding(rdb: Vec<u8>, sent: usize, stream: Vec<u8>) -> Self {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let fed = Arc::new(AtomicUsize::new(0));
        let count = fed.clone();
        thread::spawn(move || {
            for replica in listener.incoming().flatten() {
                // One that hangs up first will be back.
                let Ok(mut replica) = feed(replica, &rdb, sent) else { continue };
                count.fetch_add(1, Ordering::Relaxed);
                if !stream.is_empty() && replica.write_all(&stream).is_ok() {
                    // Until it hangs up.
                    while matches!(replica.read(&mut [0; 4096]), Ok(1..)) {}
                }
            }
        });
        Self { port, fed }
    }

    /// The port to replicate from.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How often a replica was left alone in the middle of the file.
    pub fn fed(&self) -> usize {
        self.fed.load(Ordering::Relaxed)
    }
}

/// Plays the primary's part of a synchronisation up to the break.
fn feed(mut replica: TcpStream, rdb: &[u8], sent: usize) -> std::io::Result<TcpStream> {
    let (mut ahead, mut chunk) = (vec![], [0; 4096]);
    loop {
        while let Ok(Some((command, used))) = parse(&ahead) {
            ahead.drain(..used);
            let name = match &command {
                Reply::Array(words) => words.first().map(Reply::text).unwrap_or_default().to_uppercase(),
                _ => String::new(),
            };
            match name.as_str() {
                "PING" => replica.write_all(b"+PONG\r\n")?,
                "PSYNC" | "SYNC" => {
                    let id = "0123456789abcdef0123456789abcdef01234567";
                    write!(replica, "+FULLRESYNC {id} 0\r\n${}\r\n", rdb.len())?;
                    replica.write_all(&rdb[..sent])?;
                    return Ok(replica);
                }
                _ => replica.write_all(b"+OK\r\n")?,
            }
        }
        match replica.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => ahead.extend_from_slice(&chunk[..count]),
        }
    }
}
