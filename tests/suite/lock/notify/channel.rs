//! A connection that listens to what is published.

use harness::{ANY, Client, INT, Reply, Server};

/// A connection that listens to a channel.
pub struct Channel(pub Client);

impl Channel {
    #[track_caller]
    pub fn of(server: &Server, channel: &str) -> Self {
        let mut client = server.client();
        client.expect(["SUBSCRIBE", channel], ANY);
        Self(client)
    }

    /// The next message.
    #[track_caller]
    pub fn next(&mut self) -> String {
        text(&self.0.read())
    }

    /// The next message is that `request` was granted; returns the fence.
    #[track_caller]
    pub fn grants(&mut self, request: &str, lease: i64) -> i64 {
        let message = self.next();
        let begin = format!("{{\"event\":\"granted\",{request},\"fence\":");
        let end = format!(",\"lease-ms\":{lease}}}");
        let fence = message.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(&end));
        fence.and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("{message}"))
    }

    /// The next message is that `request` has failed with an error that begins like `code`.
    #[track_caller]
    pub fn fails(&mut self, request: &str, code: &str) {
        let message = self.next();
        let begin = format!("{{\"event\":\"failed\",{request},\"error\":\"{code}");
        assert!(message.starts_with(&begin) && message.ends_with("\"}"), "{message}");
    }

    #[track_caller]
    pub fn says(&mut self, message: &str) {
        assert_eq!(self.next(), message);
    }

    /// Nothing was published so far.
    #[track_caller]
    pub fn is_silent(&mut self, server: &Server, channel: &str) {
        server.expect(["PUBLISH", channel, "mark"], INT);
        self.says("mark");
    }
}

/// The text of a published message.
#[track_caller]
pub fn text(message: &Reply) -> String {
    assert_eq!(message.at(0).text(), "message", "{message:?}");
    message.at(2).text()
}
