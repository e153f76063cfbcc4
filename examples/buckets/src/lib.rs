//! One hot sale, split over the nodes of a cluster, and still exact.
//!
//! ```text
//! cargo run -p lockstock-buckets -- mug 1000 8 redis://127.0.0.1:7000 redis://127.0.0.1:7001
//! ```
//!
//! A sale is one key, and so one node's work. Here it is several sales, the buckets, each with a hash tag of its own, so that
//! they lie on different nodes. Two rules keep them one sale:
//!
//! - **Once per id**: an id only ever buys in its home bucket, which is a hash of the id. There the sale itself sees to it.
//! - **The total**: when a home is empty it is not the buyer that moves but units. A move takes them out of another bucket as an
//!   order of its own, with an id that no buyer has, and puts them into the home with a script that does it once per move. So
//!   a move may be repeated by any process at any time, and a process that dies in the middle of one leaves units that cannot be bought, but
//!   never two where there was one. The home remembers the move until it is done, and the next buyer who finds it empty ends it.
//!
//! "Sold out" is said when no other bucket has units to spare. Units that are on their way right then are bought by buyers that
//! come after.
#![expect(clippy::arithmetic_side_effects, reason = "units are fewer than 2^53, and so are their sums")]

use std::num::NonZeroU64;

use redis::{ConnectionLike, FromRedisValue, RedisResult, cmd};

/// The ids of moves begin with this; those of buyers must not.
const MOVE: &str = "move:";

/// Puts units into a bucket, once per move, and forgets the plan of the move. A move that found nothing is not one that has
/// arrived: a process that was held up while it carried out the same plan may find something yet.
const ARRIVE: &str = "
    if tonumber(ARGV[2]) > 0 and redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 0 then
        redis.call('STOCK.ADJUST', KEYS[1], ARGV[2])
        redis.call('SADD', KEYS[2], ARGV[1])
    end
    if redis.call('GET', KEYS[3]) == ARGV[3] then
        redis.call('DEL', KEYS[3])
    end";

/// A sale that is split.
pub struct Sale {
    /// The part of its keys' hash tags that they share.
    pub name: String,
    /// So many, as long as it lasts: the buyers' homes depend on it.
    pub buckets: NonZeroU64,
}

/// What a buyer hears.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// One unit is its own now.
    Sold,
    /// It has had one since an earlier time.
    Duplicate,
    /// No bucket has any.
    SoldOut,
}

/// Units on their way from one bucket to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The order that they leave as.
    pub id: String,
    /// The bucket that they leave.
    pub from: u64,
    /// How many.
    pub units: u64,
}

impl Move {
    /// As the plan is written down.
    fn text(&self) -> String {
        format!("{} {} {}", self.id, self.from, self.units)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let id = words.next()?.to_owned();
        Some(Self { id, from: words.next()?.parse().ok()?, units: words.next()?.parse().ok()? })
    }
}

/// The answer of every command on an order.
type Order = (String, u64, u64, i64, String);

/// All buckets together.
#[derive(Debug, Default, PartialEq)]
pub struct Books {
    /// What the sale began with, as long as no unit is lost or made.
    pub total: u64,
    /// Left to sell.
    pub remaining: u64,
    /// To buyers.
    pub sold: u64,
    /// Taken out of one bucket and not yet put into the other.
    pub moving: u64,
}

impl Sale {
    /// Shares the units out.
    ///
    /// # Errors
    ///
    /// When the server fails, or there is such a sale already.
    pub fn create(&self, redis: &mut impl ConnectionLike, total: u64) -> RedisResult<()> {
        for bucket in self.all() {
            // The first ones get what does not divide evenly.
            let share = total / self.buckets + u64::from(bucket < total % self.buckets);
            cmd("STOCK.CREATE").arg(self.stock(bucket)).arg(share).exec(redis)?;
        }
        Ok(())
    }

    /// Takes the sale away, with its orders.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn withdraw(&self, redis: &mut impl ConnectionLike) -> RedisResult<()> {
        self.all().try_for_each(|bucket| cmd("DEL").arg(self.stock(bucket)).arg(self.key(bucket, "plan")).exec(redis))
    }

    /// Takes one unit for `id`, once.
    ///
    /// # Errors
    ///
    /// When the server fails. Ask again: a buyer that has bought gets [`Answer::Duplicate`].
    pub fn buy(&self, redis: &mut impl ConnectionLike, id: &str) -> RedisResult<Answer> {
        let home = self.home(id);
        loop {
            let (status, ..): Order = cmd("STOCK.DECR_ONCE").arg(self.stock(home)).arg(id).query(redis)?;
            match status.as_str() {
                "OK" => return Ok(Answer::Sold),
                "DUPLICATE" => return Ok(Answer::Duplicate),
                "SOLDOUT" if self.refill(redis, home)? => {}
                "SOLDOUT" => return Ok(Answer::SoldOut),
                other => return Err((redis::ErrorKind::UnexpectedReturnType, "status", other.into()).into()),
            }
        }
    }

    /// Brings units into an empty bucket. False: no other bucket has any.
    ///
    /// One refills a bucket at a time, so that a thousand who find it empty do not move a thousand times. This lock is for
    /// order only: if its lease ends too early, a move that two carry out is still one move.
    fn refill(&self, redis: &mut impl ConnectionLike, home: u64) -> RedisResult<bool> {
        let lock = self.key(home, "refill");
        let grant: Option<(String, u64, u64)> =
            cmd("LOCK.ACQUIRE").arg(&lock).arg("PX").arg(5_000).arg("WAIT").arg(10_000).query(redis)?;
        let Some((token, ..)) = grant else { return Ok(true) };
        let refilled = self.refill_alone(redis, home, &token);
        cmd("LOCK.RELEASE").arg(&lock).arg(token).exec(redis)?;
        refilled
    }

    fn refill_alone(&self, redis: &mut impl ConnectionLike, home: u64, token: &str) -> RedisResult<bool> {
        if let Some(unfinished) = self.planned(redis, home)? {
            self.carry_out(redis, home, &unfinished)?;
        }
        if self.remaining(redis, home)? > 0 {
            return Ok(true);
        }
        let Some(plan) = self.plan(redis, home, token)? else { return Ok(false) };
        self.carry_out(redis, home, &plan)?;
        Ok(true)
    }

    /// Chooses half of what the fullest other bucket has, and writes it down. The name has to be new; the token of a grant is.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn plan(&self, redis: &mut impl ConnectionLike, home: u64, name: &str) -> RedisResult<Option<Move>> {
        let mut fullest = (0, home);
        for bucket in self.all().filter(|bucket| *bucket != home) {
            fullest = fullest.max((self.remaining(redis, bucket)?, bucket));
        }
        let (remaining, from) = fullest;
        if remaining == 0 {
            return Ok(None);
        }
        let units = remaining.div_ceil(2);
        let plan = Move { id: format!("{MOVE}{name}"), from, units };
        let mut write = cmd("SET");
        let written: Option<String> = write.arg(self.key(home, "plan")).arg(plan.text()).arg("NX").query(redis)?;
        // The plan of another process comes first: to overwrite it would leave units on their way for ever.
        if written.is_some() { Ok(Some(plan)) } else { self.planned(redis, home) }
    }

    /// The move that a process has begun and not ended.
    fn planned(&self, redis: &mut impl ConnectionLike, home: u64) -> RedisResult<Option<Move>> {
        let text: Option<String> = cmd("GET").arg(self.key(home, "plan")).query(redis)?;
        Ok(text.as_deref().and_then(Move::parse))
    }

    /// Carries out a move, from wherever another process may have left it.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn carry_out(&self, redis: &mut impl ConnectionLike, home: u64, plan: &Move) -> RedisResult<()> {
        let units = self.depart(redis, home, plan)?;
        let mut put = cmd("EVAL");
        put.arg(ARRIVE).arg(3).arg(self.stock(home)).arg(self.key(home, "arrived")).arg(self.key(home, "plan"));
        put.arg(&plan.id).arg(units).arg(plan.text()).exec(redis)
    }

    /// Takes the units out, once, and says how many they are: none if they were bought meanwhile.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn depart(&self, redis: &mut impl ConnectionLike, home: u64, plan: &Move) -> RedisResult<u64> {
        let mut take = cmd("STOCK.DECR_ONCE");
        take.arg(self.stock(plan.from)).arg(&plan.id).arg("QTY").arg(plan.units).arg("REF").arg(home);
        let (_, units, ..): Order = take.query(redis)?;
        Ok(units)
    }

    /// Adds all buckets up, order by order. Exact while nobody buys.
    ///
    /// # Errors
    ///
    /// When the server fails.
    pub fn books(&self, redis: &mut impl ConnectionLike) -> RedisResult<Books> {
        type Page = (String, Vec<(String, String, u64, String, String, i64)>);

        let mut books = Books::default();
        for bucket in self.all() {
            books.remaining += self.remaining(redis, bucket)?;
            let mut cursor = "0".to_owned();
            loop {
                let (next, orders): Page = cmd("STOCK.ORDERS").arg(self.stock(bucket)).arg(&cursor).query(redis)?;
                for (id, _, units, _, to, _) in orders {
                    if !id.starts_with(MOVE) {
                        books.sold += units;
                    } else if !self.arrived(redis, to.parse().unwrap_or(bucket), &id)? {
                        books.moving += units;
                    }
                }
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        books.total = books.remaining + books.sold + books.moving;
        Ok(books)
    }

    fn arrived(&self, redis: &mut impl ConnectionLike, home: u64, id: &str) -> RedisResult<bool> {
        cmd("SISMEMBER").arg(self.key(home, "arrived")).arg(id).query(redis)
    }

    fn remaining(&self, redis: &mut impl ConnectionLike, bucket: u64) -> RedisResult<u64> {
        let info = cmd("STOCK.INFO").arg(self.stock(bucket)).query(redis)?;
        let info: std::collections::HashMap<String, redis::Value> = FromRedisValue::from_redis_value(info)?;
        info.get("remaining").cloned().map_or(Ok(0), |value| Ok(u64::from_redis_value(value)?))
    }

    fn all(&self) -> std::ops::Range<u64> {
        0..self.buckets.get()
    }

    /// The bucket in which `id` buys. FNV-1a, which every language has or has in five lines.
    #[must_use]
    pub fn home(&self, id: &str) -> u64 {
        let hash = id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash % self.buckets
    }

    fn stock(&self, bucket: u64) -> String {
        self.key(bucket, "stock")
    }

    /// Everything of a bucket lies in one slot, by its tag.
    fn key(&self, bucket: u64, what: &str) -> String {
        format!("{{{}:{bucket}}}:{what}", self.name)
    }
}
