//! The counters, and the address where Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::store::now;
use crate::trouble::Place;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST: usize = 8192;

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    transactions: AtomicU64,
    server_errors: AtomicU64,
    database_errors: AtomicU64,
    sales: Mutex<BTreeMap<String, Arc<SaleMetrics>>>,
}

/// The counters of one sale.
#[derive(Debug, Default)]
pub struct SaleMetrics {
    events: AtomicU64,
    /// `None`: not known, since this outbox does not work on the sale, or the server is away.
    lag: Mutex<Option<Lag>>,
    /// Whether it was left alone.
    stopped: AtomicBool,
}

/// How far the tables are behind a sale.
#[derive(Debug, Clone, Copy)]
pub struct Lag {
    /// The number of the last event that is written.
    pub written: i64,
    /// That of the sale's last event.
    pub last: i64,
    /// When the first event was appended that is not written, in Unix milliseconds; 0: not known, or there is none.
    pub oldest: u64,
}

impl Lag {
    fn events(self) -> u64 {
        self.last.saturating_sub(self.written).try_into().unwrap_or(0)
    }

    /// The age of the first event that is not written.
    fn time(self) -> Option<Duration> {
        match self.oldest {
            0 => (self.events() == 0).then_some(Duration::ZERO),
            oldest => Some(Duration::from_millis(now().saturating_sub(oldest))),
        }
    }
}

impl Metrics {
    pub fn sale(&self, name: &str) -> Arc<SaleMetrics> {
        self.sales.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }

    pub fn forget(&self, name: &str) {
        self.sales.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub fn transaction(&self) {
        self.transactions.fetch_add(1, Relaxed);
    }

    pub fn error(&self, place: Place) {
        let counter = match place {
            Place::Server => &self.server_errors,
            Place::Database => &self.database_errors,
            Place::Fence => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Of all sales: how many there are, the events that were written, the most that one is behind, the longest time.
    pub fn sums(&self) -> (usize, u64, u64, Duration) {
        let sales = self.sales.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = (sales.len(), 0_u64, 0, Duration::ZERO);
        for sale in sales.values() {
            sums.1 = sums.1.saturating_add(sale.events.load(Relaxed));
            if let Some(lag) = sale.lag() {
                sums.2 = sums.2.max(lag.events());
                sums.3 = sums.3.max(lag.time().unwrap_or_default());
            }
        }
        sums
    }

    /// In the format of Prometheus.
    fn text(&self) -> String {
        let sales = self.sales.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut whole = |name: &str, kind: &str, help: &str, values: &[(String, String)]| {
            // Writing into a string does not fail.
            let _ = writeln!(text, "# HELP lockstock_outbox_{name} {help}\n# TYPE lockstock_outbox_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "lockstock_outbox_{name}{labels} {value}");
            }
        };
        let each = |value: &dyn Fn(&SaleMetrics) -> Option<String>| -> Vec<(String, String)> {
            let line = |(name, sale): (&String, &Arc<SaleMetrics>)| {
                Some((format!("{{sale=\"{}\"}}", escaped(name)), value(sale)?))
            };
            sales.iter().filter_map(line).collect()
        };
        whole(
            "events_total",
            "counter",
            "Events that were written.",
            &each(&|sale| Some(sale.events.load(Relaxed).to_string())),
        );
        whole(
            "lag_events",
            "gauge",
            "Events that are not written yet.",
            &each(&|sale| Some(sale.lag()?.events().to_string())),
        );
        whole(
            "lag_seconds",
            "gauge",
            "How old the first event is that is not written yet.",
            &each(&|sale| Some(format!("{:.3}", sale.lag()?.time()?.as_secs_f64()))),
        );
        whole(
            "stopped",
            "gauge",
            "Whether the sale was stopped. The log names the reason.",
            &each(&|sale| Some(u8::from(sale.stopped.load(Relaxed)).to_string())),
        );
        let transactions = self.transactions.load(Relaxed).to_string();
        whole("transactions_total", "counter", "Transactions that were committed.", &[(String::new(), transactions)]);
        let errors = [("server", &self.server_errors), ("database", &self.database_errors)]
            .map(|(place, count)| (format!("{{place=\"{place}\"}}"), count.load(Relaxed).to_string()));
        whole("errors_total", "counter", "Attempts that failed because the server or the database was away.", &errors);
        text
    }
}

impl SaleMetrics {
    pub fn wrote(&self, events: u64) {
        self.events.fetch_add(events, Relaxed);
    }

    /// Changes what is known of the lag.
    pub fn lags(&self, change: impl FnOnce(Option<Lag>) -> Option<Lag>) {
        let mut lag = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        *lag = change(*lag);
    }

    /// What is known before the first look. Of a sale that is tried again, the first event that is not written is as old as it was.
    pub fn begins(&self, written: i64, last: i64) {
        self.lags(|lag| Some(Lag { written, last, oldest: lag.map_or(0, |lag| lag.oldest) }));
    }

    pub fn stops(&self, stopped: bool) {
        self.stopped.store(stopped, Relaxed);
        if stopped {
            // Its first event that is not written may be lost: it is at least as old as this.
            self.lags(|lag| lag.map(|lag| Lag { oldest: if lag.oldest == 0 { now() } else { lag.oldest }, ..lag }));
        }
    }

    /// A sale that was left alone is never up to date, even if it has as many events as the tables.
    fn lag(&self) -> Option<Lag> {
        let lag = (*self.lag.lock().unwrap_or_else(PoisonError::into_inner))?;
        let least = lag.written.saturating_add(self.stopped.load(Relaxed).into());
        Some(Lag { last: lag.last.max(least), ..lag })
    }
}

/// The value of a label.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Answers requests for ever.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = metrics.clone();
                tokio::spawn(async move { timeout(PATIENCE, answer(stream, &metrics)).await });
            }
            // Too many open files, say.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let path = str::from_utf8(line).ok().and_then(|line| line.strip_prefix("GET ")?.split([' ', '?']).next());
    let (status, body) = match path {
        Some("/metrics") => ("200 OK", metrics.text()),
        Some(_) => ("404 Not Found", "look at /metrics\n".to_owned()),
        None => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_in_the_format_of_prometheus() {
        let metrics = Metrics::default();
        let sale = metrics.sale("a \"b\"\n\\");
        sale.wrote(3);
        assert!(!metrics.text().contains("lag_events{"), "{}", metrics.text());
        sale.lags(|_| Some(Lag { written: 3, last: 5, oldest: 0 }));
        assert!(!metrics.text().contains("lag_seconds{"), "{}", metrics.text());
        sale.lags(|_| Some(Lag { written: 3, last: 5, oldest: 1 }));
        metrics.transaction();
        metrics.error(Place::Database);
        let text = metrics.text();
        for line in [
            "# TYPE lockstock_outbox_events_total counter",
            r#"lockstock_outbox_events_total{sale="a \"b\"\n\\"} 3"#,
            r#"lockstock_outbox_lag_events{sale="a \"b\"\n\\"} 2"#,
            r#"lockstock_outbox_stopped{sale="a \"b\"\n\\"} 0"#,
            "lockstock_outbox_transactions_total 1",
            r#"lockstock_outbox_errors_total{place="database"} 1"#,
            r#"lockstock_outbox_errors_total{place="server"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{text} lacks {line}");
        }
        let lag = || sale.lag().map(|lag| (lag.events(), lag.time()));
        assert!(lag() > Some((2, Some(Duration::from_hours(24)))));
        sale.lags(|_| Some(Lag { written: 5, last: 5, oldest: 0 }));
        assert_eq!(lag(), Some((0, Some(Duration::ZERO))));
        sale.stops(true);
        assert_eq!(lag().map(|lag| lag.0), Some(1));
        assert!(sale.lag().is_some_and(|lag| lag.oldest > 0));
        // One that stops each time it is tried counts on from the first time.
        sale.lags(|lag| lag.map(|lag| Lag { oldest: 7, ..lag }));
        for _ in 0..2 {
            sale.begins(5, 6);
            sale.stops(true);
            assert_eq!(sale.lag().map(|lag| (lag.last, lag.oldest)), Some((6, 7)));
        }
        metrics.forget("a \"b\"\n\\");
        assert_eq!(metrics.sums(), (0, 0, 0, Duration::ZERO));
    }
}
