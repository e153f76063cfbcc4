//! Listening in on what a primary tells its replicas.

use std::time::{Duration, Instant};

use super::{Client, PATIENCE, Reply, Server, Words};

/// A connection that poses as a replica: it takes the snapshot and then every command of the replication stream.
pub struct Tap {
    link: Client,
    control: Client,
    marks: u32,
}

impl Tap {
    /// Attaches to `primary`. Everything written from now on is seen.
    #[track_caller]
    pub fn attach(primary: &Server) -> Self {
        let mut link = primary.client();
        link.expect("REPLCONF listening-port 1", super::OK);
        link.expect("REPLCONF capa eof capa psync2", super::OK);
        link.send("PSYNC ? -1");
        let begun = link.read();
        assert!(matches!(&begun, Reply::Simple(text) if text.starts_with("FULLRESYNC")), "{begun:?}");
        skip_snapshot(&mut link);
        Self { link, control: primary.client(), marks: 0 }
    }

    /// The next command of the stream. The primary's own chatter (PING, REPLCONF) is left out.
    #[expect(clippy::should_implement_trait, reason = "a stream of commands has no end")]
    #[track_caller]
    pub fn next(&mut self) -> Words {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A primary streams only to a replica it has heard from since it noticed the snapshot's end: say so until then.
            let reply = loop {
                if let Some(reply) = self.link.try_read(Duration::from_millis(5)) {
                    break reply;
                }
                assert!(Instant::now() < deadline, "the primary replicates nothing");
                self.link.send("REPLCONF ACK 0");
            };
            let words = Words(reply.items().iter().map(Reply::bytes).collect());
            if !["PING", "REPLCONF"].contains(&words.name().as_str()) {
                return words;
            }
        }
    }

    /// All commands written since the last look. SELECT is left out; [`Tap::next`] shows it.
    ///
    /// A published message marks where to stop, so nothing has to be waited for. Not for cluster nodes, which do not
    /// replicate published messages.
    #[track_caller]
    pub fn drain(&mut self) -> Vec<Words> {
        self.marks += 1;
        let mark = Words::from(format!("PUBLISH the-tap {}", self.marks));
        self.control.expect(&mark, 0);
        let mut seen = vec![];
        loop {
            let words = self.next();
            if words == mark {
                return seen;
            }
            if words.name() != "SELECT" {
                seen.push(words);
            }
        }
    }
}

/// Reads past the RDB file that begins a synchronisation.
#[track_caller]
fn skip_snapshot(link: &mut Client) {
    // The primary sends empty lines as a sign of life while it prepares the file.
    let header = loop {
        let sent = link.read_line();
        if !sent.is_empty() {
            break String::from_utf8_lossy(&sent).into_owned();
        }
    };
    if let Some(end) = header.strip_prefix("$EOF:") {
        link.read_through(end.as_bytes());
    } else {
        let size = header.strip_prefix('$').and_then(|size| size.parse().ok());
        link.read_bytes(size.unwrap_or_else(|| panic!("no RDB file after {header:?}")));
    }
}
