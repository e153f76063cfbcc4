//! Numbers on the pages that nobody measured: limits, defaults, and how something was measured.

/// A page, words of it, the file that has it so, and what stands there. A change of the one leads to the other.
pub const HELD: &[(&str, &str, &str, &str)] = &[
    (README, "Rust 1.95", "Cargo.toml", "rust-version = \"1.95\""),
    (README, "version 0.3.0", "Cargo.toml", "version = \"0.3.0\""),
    (README_ZH, "版本 0.3.0", "Cargo.toml", "version = \"0.3.0\""),
    (README, "the watchdog's 30 s", "benches/compare/src/ways/redisson.rs", "30000"),
    (README, "until 1.0, a minor version", "CHANGELOG.md", "a new minor number may change what a command answers"),
    (README_ZH, "在 1.0 之前", "CHANGELOG.md", "a new minor number may change what a command answers"),
    (README_ZH, "Rust 1.95", "Cargo.toml", "rust-version = \"1.95\""),
    (README_ZH, "看门狗的 30 秒", "benches/compare/src/ways/redisson.rs", "30000"),
    (CHANGELOG, "## 0.3.0", "Cargo.toml", "version = \"0.3.0\""),
    (CHANGELOG, "## 0.2.0", "tests/suite/server/surface.rs", "of_0_2"),
    (CHANGELOG, "## 0.1.0", "CHANGELOG.md", "The first version:"),
    (CHANGELOG, "10203 for 1.2.3", "tests/suite/server/settings.rs", "fn the_version_is_the_same_wherever_it_is_shown"),
    (CHANGELOG, "A wait of nearly 2^63 ms", "tests/suite/limits/edge_numbers.rs", "i64::MAX"),
    ("CONTRIBUTING.md", "Jedis 7.2.0", "scripts/test-client-programs", "-Djedis.version=7.2.0"),
    ("CONTRIBUTING.md", "Jedis 7.5.3", "clients/java/pom.xml", "<jedis.version>7.5.3<"),
    ("CONTRIBUTING.md", "Lettuce 7.0.0", "scripts/test-client-programs", "-Dlettuce.version=7.0.0.RELEASE"),
    ("CONTRIBUTING.md", "Lettuce 7.7.0", "clients/java/pom.xml", "<lettuce.version>7.7.0.RELEASE<"),
    (DESIGN, "below 2^53 until the year 2255", "src/core/limits.rs", "pub const MAX_EXACT: u64 = (1 << 53) - 1;"),
    (DESIGN, "records of up to 512 orders", "src/core/sale/snapshot.rs", "pub const BLOCK_ORDERS: u32 = 512;"),
    (DESIGN, "up to 500 steps", "src/core/lock/engine/mod.rs", "const BOUND: usize = 500;"),
    (
        DESIGN,
        "at most 128 due holds expire",
        "src/core/sale/budget.rs",
        "const MOST_ENDED: usize = if cfg!(test) { 2 } else { 128 };",
    ),
    (
        DESIGN,
        "at most 100 orders",
        "src/core/sale/budget.rs",
        "const MOST_SERVED: usize = if cfg!(test) { 3 } else { 100 };",
    ),
    (CHANGELOG, "node-redis 5 and 6", "clients/node/package.json", "\"redis\": \"^5.0.0 || ^6.0.0\""),
    (PYTHON, "Python 3.10 or later", "clients/python/pyproject.toml", "requires-python = \">=3.10\""),
    (PYTHON, "redis-py 5.0.1", "clients/python/tests/lowest.txt", "redis==5.0.1"),
    (PYTHON, "to 8.1", "clients/python/tests/requirements.txt", "redis==8.1."),
    (PYTHON, "valkey-py 6.0", "clients/python/tests/lowest.txt", "valkey==6.0."),
    (PYTHON, "to 6.2", "clients/python/tests/requirements.txt", "valkey==6.2."),
    (PYTHON, "within 5 seconds", "clients/python/lockstock/steps.py", "RELEASE = 5.0"),
    (PYTHON, "up to 64 idle connections", "clients/python/lockstock/wires.py", "SPARE = 64"),
    (NODE, "Node 20 or later", NODE_PACKAGE, "\"node\": \">=20\""),
    (NODE, "ioredis 5.0", NODE_PACKAGE, "\"ioredis-oldest\": \"npm:ioredis@5.0."),
    (NODE, "to 6.0", NODE_PACKAGE, "\"ioredis\": \"6.0."),
    (NODE, "node-redis 5.0", NODE_PACKAGE, "\"redis-oldest\": \"npm:redis@5.0."),
    (NODE, "to 6.3", NODE_PACKAGE, "\"redis\": \"6.3."),
    (NODE, "died or froze (30,000)", "clients/node/lib/request.js", "read.leaseMs ?? 30_000"),
    (NODE, "at most 2 s after its `waitMs`", "clients/node/lib/acquisition.js", "GRACE_MS = 1_500"),
    (NODE, "within 0.1 s", "clients/node/lib/acquisition.js", "FAREWELL_MS = 50"),
    (NODE, "within 5 s", "clients/node/lib/bounds.js", "ANSWER_MS = 5_000"),
    (RUST, "Rust 1.95 or later", "Cargo.toml", "rust-version = \"1.95\""),
    (RUST, "redis-rs 1.8.1", "Cargo.lock", "name = \"redis\"\nversion = \"1.8.1\""),
    (RUST, "tokio 1.54.1", "Cargo.lock", "name = \"tokio\"\nversion = \"1.54.1\""),
    (RUST, "at most 2 s after its time limit", RUST_REQUEST, "OVERTIME: Duration = Duration::from_millis(1_900)"),
    (RUST, "within 5 s", RUST_REQUEST, "FAREWELL: Duration = Duration::from_secs(5)"),
    (RUST, "holds up for 2 s", "clients/rust/src/client.rs", "PATIENCE: Duration = Duration::from_secs(2)"),
    (GO, "Go 1.25 or later", "clients/go/go.mod", "\ngo 1.25"),
    (GO, "go-redis 9.22", "clients/go/go.mod", "go-redis/v9 v9.22."),
    (GO, "rueidis 1.0.76", "clients/go/go.mod", "rueidis v1.0.76"),
    (GO, "by default 30 s", "clients/go/acquire.go", "lease: 30 * time.Second"),
    (GO, "up to 64 idle connections", "clients/go/overgoredis/overgoredis.go", "spare = 64"),
    (JAVA, "Java 17 or later", POM, "<maven.compiler.release>17<"),
    (JAVA, "Jedis 7.2", JAVA_LOWEST, "-Djedis.version=7.2."),
    (JAVA, "to 7.5", POM, "<jedis.version>7.5."),
    (JAVA, "Lettuce 7.0", JAVA_LOWEST, "-Dlettuce.version=7.0."),
    (JAVA, "to 7.7", POM, "<lettuce.version>7.7."),
    (JAVA, "by default 30 s", "clients/java/src/main/java/lockstock/Lock.java", "Duration.ofSeconds(30), null"),
    (OPERATIONS, "| a held lock | 300 |", OPERATIONS_TEST, "(\"a held lock\","),
    (OPERATIONS, "| a lock held with `SESSION` | 600 |", OPERATIONS_TEST, "(\"a lock held with `SESSION`\","),
    (OPERATIONS, "one more holder of a `SHARED` or `LIMIT` lock | 240 |", OPERATIONS_TEST, "one more holder of a"),
    (
        OPERATIONS,
        "| a request that waits, blocked | 40000 |",
        OPERATIONS_TEST,
        "figure(\"a request that waits, blocked\")",
    ),
    (
        OPERATIONS,
        "| a request that waits, with `NOTIFY` | 1000 |",
        OPERATIONS_TEST,
        "(\"a request that waits, with `NOTIFY`\",",
    ),
    (OPERATIONS, "| a sale | 1200 |", OPERATIONS_TEST, "(\"a sale\","),
    (
        OPERATIONS,
        "| an order, sold, without a buyer and a reference | 40 |",
        OPERATIONS_TEST,
        "(\"an order, sold, without a buyer and a reference\",",
    ),
    (
        OPERATIONS,
        "held, with a buyer and a reference | 100 |",
        OPERATIONS_TEST,
        "\"an order, held, with a buyer and a reference\"",
    ),
    (OPERATIONS, "waitlist, with a buyer and a reference | 140 |", OPERATIONS_TEST, "\"an order on the waitlist, with"),
    (
        OPERATIONS,
        "and references take 400 MB",
        "docs/operations.md",
        "| an order, sold, without a buyer and a reference | 40 |",
    ),
    (GUARANTEES, "24 in most scenes", "tests/chaos/src/work/mod.rs", "pub const USUAL: Crew"),
    (GUARANTEES, "100,000 places", "src/core/lock/vacant_places.rs", "const MOST: usize = 100_000;"),
    (
        GUARANTEES,
        "1,000 steps",
        "src/core/lock/engine/deadlock.rs",
        "A lock whose one holder waits for another lock is a step.",
    ),
    (COMMANDS, "strings of 1 to 512 bytes", "src/core/limits.rs", "pub const MAX_ID: usize = 512;"),
    (LOCKS, "place in line (1: next)", "tests/suite/lock/notify.rs", "fn the_reply_is_the_place"),
    (LOCKS, "shows the first 100", "src/core/lock/engine/view.rs", "const SHOWN: usize = 100;"),
    (STOCK, "`seq` (1, 2, 3 …, without gaps)", "tests/suite/sale/stream.rs", "seq"),
    (
        STOCK,
        "more than 128 holds",
        "src/core/sale/budget.rs",
        "const MOST_ENDED: usize = if cfg!(test) { 2 } else { 128 };",
    ),
    (
        STOCK,
        "up to 100 orders",
        "src/core/sale/budget.rs",
        "const MOST_SERVED: usize = if cfg!(test) { 3 } else { 100 };",
    ),
    (COMMANDS, "`lockstock.default-lease-ms` | 30000 |", CONFIG, "Range::up_to(MAX_EXACT), 30_000);"),
    (COMMANDS, "`lockstock.max-waiters` | 100000 |", CONFIG, "Range::below(MAX_EXACT), 100_000);"),
    (COMMANDS, "`lockstock.max-keys` | 1000 |", CONFIG, "1_000_000), 1_000);"),
    (COMMANDS, "`lockstock.place-grace-ms` | 1000 |", CONFIG, "3_600_000), 1_000);"),
    (
        COMMANDS,
        "shows 10203 for 1.2.3",
        "tests/suite/server/settings.rs",
        "fn the_version_is_the_same_wherever_it_is_shown",
    ),
    (MIGRATING, "`lockstock.default-lease-ms` (30 s)", CONFIG, "Range::up_to(MAX_EXACT), 30_000);"),
    (MIGRATING, "`extend(10)`, which adds 10 s", "docs/migrating.md", "`extend(10)`"),
    (MIGRATING, "| 1 | `SOLDOUT`", MIGRATING_TEST, "[\"OK\", \"SOLDOUT\", \"DUPLICATE\"]"),
    (MIGRATING, "| 2 | `DUPLICATE`", MIGRATING_TEST, "[\"OK\", \"SOLDOUT\", \"DUPLICATE\"]"),
    (MIGRATING, "100000 buyers moves within five seconds", MIGRATING_TEST, "assert!(spent() - before < 5.0"),
    (MIGRATING_ZH, "`lockstock.default-lease-ms`（30 秒）", CONFIG, "Range::up_to(MAX_EXACT), 30_000);"),
    (MIGRATING_ZH, "`extend(10)`，在剩余时间上加 10 秒", "docs/migrating.md", "`extend(10)`"),
    (MIGRATING_ZH, "| 1 | `SOLDOUT`", MIGRATING_TEST, "[\"OK\", \"SOLDOUT\", \"DUPLICATE\"]"),
    (MIGRATING_ZH, "| 2 | `DUPLICATE`", MIGRATING_TEST, "[\"OK\", \"SOLDOUT\", \"DUPLICATE\"]"),
    (MIGRATING_ZH, "有 100000 个买家的秒杀不到五秒", MIGRATING_TEST, "assert!(spent() - before < 5.0"),
    (CLIENTS, "a read time-out of 0.5 to 5 seconds", "docs/clients.md", "`response_timeout`, 0.5 s"),
    (CLIENTS, "answered with 1.", "tests/suite/lock/extend.rs", "LOCK.EXTEND"),
    (CLIENTS, "at most 5 seconds later", "docs/clients.md", "lease=5,"),
    (CLIENTS, "Python 3.10 or later", "clients/python/README.md", "Python 3.10 or later"),
    (CLIENTS, "redis-py 5.0.1 to 8.1", "clients/python/README.md", "redis-py 5.0.1 to 8.1"),
    (CLIENTS, "valkey-py 6.0 to 6.2", "clients/python/README.md", "valkey-py 6.0 to 6.2"),
    (CLIENTS, "Node 20 or later", "clients/node/README.md", "Node 20 or later"),
    (CLIENTS, "ioredis 5.0 to 6.0", "clients/node/README.md", "ioredis 5.0 to 6.0"),
    (CLIENTS, "node-redis 5.0 to 6.3", "clients/node/README.md", "node-redis 5.0 to 6.3"),
    (CLIENTS, "Rust 1.95 or later", "clients/rust/README.md", "Rust 1.95 or later"),
    (CLIENTS, "redis-rs 1.8.1", "clients/rust/README.md", "redis-rs 1.8.1"),
    (CLIENTS, "Go 1.25 or later", "clients/go/README.md", "Go 1.25 or later"),
    (CLIENTS, "go-redis 9.22", "clients/go/README.md", "go-redis 9.22"),
    (CLIENTS, "rueidis 1.0.76", "clients/go/README.md", "rueidis 1.0.76"),
    (CLIENTS, "Java 17 or later", "clients/java/README.md", "Java 17 or later"),
    (CLIENTS, "Jedis 7.2 to 7.5", "clients/java/README.md", "Jedis 7.2 to 7.5"),
    (CLIENTS, "Lettuce 7.0 to 7.7", "clients/java/README.md", "Lettuce 7.0 to 7.7"),
    (PERFORMANCE, "pipelines of 16", "benches/compare/src/chapters/mod.rs", "DEEP: usize = 16;"),
    (PERFORMANCE, "Below 1, lockstock costs less", "benches/compare/src/goals.rs", "≤"),
    (PERFORMANCE, "200 clients wait", "benches/compare/src/chapters/handover.rs", "[2, 25, 200, 1_000, 5_000, 10_000]"),
    (PERFORMANCE, "polled every 1 ms", "benches/compare/src/chapters/handover.rs", "[1, 10, 100].map(|every|"),
    (PERFORMANCE, "50 connections", "benches/compare/src/pump.rs", "CONNECTIONS: usize = 50;"),
    (PERFORMANCE, "every 1, 10 or 100 ms", "benches/compare/src/chapters/handover.rs", "[1, 10, 100].map(|every|"),
    (PERFORMANCE, "or after 1 ms", "benches/compare/src/chapters/handover.rs", "time: Duration::from_millis(1)"),
    (
        PERFORMANCE,
        "is 1 when all contenders got the same number of grants, and 1/n",
        "benches/compare/src/tally.rs",
        "fn jain(",
    ),
    (
        TESTING,
        "the largest numbers of 31, 32, 53 and 63 bits",
        "src/fuzz/edges.rs",
        "[0, 1 << 31, 1 << 32, 1 << 53, i64::MAX / 1_000, i64::MAX]",
    ),
    (TESTING, "the time that is left until 64 bits overflow", "src/fuzz/edges.rs", "i64::MAX]"),
    (SCALING, "with 8 buckets", "benches/compare/src/chapters/cluster.rs", "tags: 8,"),
    (SCALING, "with 64.", "benches/compare/src/chapters/cluster.rs", "tags: 64,"),
    (SCALING, "2 % buy", "benches/simulation/src/lib.rs", "dice < 0.02 => costs.order"),
    (SCALING, "18 % repeat an order", "benches/simulation/src/lib.rs", "dice < 0.20 => costs.duplicate"),
    (SCALING, "99 of 100 requests", "benches/compare/src/bin/simulation.rs", "99 of 100 requests"),
    (ABUSE, "`lockstock.max-waiters` (100000)", CONFIG, r#"c"max-waiters", Range::below(MAX_EXACT), 100_000)"#),
    (ABUSE, "less than 1 kB", "docs/operations.md", "| a request that waits, with `NOTIFY` | 1000 |"),
    (ABUSE, "as 1000 requests for 1000 keys each", LARGE_LOCKS, "const REQUESTS: usize = 1_000;"),
    (ABUSE, "a request for 1000 keys", LARGE_LOCKS, "let keys: Vec<String> = (0..1_000)"),
    (ABUSE, "`lockstock.max-keys` (1000)", CONFIG, r#"c"max-keys", Range::new(1..=1_000_000), 1_000)"#),
    (ABUSE, "100,000 places", "src/core/lock/vacant_places.rs", "const MOST: usize = 100_000;"),
    (
        ABUSE,
        "1,000 steps",
        "src/core/lock/engine/deadlock.rs",
        "A lock whose one holder waits for another lock is a step.",
    ),
    (
        ABUSE,
        "99 of 100 requests are answered within 20 ms",
        "tests/suite/support/load.rs",
        "p99 < Duration::from_millis(20)",
    ),
    (ABUSE, "a lease of 2^62 ms", "tests/suite/limits/abuse.rs", "const LONG: i64 = 1 << 62;"),
    (ABUSE, "at a 64-bit millisecond time", "src/core/time.rs", "pub struct UnixMs(pub i64)"),
    (ABUSE, "the command ends 500 of them", "src/core/lock/engine/mod.rs", "const BOUND: usize = 500;"),
    (ABUSE, "100000 leases of one lock", LARGE_LOCKS, "const HOLDERS: usize = 100_000;"),
    (ABUSE, "a lock with 100000 holders", LARGE_LOCKS, "const HOLDERS: usize = 100_000;"),
    (ABUSE, "100000 holds of a sale", "tests/suite/limits/large.rs", "const HOLDS: usize = 100_000;"),
    (ABUSE, "the first 100 waiters", "src/core/lock/engine/view.rs", "const SHOWN: usize = 100;"),
    (ABUSE, "at most 1000 rows", "src/core/sale/view.rs", "pub const PAGE_ROWS: usize = 1_000;"),
    (ABUSE, "at most 4096 orders", "src/core/sale/view.rs", "pub const PAGE_EFFORT: usize = 4_096;"),
    (ABUSE, "1 to 512 bytes of any kind", "src/core/limits.rs", "pub const MAX_ID: usize = 512;"),
];

const ABUSE: &str = "docs/abuse.md";
const CHANGELOG: &str = "CHANGELOG.md";
const CLIENTS: &str = "docs/clients.md";
const COMMANDS: &str = "docs/commands.md";
const LOCKS: &str = "docs/locks.md";
const STOCK: &str = "docs/stock.md";
const DESIGN: &str = "DESIGN.md";
const GUARANTEES: &str = "docs/guarantees.md";
const MIGRATING: &str = "docs/migrating.md";
const MIGRATING_ZH: &str = "docs/zh/migrating.md";
const NODE: &str = "clients/node/README.md";
const PYTHON: &str = "clients/python/README.md";
const RUST: &str = "clients/rust/README.md";
const GO: &str = "clients/go/README.md";
const JAVA: &str = "clients/java/README.md";
const NODE_PACKAGE: &str = "clients/node/package.json";
const RUST_REQUEST: &str = "clients/rust/src/lock/request.rs";
const POM: &str = "clients/java/pom.xml";
const JAVA_LOWEST: &str = "scripts/test-client-programs";
const OPERATIONS: &str = "docs/operations.md";
const README: &str = "README.md";
const README_ZH: &str = "README.zh-CN.md";
const PERFORMANCE: &str = "docs/performance.md";
const TESTING: &str = "docs/testing.md";
const SCALING: &str = "docs/scaling.md";
const CONFIG: &str = "src/config.rs";
const MIGRATING_TEST: &str = "tests/suite/docs/migrating.rs";
const OPERATIONS_TEST: &str = "tests/suite/docs/operations.rs";
const LARGE_LOCKS: &str = "tests/suite/limits/large_locks.rs";
