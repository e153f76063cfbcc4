//! One connection to a server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use serde::{Deserialize, Serialize};

use super::resp::parse;
use super::{PATIENCE, Reply, Want, Words};

/// A blocking RESP client that keeps nothing from the test: what was sent, what came back, byte for byte.
///
/// Whatever does not come within [`PATIENCE`] fails the test with the command that was left unanswered.
pub struct Client {
    stream: TcpStream,
    /// Bytes that came and were not read yet.
    ahead: Vec<u8>,
    last_sent: String,
}

/// Why there was nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nothing {
    /// Nothing came in time.
    Silence,
    /// The connection ended.
    Closed,
}

impl Client {
    /// Connects to a server on this machine.
    #[track_caller]
    pub fn connect(port: u16) -> Self {
        Self::try_connect(port).unwrap_or_else(|error| panic!("no connection to port {port}: {error}"))
    }

    /// Connects, or says why that was not possible.
    pub fn try_connect(port: u16) -> std::io::Result<Self> {
        Self::try_reach((Ipv4Addr::LOCALHOST, port).into(), PATIENCE)
    }

    /// Connects to a server anywhere within `patience`, or says why that was not possible.
    pub fn try_reach(address: SocketAddr, patience: Duration) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, ahead: vec![], last_sent: "(nothing yet)".into() })
    }

    /// Sends a command and reads its reply.
    #[track_caller]
    pub fn cmd(&mut self, words: impl Into<Words>) -> Reply {
        self.send(words);
        self.read()
    }

    /// Sends a command and reads its reply; `None` if the connection ends instead, as that to a server does which gives up
    /// while it starts.
    pub fn ask(&mut self, words: impl Into<Words>) -> Option<Reply> {
        self.ask_within(words, PATIENCE).ok()
    }

    /// Sends a command and reads its reply, if one comes within `patience`.
    pub fn ask_within(&mut self, words: impl Into<Words>, patience: Duration) -> Result<Reply, Nothing> {
        let words = words.into();
        self.last_sent = format!("{words:?}");
        self.stream.write_all(&words.wire()).map_err(|_| Nothing::Closed)?;
        self.next(patience).map(|(reply, _)| reply)
    }

    /// Sends commands in one go, to a server that may be gone.
    pub fn try_send(&mut self, commands: &[Words]) -> Result<(), Nothing> {
        self.last_sent = format!("{commands:?}");
        let bytes: Vec<u8> = commands.iter().flat_map(Words::wire).collect();
        self.stream.write_all(&bytes).map_err(|_| Nothing::Closed)
    }

    /// The next reply, if one comes within `patience`.
    pub fn hear(&mut self, patience: Duration) -> Result<Reply, Nothing> {
        self.next(patience).map(|(reply, _)| reply)
    }

    /// Sends a command and fails the test unless its reply looks as wanted.
    #[track_caller]
    pub fn expect(&mut self, words: impl Into<Words>, want: impl Into<Want>) -> Reply {
        let words = words.into();
        let reply = self.cmd(&words);
        let want = want.into();
        assert!(want.fits(&reply), "{words:?}\nwanted {want:?}\n   got {reply:?}");
        reply
    }

    /// Sends commands in one go and reads all their replies.
    #[track_caller]
    pub fn pipeline<T: Into<Words>>(&mut self, commands: impl IntoIterator<Item = T>) -> Vec<Reply> {
        let commands: Vec<Words> = commands.into_iter().map(Into::into).collect();
        self.send_raw(&commands.iter().flat_map(Words::wire).collect::<Vec<u8>>());
        commands.iter().map(|_| self.read()).collect()
    }

    /// Sends a command without waiting for its reply.
    #[track_caller]
    pub fn send(&mut self, words: impl Into<Words>) {
        let words = words.into();
        self.last_sent = format!("{words:?}");
        self.write(&words.wire());
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.last_sent = bytes.get(..200).unwrap_or(bytes).escape_ascii().to_string();
        self.write(bytes);
    }

    #[track_caller]
    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            panic!("could not send {}: {error}", self.last_sent);
        }
    }

    /// The next reply.
    #[track_caller]
    pub fn read(&mut self) -> Reply {
        match self.next(PATIENCE) {
            Ok((reply, _)) => reply,
            Err(nothing) => self.unanswered(nothing),
        }
    }

    /// The bytes of the next reply.
    #[track_caller]
    pub fn read_raw(&mut self) -> Vec<u8> {
        match self.next(PATIENCE) {
            Ok((_, bytes)) => bytes,
            Err(nothing) => self.unanswered(nothing),
        }
    }

    /// The next reply if it comes within `patience`, else `None`: to show that a client is still waiting.
    #[track_caller]
    pub fn try_read(&mut self, patience: Duration) -> Option<Reply> {
        match self.next(patience) {
            Ok((reply, _)) => Some(reply),
            Err(Nothing::Silence) => None,
            Err(closed) => self.unanswered(closed),
        }
    }

    /// Fails the test unless the server ends this connection; what it still says before that is given back.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<Reply> {
        let mut said = vec![];
        loop {
            match self.next(PATIENCE) {
                Ok((reply, _)) => said.push(reply),
                Err(Nothing::Closed) => return said,
                Err(Nothing::Silence) => panic!("the connection stayed open after {}", self.last_sent),
            }
        }
    }

    /// Sends a command and reads its reply; `None` if the connection ends first, for servers that are about to be killed.
    #[track_caller]
    pub fn attempt(&mut self, words: impl Into<Words>) -> Option<Reply> {
        let words = words.into();
        self.last_sent = format!("{words:?}");
        self.stream.write_all(&words.wire()).ok()?;
        match self.next(PATIENCE) {
            Ok((reply, _)) => Some(reply),
            Err(Nothing::Closed) => None,
            Err(silence) => self.unanswered(silence),
        }
    }

    /// Sends a command and hangs up without waiting for its reply, which is lost; so is the command if the server is gone.
    pub fn send_and_leave(mut self, words: impl Into<Words>) {
        // The sender does not know whether it arrived.
        let _ = self.stream.write_all(&words.into().wire());
    }

    /// Exactly `count` bytes, whatever they are.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        while self.ahead.len() < count {
            if let Err(nothing) = self.receive(deadline) {
                self.unanswered(nothing);
            }
        }
        self.ahead.drain(..count).collect()
    }

    /// Everything up to the next line feed, without the line's end.
    #[track_caller]
    pub fn read_line(&mut self) -> Vec<u8> {
        let mut line = self.read_through(b"\n");
        if line.ends_with(b"\r") {
            line.pop();
        }
        line
    }

    /// Everything before the first `end`, which is read as well.
    #[track_caller]
    pub fn read_through(&mut self, end: &[u8]) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(before) = self.ahead.windows(end.len()).position(|window| window == end) {
                let mut bytes = self.read_bytes(before + end.len());
                bytes.truncate(before);
                return bytes;
            }
            if let Err(nothing) = self.receive(deadline) {
                self.unanswered(nothing);
            }
        }
    }

    /// Reads past `end`, which is the last thing that the server has to say. What comes before it is not looked at.
    #[track_caller]
    pub fn skip_past(&mut self, end: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        while !self.ahead.ends_with(end) {
            self.ahead.drain(..self.ahead.len().saturating_sub(end.len()));
            if let Err(nothing) = self.receive(deadline) {
                self.unanswered(nothing);
            }
        }
        self.ahead.clear();
    }

    /// Switches to RESP3.
    #[track_caller]
    pub fn hello3(&mut self) {
        self.expect("HELLO 3", super::ANY);
    }

    /// This connection's id on the server.
    #[track_caller]
    pub fn id(&mut self) -> i64 {
        self.cmd("CLIENT ID").int()
    }

    /// Hangs up politely (FIN).
    pub fn close(self) {
        // Fails only if the other side was faster, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Hangs up the hard way (RST), as a host that crashed does.
    pub fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("SO_LINGER");
    }

    fn next(&mut self, patience: Duration) -> Result<(Reply, Vec<u8>), Nothing> {
        let deadline = Instant::now() + patience;
        loop {
            match parse(&self.ahead) {
                Ok(Some((reply, used))) => return Ok((reply, self.ahead.drain(..used).collect())),
                Ok(None) => self.receive(deadline)?,
                Err(malformed) => panic!("{malformed:?} in the reply to {}", self.last_sent),
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), Nothing> {
        // A zero timeout would mean none at all.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        self.stream.set_read_timeout(Some(left)).expect("read timeout");
        // What has come is read from its beginning each time, so the longer a reply, the more of it at once.
        let mut chunk = vec![0; self.ahead.len().max(16_384)];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(Nothing::Closed),
            Ok(count) => {
                self.ahead.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut if Instant::now() >= deadline => Err(Nothing::Silence),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::HostUnreachable => Err(Nothing::Closed),
                _ => panic!("reading the reply to {}: {error}", self.last_sent),
            },
        }
    }

    #[track_caller]
    fn unanswered(&self, nothing: Nothing) -> ! {
        let ahead = self.ahead.get(..200).unwrap_or(&self.ahead).escape_ascii();
        match nothing {
            Nothing::Silence => panic!("no reply to {} (in the buffer: \"{ahead}\")", self.last_sent),
            Nothing::Closed => panic!("connection closed by the server after {}", self.last_sent),
        }
    }
}
