//! A server whose every effect is heard twice.

use super::{Aof, Client, Server, Tap, Words, eventually};

/// A server with an append-only file and a listener in the place of a replica.
pub struct Stage {
    /// The server.
    pub server: Server,
    /// The listener.
    pub tap: Tap,
    /// How many commands of the file were seen.
    pub read: usize,
    /// How a command is shown, with what differs from run to run checked and replaced.
    readable: fn(Words) -> String,
}

impl Stage {
    /// Starts the server.
    #[track_caller]
    pub fn set(readable: fn(Words) -> String) -> Self {
        let server = Server::builder().aof("always").start();
        let tap = Tap::attach(&server);
        Self { server, tap, read: 0, readable }
    }

    /// What replicas and the file were told since the last look: the same, or the test fails.
    #[track_caller]
    pub fn told(&mut self) -> Vec<String> {
        let told = self.tap.drain();
        // What happened since is in the file already; it is for the next look.
        let filed = &Aof::of(&self.server).commands[self.read..];
        assert_eq!(filed.get(..told.len()), Some(&told[..]), "replicas and file are told the same");
        self.read += told.len();
        told.into_iter().map(self.readable).collect()
    }

    /// Fails the test unless they were told just this since the last look.
    #[track_caller]
    pub fn tells(&mut self, expected: &[&str]) {
        assert_eq!(self.told(), expected);
    }

    /// Waits until a message that contains `text` is told.
    #[track_caller]
    pub fn tells_in_time(&mut self, text: &str, expected: &[&str]) {
        let mut told = vec![];
        eventually(&format!("{text} is told"), || {
            told.extend(self.told());
            told.iter().any(|line| line.contains(text))
        });
        told.extend(self.told());
        assert_eq!(told, expected);
    }

    /// A client that asks in these `words` for a lock, and waits for it.
    #[track_caller]
    pub fn waiter(&self, words: &str) -> Client {
        let mut client = self.server.client();
        // Counts who began to wait: how many still do can change under our hands.
        let before = self.server.info_int("lockstock", "lockstock_lock_waits");
        client.send(words);
        eventually("the client waits", || self.server.info_int("lockstock", "lockstock_lock_waits") == before + 1);
        client
    }
}
