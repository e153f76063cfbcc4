//! The module's commands as any program sends them: through the public `redis` client, `redis::cmd("…")` and typed replies.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use redis::FromRedisValue;

use crate::wire::{Answer, Outcome, Request};

/// A reply that takes longer than this is a failure of the demo, not patience.
const PATIENCE: Duration = Duration::from_mins(1);
/// Reads of orders sent in one go.
const PIPELINE: usize = 1000;

/// The reply of every command on an order: status, units, remaining, deadline, ref.
type OrderReply = (String, u64, u64, i64, String);

/// One connection to the server.
pub struct Client {
    redis: redis::Connection,
}

/// A granted lock.
pub struct Grant {
    /// Its owner.
    pub token: String,
    /// Its number.
    pub fence: u64,
}

/// What `LOCK.ACQUIRE` is asked for.
pub struct Acquire<'a> {
    /// The lock's key.
    pub lock: &'a str,
    /// The lease in milliseconds.
    pub lease: u64,
    /// How long to wait in milliseconds.
    pub wait: u64,
    /// Whether the hold ends with this connection.
    pub session: bool,
}

/// A sale as `STOCK.INFO` describes it.
#[derive(Clone, Default)]
pub struct Sale {
    /// Units ever put up.
    pub total: u64,
    /// Units for sale now.
    pub remaining: u64,
    /// Units on hold.
    pub held: u64,
    /// Units sold.
    pub sold: u64,
    /// Orders that stand.
    pub orders: u64,
    /// Buyers who have something.
    pub buyers: u64,
    /// How often the server said OK.
    pub ok: u64,
}

/// An order as `STOCK.ORDER` describes it.
#[derive(Clone)]
pub struct Order {
    /// held, sold, cancelled or expired.
    pub state: String,
    /// Its units.
    pub units: u64,
    /// Whose it is.
    pub buyer: String,
}

impl Client {
    /// Connects to `address` (`host:port`).
    pub fn connect(address: &str) -> Result<Self> {
        let client = redis::Client::open(format!("redis://{address}/")).context("open the client")?;
        let redis = client.get_connection().with_context(|| format!("connect to {address}"))?;
        redis.set_read_timeout(Some(PATIENCE)).context("set the read timeout")?;
        Ok(Self { redis })
    }

    /// Sends one command and reads its reply.
    pub fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T> {
        // Not as a context: the client's errors already end with what they stem from.
        command.query(&mut self.redis).map_err(|error| anyhow!("{}: {error}", spell(command)))
    }

    /// `STOCK.CREATE sale total`.
    pub fn create(&mut self, sale: &str, total: u64) -> Result<()> {
        self.ask(redis::cmd("STOCK.CREATE").arg(sale).arg(total))
    }

    /// `STOCK.DECR_ONCE sale id QTY units`.
    pub fn decr_once(&mut self, sale: &str, request: &Request) -> Result<Answer> {
        let (status, units, remaining, _deadline, _reference): OrderReply = self.ask(&decr_once(sale, request))?;
        Ok(Answer {
            id: request.id.clone(),
            asked: request.units,
            outcome: Outcome::from_status(&status)?,
            units,
            remaining,
            fence: None,
        })
    }

    /// Sends the same command, gives it `grace` to arrive and hangs up without reading the reply.
    pub fn decr_once_and_hang_up(mut self, sale: &str, request: &Request, grace: Duration) -> Result<()> {
        self.redis.send_packed_command(&decr_once(sale, request).get_packed_command()).context("send and hang up")?;
        std::thread::sleep(grace);
        Ok(())
    }

    /// `STOCK.INFO sale`.
    pub fn sale(&mut self, sale: &str) -> Result<Sale> {
        let fields: Option<HashMap<String, String>> = self.ask(redis::cmd("STOCK.INFO").arg(sale))?;
        let fields = fields.with_context(|| format!("there is no sale {sale}"))?;
        let number = |name: &str| -> Result<u64> {
            let text = fields.get(name).with_context(|| format!("STOCK.INFO has no field {name}"))?;
            text.parse().with_context(|| format!("STOCK.INFO {name} is {text:?}"))
        };
        Ok(Sale {
            total: number("total")?,
            remaining: number("remaining")?,
            held: number("held")?,
            sold: number("sold")?,
            orders: number("orders")?,
            buyers: number("buyers")?,
            ok: number("ok")?,
        })
    }

    /// `STOCK.ORDER sale id` for every id, pipelined; `None` where there is no order.
    pub fn orders<'a>(&mut self, sale: &str, ids: &[&'a str]) -> Result<Vec<(&'a str, Option<Order>)>> {
        let mut orders = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(PIPELINE) {
            let mut pipe = redis::pipe();
            for id in chunk {
                pipe.cmd("STOCK.ORDER").arg(sale).arg(*id);
            }
            let replies: Vec<Option<HashMap<String, String>>> = pipe.query(&mut self.redis).context("STOCK.ORDER")?;
            ensure!(replies.len() == chunk.len(), "{} replies to {} STOCK.ORDER", replies.len(), chunk.len());
            for (id, fields) in chunk.iter().zip(replies) {
                orders.push((*id, fields.map(Order::from_fields).transpose()?));
            }
        }
        Ok(orders)
    }

    /// `LOCK.ACQUIRE lock PX lease WAIT wait [SESSION]`; `None` when it was not granted in time.
    pub fn acquire(&mut self, wanted: &Acquire<'_>) -> Result<Option<Grant>> {
        let mut command = redis::cmd("LOCK.ACQUIRE");
        command.arg(wanted.lock).arg("PX").arg(wanted.lease).arg("WAIT").arg(wanted.wait);
        if wanted.session {
            command.arg("SESSION");
        }
        let granted: Option<(String, u64, u64)> = self.ask(&command)?;
        Ok(granted.map(|(token, fence, _lease)| Grant { token, fence }))
    }

    /// `LOCK.RELEASE lock token`: whether this call ended the hold.
    pub fn release(&mut self, lock: &str, token: &str) -> Result<bool> {
        self.ask(redis::cmd("LOCK.RELEASE").arg(lock).arg(token))
    }

    /// `LOCK.EXTEND lock token PX lease`: whether there was a hold to extend.
    pub fn extend(&mut self, lock: &str, token: &str, lease: u64) -> Result<bool> {
        self.ask(redis::cmd("LOCK.EXTEND").arg(lock).arg(token).arg("PX").arg(lease))
    }

    /// Whether nobody holds `lock` or waits for it.
    pub fn is_free(&mut self, lock: &str) -> Result<bool> {
        let info: redis::Value = self.ask(redis::cmd("LOCK.INFO").arg(lock))?;
        Ok(info == redis::Value::Nil)
    }
}

impl Client {
    /// How many wait for `lock`.
    pub fn waiting(&mut self, lock: &str) -> Result<u64> {
        let info: Option<HashMap<String, redis::Value>> = self.ask(redis::cmd("LOCK.INFO").arg(lock))?;
        let waiting = info.as_ref().and_then(|info| info.get("waiting"));
        waiting.map_or(Ok(0), |value| u64::from_redis_value_ref(value).context("LOCK.INFO waiting"))
    }
}

impl Order {
    fn from_fields(mut fields: HashMap<String, String>) -> Result<Self> {
        let mut take = |name: &str| fields.remove(name).with_context(|| format!("STOCK.ORDER has no field {name}"));
        Ok(Self {
            state: take("state")?,
            units: take("units")?.parse().context("STOCK.ORDER units")?,
            buyer: take("buyer")?,
        })
    }
}

fn decr_once(sale: &str, request: &Request) -> redis::Cmd {
    let mut command = redis::cmd("STOCK.DECR_ONCE");
    command.arg(sale).arg(&request.id).arg("QTY").arg(request.units);
    command
}

/// The command as one would type it, for error messages.
fn spell(command: &redis::Cmd) -> String {
    let words = command.args_iter().map(|word| match word {
        redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => "…".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
