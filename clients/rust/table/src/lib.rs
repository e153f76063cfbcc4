//! The row of redis-rs in docs/clients.md, against real servers. Each test has a lock of its own, which "holder" holds.
#![cfg(test)]

use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::cluster::ClusterClient;
use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult, Value, cmd};

const LONG: u64 = 60_000;

fn url(name: &str) -> String {
    std::env::var(name).expect("clients/with-servers starts this")
}

fn client() -> Client {
    Client::open(url("LOCKSTOCK_URL")).expect("a URL")
}

/// Sees what the server has, over a connection of its own.
struct Eye {
    connection: Connection,
    key: &'static str,
}

impl Eye {
    fn on(key: &'static str) -> Self {
        let mut eye = Self { connection: client().get_connection().expect("a connection"), key };
        eye.say::<Value>(cmd("DEL").arg(key));
        eye.say::<Value>(cmd("LOCK.ACQUIRE").arg(key).arg("TOKEN").arg("holder"));
        eye
    }

    fn say<T: FromRedisValue>(&mut self, words: &Cmd) -> T {
        words.query(&mut self.connection).expect("an answer")
    }

    fn release(&mut self, token: &str) -> bool {
        self.say(cmd("LOCK.RELEASE").arg(self.key).arg(token))
    }

    /// The connections of the waiters.
    fn waiters(&mut self) -> Vec<i64> {
        let info: Option<std::collections::HashMap<String, Value>> = self.say(cmd("LOCK.INFO").arg(self.key));
        let Some(Value::Array(rows)) = info.and_then(|mut info| info.remove("waiters")) else { return Vec::new() };
        rows.into_iter()
            .map(|row| std::collections::HashMap::<String, Value>::from_redis_value(row).expect("a row"))
            .map(|mut row| i64::from_redis_value(row.remove("client").expect("client")).expect("a number"))
            .collect()
    }

    fn until(&mut self, waiting: usize) {
        let begun = Instant::now();
        while self.waiters().len() != waiting {
            assert!(begun.elapsed() < Duration::from_secs(10), "{waiting} wait");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn cut(&mut self) {
        let id = self.waiters()[0];
        self.say::<i64>(cmd("CLIENT").arg("KILL").arg("ID").arg(id));
    }
}

fn ask(key: &str, wait: u64) -> Cmd {
    let mut ask = cmd("LOCK.ACQUIRE");
    ask.arg(key).arg("TOKEN").arg("me").arg("WAIT").arg(wait);
    ask
}

#[test]
fn it_is_in_the_table() {
    let page = include_str!("../../../../docs/clients.md");
    let row = page.lines().find(|line| line.starts_with("| redis-rs 1.8 |")).expect("a row");
    for words in
        ["`response_timeout`, 0.5 s; `Connection`: none", "multiplexed: **connection is kept, the request goes on waiting**"]
    {
        assert!(row.contains(words), "{words}");
    }
}

#[test]
fn a_connection_reads_as_long_as_it_takes_unless_told_otherwise() {
    let mut eye = Eye::on("connection");
    let mut connection = client().get_connection().expect("a connection");
    // Longer than the time-out of a multiplexed one.
    let waited: Option<Value> = ask("connection", 1_000).query(&mut connection).expect("an answer");
    assert_eq!(waited, None);
    connection.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let error = ask("connection", LONG).query::<Value>(&mut connection).expect_err("it expires");
    assert!(error.is_timeout(), "{error}");
    drop(connection);
    eye.until(0);
}

#[test]
fn a_connection_that_is_cut_fails_the_call_and_nothing_is_sent_again() {
    let mut eye = Eye::on("cut");
    let asked =
        std::thread::spawn(|| ask("cut", LONG).query::<Value>(&mut client().get_connection().expect("a connection")));
    eye.until(1);
    eye.cut();
    assert!(asked.join().expect("it ends").is_err());
    eye.until(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multiplexed_connection_is_kept_when_a_call_expires_and_the_request_waits_on() {
    let mut eye = Eye::on("kept");
    let mut connection = client().get_multiplexed_async_connection().await.expect("a connection");
    let begun = Instant::now();
    let error = ask("kept", LONG).query_async::<Value>(&mut connection).await.expect_err("it expires");
    assert!(error.is_timeout() && (400..3_000).contains(&begun.elapsed().as_millis()), "{error} {:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(eye.waiters().len(), 1);
    assert!(cmd("PING").query_async::<String>(&mut connection).await.is_err(), "what comes behind is held up");
    assert!(!eye.release("me"));
    eye.until(0);
    let said: String = cmd("PING").query_async(&mut connection).await.expect("it is the same connection");
    assert_eq!(said, "PONG");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multiplexed_connection_sends_nothing_again() {
    let mut eye = Eye::on("multiplexed");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client().get_multiplexed_async_connection_with_config(&config).await.expect("a connection");
    cut_while_it_waits(&mut eye, &mut connection).await.expect_err("it is cut");
    eye.until(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_manager_reconnects_for_the_next_call() {
    let mut eye = Eye::on("manager");
    let config = redis::aio::ConnectionManagerConfig::new().set_response_timeout(None);
    let mut manager = ConnectionManager::new_with_config(client(), config).await.expect("a connection");
    cut_while_it_waits(&mut eye, &mut manager).await.expect_err("it is cut");
    eye.until(0);
    let said: String = cmd("PING").query_async(&mut manager).await.expect("an answer");
    assert_eq!(said, "PONG");
}

/// What a wait answers whose connection is cut.
async fn cut_while_it_waits(
    eye: &mut Eye,
    connection: &mut (impl ConnectionLike + Send + Clone + 'static),
) -> RedisResult<Value> {
    let (mut asks, key) = (connection.clone(), eye.key);
    let asked = tokio::spawn(async move { ask(key, LONG).query_async(&mut asks).await });
    eye.until(1);
    eye.cut();
    asked.await.expect("it ends")
}

#[test]
fn the_client_of_a_cluster_knows_the_node_of_a_key() {
    let client = ClusterClient::new([url("LOCKSTOCK_CLUSTER_URL")]).expect("a URL");
    let mut connection = client.get_connection().expect("a connection");
    for number in 0..20 {
        let key = format!("redis-rs {number}");
        let granted: Option<(String, i64, i64)> =
            cmd("LOCK.ACQUIRE").arg(&key).arg("TOKEN").arg("me").query(&mut connection).expect("an answer");
        assert!(granted.is_some());
        assert!(cmd("LOCK.RELEASE").arg(&key).arg("me").query::<bool>(&mut connection).expect("an answer"));
    }
}
