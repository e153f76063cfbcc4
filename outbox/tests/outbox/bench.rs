//! How fast it is: `make bench-outbox`. `LOCKSTOCK_OUTBOX` names a release build of the program.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use harness::{Client, OK, Server, eventually, free_port, repository};

use crate::databases::{Database, Kind, postgres};
use crate::support::{EVERYTHING, Outbox, agree, once};

/// Second, orders that were taken, orders in the database.
type Point = (f64, f64, f64);
/// Its name, its colour, and what it shows.
type Line = (&'static str, &'static str, fn(&Point) -> f64);

/// As many orders as the sale of the picture has.
const ORDERS: usize = 100_000;
/// How long the loop of single statements runs.
const LOOP: u32 = 8;

#[test]
#[ignore = "a benchmark, for a release build on a machine that does nothing else"]
fn faster_than_a_loop_of_single_inserts() {
    let (server, database) = (Server::start(), Database::durable(Kind::Postgres));
    let mut client = server.client();
    sell(&mut client, "sale", "STREAM events DEADLINES", ORDERS);
    let (plain, first) =
        (loop_of_inserts(&database, "on"), rate(&server, &database, "lockstock_", &["--sale", "sale"]));
    // Confirmations write the rows that are there.
    sell(&mut client, "held", "STREAM helds DEADLINES", ORDERS / 2);
    let confirm = (0..ORDERS / 2).map(|number| format!("STOCK.CONFIRM held held-{number}"));
    client.pipeline(confirm.collect::<Vec<_>>());
    let second = rate(&server, &database, "lockstock_", &["--sale", "held"]);
    let events = rate(&server, &database, "more_", &["--sale", "sale", "--events"]);
    let (again, fast) = (loop_of_inserts(&database, "on"), loop_of_inserts(&database, "off"));
    println!("\nPostgreSQL, fsync on, {} and the server on the same machine:", server_name(&server));
    println!("  a loop of single INSERTs        {plain:>8.0} rows a second, before; {again:.0} after");
    println!("  the same, which waits for no disk {fast:>6.0} rows a second");
    let plain = plain.max(again);
    for (what, rate) in [
        ("lockstock-outbox, orders sold", first),
        ("… reserved, then confirmed", second),
        ("… orders sold, with --events", events),
    ] {
        println!(
            "  {what:<31} {rate:>8.0} events a second: {:.0} and {:.1} times the loops",
            rate / plain,
            rate / fast
        );
    }
    for kind in [Kind::MariaDb, Kind::Sqlite] {
        let database = Database::durable(kind);
        let rate = rate(&server, &database, "lockstock_", &["--sale", "sale"]);
        println!("  {:<31} {rate:>8.0} events a second", format!("… orders sold, into {kind:?}"));
    }
    assert!(first > fast, "{first} {fast}");
}

#[test]
#[ignore = "a benchmark, for a release build on a machine that does nothing else"]
fn the_lag_of_one_sale_at_full_speed() {
    let (server, database) = (Server::start(), Database::durable(Kind::Postgres));
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {ORDERS} STREAM events DEADLINES"), OK);
    let address = format!("127.0.0.1:{}", free_port());
    let outbox = Outbox::start(&server, &database, &[EVERYTHING, &["--metrics", &address]].concat());
    agree(&database, &mut client, "sale");
    let begun = Instant::now();
    let mut seller = server.client();
    let selling = thread::spawn(move || {
        for first in (0..ORDERS).step_by(100) {
            let calls = (first..first + 100).map(|number| format!("STOCK.DECR_ONCE sale order-{number}"));
            seller.pipeline(calls.collect::<Vec<_>>());
        }
        Instant::now()
    });
    let mut curve: Vec<Point> = Vec::new();
    eventually("all is written", || {
        let written = crate::usage::metric(&address, "lockstock_outbox_events_total{sale=\"sale\"}");
        let taken = client.cmd("STOCK.INFO sale").field("seq").int() as f64;
        curve.push((begun.elapsed().as_secs_f64(), taken, written));
        thread::sleep(Duration::from_millis(10));
        written >= ORDERS as f64
    });
    let end = begun.elapsed().as_secs_f64();
    let sold = selling.join().expect("a seller").duration_since(begun).as_secs_f64();
    agree(&database, &mut client, "sale");
    outbox.end();
    let most = curve.iter().map(|(_, taken, written)| taken - written).fold(0.0, f64::max);
    println!(
        "\n{ORDERS} orders were taken within {sold:.2} s and in the database after {end:.2} s; at most {most:.0} behind"
    );
    let stamp = format!(
        "{}, PostgreSQL; the server, the clients, the outbox and the database share two cores",
        server_name(&server)
    );
    let path = repository().join("target/bench/outbox.svg");
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(&path, picture(&curve, end, &stamp)).expect("a picture");
    println!("{}", path.strip_prefix(repository()).unwrap_or(Path::new("")).display());
}

fn server_name(server: &Server) -> String {
    let info = server.info("server");
    let version = |field: &str| info.get(field).cloned();
    version("valkey_version").map_or_else(
        || format!("Redis {}", version("redis_version").unwrap_or_default()),
        |version| format!("Valkey {version}"),
    )
}

fn sell(client: &mut Client, sale: &str, stream: &str, orders: usize) {
    client.expect(format!("STOCK.CREATE {sale} {ORDERS} {stream}"), OK);
    let hold = if sale == "held" { " HOLD 3600000" } else { "" };
    for first in (0..orders).step_by(1000) {
        let calls = (first..first + 1000).map(|number| format!("STOCK.DECR_ONCE {sale} {sale}-{number}{hold}"));
        client.pipeline(calls.collect::<Vec<_>>());
    }
}

/// Events a second, from an empty table to the end of the stream.
fn rate(server: &Server, database: &Database, prefix: &str, words: &[&str]) -> f64 {
    // The tables are there before.
    once(server, database, &["--sale", "none", "--prefix", prefix, "--events"]);
    let begun = Instant::now();
    once(server, database, &[words, &["--prefix", prefix]].concat());
    let rate = ORDERS as f64 / begun.elapsed().as_secs_f64();
    let sale = words[1];
    let written = database.rows(&format!("SELECT seq FROM {prefix}sales WHERE sale = '{sale}'"));
    assert_eq!(written, [[ORDERS.to_string()]]);
    rate
}

/// Rows a second that one connection writes, each in a statement and a transaction of its own: by pgbench, which is written in C.
fn loop_of_inserts(database: &Database, commit: &str) -> f64 {
    let name = format!("plain_{}", free_port());
    database.change(&format!(
        "CREATE TABLE {name} (sale TEXT COLLATE \"C\" NOT NULL, id TEXT COLLATE \"C\" NOT NULL, state TEXT NOT NULL, units BIGINT NOT NULL, \
         buyer TEXT NOT NULL, ref TEXT NOT NULL, deadline BIGINT, seq BIGINT NOT NULL, changed_at TIMESTAMPTZ NOT NULL, PRIMARY KEY (sale, id))"
    ));
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("insert.sql");
    let statement = format!(
        "\\set number random(1, 9000000000000000)\nINSERT INTO {name} VALUES ('sale', 'sale-' || :number, 'sold', 1, 'sale-' || :number, '', NULL, :number, now());\n"
    );
    fs::write(&script, statement).expect("a script");
    let mut bench = postgres("pgbench");
    bench.env("PGOPTIONS", format!("-c synchronous_commit={commit}"));
    bench.args(["--no-vacuum", "--client=1", "--protocol=prepared", &format!("--time={LOOP}")]);
    let output = bench.arg(format!("--file={}", script.display())).arg(database.url()).output().expect("pgbench");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("tps = ")).unwrap_or_else(|| panic!("{output:?}"));
    line.split_whitespace().nth(2).and_then(|rate| rate.parse().ok()).expect("a number")
}

/// Two curves over one axis of seconds: orders that were taken and that are in the database; below, the lag between them.
fn picture(curve: &[Point], end: f64, stamp: &str) -> String {
    const LEFT: f64 = 80.0;
    const WIDTH: f64 = 740.0;
    let lag = curve.iter().map(|(_, taken, written)| (taken - written).max(0.0)).fold(1.0, f64::max);
    let mut svg = format!(
        "<svg width=\"860\" height=\"470\" viewBox=\"0 0 860 470\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\">\n\
         <rect width=\"860\" height=\"470\" fill=\"#FFFFFF\"/>\n\
         <text x=\"14\" y=\"24\" font-size=\"15\" font-weight=\"bold\">One sale of {ORDERS} orders at full speed, followed into PostgreSQL</text>\n\
         <text x=\"14\" y=\"44\" font-size=\"11\" fill=\"#6E6E6E\">{stamp}</text>\n"
    );
    let x = |second: f64| LEFT + second / end * WIDTH;
    let mut draw = |top: f64, height: f64, most: f64, label: &str, lines: [Line; 2]| {
        let y = |value: f64| top + height - value / most * height;
        for part in 0..=4 {
            let value = most * f64::from(part) / 4.0;
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {0:.1}H{1}\" stroke=\"#E6E6E6\"/><text x=\"{2}\" y=\"{3:.1}\" font-size=\"11\" text-anchor=\"end\">{value:.0}</text>",
                y(value),
                LEFT + WIDTH,
                LEFT - 8.0,
                y(value) + 4.0
            );
        }
        let _ =
            writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\" font-size=\"11\" fill=\"#6E6E6E\">{label}</text>", top - 8.0);
        for (number, (name, colour, value)) in lines.into_iter().enumerate().filter(|(_, line)| !line.0.is_empty()) {
            let points = curve.iter().fold(String::new(), |mut points, point| {
                let _ = write!(points, "{:.1},{:.1} ", x(point.0), y(value(point).max(0.0)));
                points
            });
            let _ =
                writeln!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>");
            let at = top + 14.0 + 16.0 * f64::from(u8::try_from(number).unwrap_or(0));
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{at}\" font-size=\"12\" fill=\"{colour}\">{name}</text>",
                LEFT + 10.0
            );
        }
    };
    draw(
        80.0,
        180.0,
        ORDERS as f64,
        "orders",
        [("taken in the server", "#1F63A8", |point| point.1), ("in the database", "#C81E2D", |point| point.2)],
    );
    draw(300.0, 110.0, lag, "orders behind", [("lag", "#C81E2D", |point| point.1 - point.2), ("", "", |_| 0.0)]);
    for part in 0..=4 {
        let second = end * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"430\" font-size=\"11\" text-anchor=\"middle\">{second:.2} s</text>",
            x(second)
        );
    }
    svg + "</svg>\n"
}

/// The program that is measured.
pub fn program() -> Command {
    Command::new(std::env::var_os("LOCKSTOCK_OUTBOX").unwrap_or_else(|| env!("CARGO_BIN_EXE_lockstock-outbox").into()))
}
