//! The counters, and the address where Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

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
    /// How many events are not written yet.
    behind: AtomicU64,
    /// When the first of them was appended, in Unix milliseconds; 0: there is none.
    oldest: AtomicU64,
    /// Whether it was left alone.
    stopped: AtomicU64,
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
            sums.2 = sums.2.max(sale.behind.load(Relaxed));
            sums.3 = sums.3.max(sale.lag());
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
        let each = |value: &dyn Fn(&SaleMetrics) -> String| -> Vec<(String, String)> {
            sales.iter().map(|(name, sale)| (format!("{{sale=\"{}\"}}", escaped(name)), value(sale))).collect()
        };
        whole(
            "events_total",
            "counter",
            "Events that were written.",
            &each(&|sale| sale.events.load(Relaxed).to_string()),
        );
        whole(
            "lag_events",
            "gauge",
            "Events that are not written yet.",
            &each(&|sale| sale.behind.load(Relaxed).to_string()),
        );
        whole(
            "lag_seconds",
            "gauge",
            "How old the first event is that is not written yet.",
            &each(&|sale| format!("{:.3}", sale.lag().as_secs_f64())),
        );
        whole(
            "stopped",
            "gauge",
            "Whether the sale was left alone because events of it are missing.",
            &each(&|sale| sale.stopped.load(Relaxed).to_string()),
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

    /// How many events are not written yet, and when the first of them was appended, as far as one knows.
    pub fn lags(&self, events: i64, oldest: Option<u64>) {
        let events = u64::try_from(events).unwrap_or(0);
        self.behind.store(events, Relaxed);
        match oldest {
            _ if events == 0 => self.oldest.store(0, Relaxed),
            Some(oldest) => self.oldest.store(oldest, Relaxed),
            None => {}
        }
    }

    pub fn stops(&self, stopped: bool) {
        self.stopped.store(stopped.into(), Relaxed);
    }

    fn lag(&self) -> Duration {
        let oldest = self.oldest.load(Relaxed);
        if oldest == 0 {
            return Duration::ZERO;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_millis(oldest))
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
        sale.lags(2, Some(1));
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
        assert!(sale.lag() > Duration::from_hours(24));
        sale.lags(0, None);
        assert_eq!(sale.lag(), Duration::ZERO);
        metrics.forget("a \"b\"\n\\");
        assert_eq!(metrics.sums(), (0, 0, 0, Duration::ZERO));
    }
}
