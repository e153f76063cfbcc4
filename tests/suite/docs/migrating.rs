//! docs/migrating.md and its Chinese version are true: what it says of the others is so, and a sale moves while it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::shop::{books, orders};
use harness::{ANY, Client, INT, NULL, OK, Reply, Server, err};

use super::page::{MIGRATING, MIGRATING_ZH, Page};
use super::play::play;
use super::readme::done;

/// The page's programs in Lua: the usual script, and the one that moves a sale.
fn scripts() -> [String; 2] {
    let blocks = MIGRATING.blocks("lua");
    [blocks[0].text(), blocks[1].text()]
}

#[test]
fn every_example_prints_what_it_says() {
    play(&MIGRATING, &Server::start());
    play(&MIGRATING_ZH, &Server::start());
}

/// It has fewer sections, and what it has is what the page in English has.
#[test]
fn the_chinese_page_has_the_same_programs() {
    let code = |page: &Page, language: &str| -> Vec<String> {
        let blocks = page.blocks(language).into_iter().map(|block| {
            let lines = block.lines.iter().map(|(_, line)| *line).filter(|line| !line.starts_with("-- "));
            // Strings are translated, too.
            lines.flat_map(|line| line.split('"').step_by(2).chain(["\n"])).collect()
        });
        blocks.collect()
    };
    for (language, programs) in [("lua", 2), ("python", 3)] {
        let [english, chinese] = [MIGRATING, MIGRATING_ZH].map(|page| code(&page, language));
        assert_eq!(english.len(), programs);
        assert_eq!(english, chinese, "{language}");
    }
    let [english, chinese] = [MIGRATING, MIGRATING_ZH].map(|page| done(&page.blocks("text")[0]));
    assert!(english.len() > 4);
    assert_eq!(english, chinese);
}

/// What the table of the README and this page say of others' locks.
#[test]
fn others_refuse_or_count_a_request_that_is_repeated() {
    // Redisson's script for a lock: a hash with a count for each owner.
    const REDISSON: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
        redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end \
        return redis.call('pttl', KEYS[1])";
    let server = Server::start();
    server.expect("SET plain token NX PX 60000", OK);
    server.expect("SET plain token NX PX 60000", NULL);
    for count in 1..=2 {
        server.expect(["EVAL", REDISSON, "1", "redisson", "30000", "client:1"], NULL);
        server.expect("HGET redisson client:1", count.to_string().as_str());
    }
    for key in ["plain", "redisson"] {
        server.expect(["LOCK.ACQUIRE", key, "TOKEN", "ann"], err("WRONGTYPE"));
    }
    // Nor does the other side touch a lock.
    server.expect("LOCK.ACQUIRE ours TOKEN ann", ("ann", INT, 30_000));
    server.expect(["EVAL", REDISSON, "1", "ours", "30000", "client:1"], err("WRONGTYPE"));
    server.expect("SET ours token NX PX 60000", NULL);
    // The usual script says "sold out" to the buyer of the last unit.
    let [seckill, _] = scripts();
    server.expect("SET stock 1", OK);
    let buy = ["EVAL", &seckill, "2", "stock", "buyers", "ann"];
    server.expect(buy, 0);
    server.expect(buy, 1);
    server.expect("STOCK.CREATE sale 1", OK);
    server.expect("STOCK.DECR_ONCE sale ann", ("OK", 1, 0, -1, ""));
    server.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 0, -1, ""));
}

#[test]
fn a_sale_moves_with_its_buyers_and_their_units() {
    let [seckill, moving] = scripts();
    let server = Server::builder().aof("always").start();
    let mut client = server.client();
    client.expect("SET stock 10", OK);
    for buyer in ["ann", "bob", "ann"] {
        client.expect(["EVAL", &seckill, "2", "stock", "buyers", buyer], ANY);
    }
    client.expect(["EVAL", &moving, "3", "stock", "buyers", "sale"], 2);
    let moved = books(&mut client, "sale");
    assert_eq!((moved.total, moved.remaining, moved.sold), (10, 8, 2));
    client.expect("STOCK.DECR_ONCE sale ann", ("DUPLICATE", 1, 8, -1, ""));
    client.expect(["EVAL", &seckill, "2", "stock", "buyers", "carl"], 1);

    // A hash of units; nobody has bought yet; the new sale is there already.
    client.expect("HSET units dora 3 emil 2", 2);
    client.expect("SET left 5", OK);
    client.expect(["EVAL", &moving, "3", "left", "units", "second"], 2);
    client.expect("STOCK.BUYER second dora", (3, 0));
    client.expect("SET left 5", OK);
    client.expect(["EVAL", &moving, "3", "left", "nobody", "third"], 0);
    assert_eq!(books(&mut client, "third").remaining, 5);
    client.expect(["EVAL", &moving, "3", "left", "nobody", "third"], err("BUSYKEY"));
    client.expect("DEBUG LOADAOF", OK);
    assert_eq!(orders(&mut client, "second").len(), 2);
}

#[test]
fn sales_of_other_common_scripts_move_too() {
    // A hash with the total and what is booked, and no buyers.
    const BOOKED: &str = "local stock = redis.call('HMGET', KEYS[1], 'Total', 'Booked') \
        if stock[2] + ARGV[1] > tonumber(stock[1]) then return 0 end \
        redis.call('HINCRBY', KEYS[1], 'Booked', ARGV[1]) return tonumber(ARGV[1])";
    let [_, moving] = scripts();
    let server = Server::start();
    let mut client = server.client();
    client.expect("HSET goods Total 10 Booked 0", 2);
    let mut buy = |units: &str, bought: i64| _ = client.expect(["EVAL", BOOKED, "1", "goods", units], bought);
    buy("3", 3);
    buy("8", 0);
    server.expect(["EVAL", &moving, "3", "goods", "nobody", "booked"], 0);
    buy("1", 0);
    server.expect("STOCK.DECR_ONCE booked order:1 QTY 7", ("OK", 7, 0, -1, ""));

    // Decremented first: the counter went below zero, and the buyers are those whose answer was not negative.
    server.expect("SET left 2", OK);
    for (buyer, left) in [("ann", 1), ("bob", 0), ("carl", -1)] {
        server.expect("DECR left", left);
        if left >= 0 {
            server.expect(["SADD", "winners", buyer], 1);
        }
    }
    server.expect(["EVAL", &moving, "3", "left", "winners", "below"], 2);
    server.expect("STOCK.DECR_ONCE below ann", ("DUPLICATE", 1, 0, -1, ""));
    server.expect("STOCK.DECR_ONCE below carl", ("SOLDOUT", 0, 0, -1, ""));
    server.expect("DECR left", -1);
}

/// As the page's program asks both.
fn buy(client: &mut Client, seckill: &str, buyer: &str) -> &'static str {
    let new = |client: &mut Client| client.cmd(["STOCK.DECR_ONCE", "sale", buyer]).at(0).text();
    let known = |status: &str| ["OK", "SOLDOUT", "DUPLICATE"].into_iter().find(|known| *known == status);
    if let Some(status) = known(&new(client)) {
        return status;
    }
    let old = client.cmd(["EVAL", seckill, "2", "stock", "buyers", buyer]).int();
    let status = ["OK", "SOLDOUT", "DUPLICATE"][usize::try_from(old).expect("0, 1 or 2")];
    if status == "OK" { status } else { known(&new(client)).unwrap_or(status) }
}

#[test]
fn nobody_buys_twice_and_nothing_is_sold_twice_while_a_sale_moves() {
    const STOCK: usize = 3_000;
    let [seckill, moving] = &scripts();
    let server = &Server::start();
    server.expect(format!("SET stock {STOCK}"), OK);
    let (sold, asked, done) = (&AtomicUsize::new(0), &AtomicUsize::new(0), &AtomicBool::new(false));
    let winners: Vec<BTreeMap<String, usize>> = thread::scope(|scope| {
        let shops: Vec<_> = (0..4)
            .map(|shop| {
                scope.spawn(move || {
                    let (mut client, mut random) = (server.client(), fastrand::Rng::with_seed(shop));
                    let mut won = BTreeMap::new();
                    while !done.load(Ordering::Relaxed) {
                        asked.fetch_add(1, Ordering::Relaxed);
                        let buyer = random.u32(..8_000).to_string();
                        if buy(&mut client, seckill, &buyer) == "OK" {
                            *won.entry(buyer).or_default() += 1;
                            sold.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    won
                })
            })
            .collect();
        let begun = Instant::now();
        let until = |count: &AtomicUsize, enough: usize| {
            while count.load(Ordering::Relaxed) < enough {
                assert!(begun.elapsed() < Duration::from_mins(1), "{sold:?} sold");
                thread::yield_now();
            }
        };
        until(sold, STOCK / 3);
        assert!(!server.cmd(["EVAL", moving, "3", "stock", "buyers", "sale"]).is_error());
        until(sold, STOCK);
        // When everything is sold, they go on asking.
        until(asked, asked.load(Ordering::Relaxed) + 1_000);
        done.store(true, Ordering::Relaxed);
        shops.into_iter().map(|shop| shop.join().expect("a shop")).collect()
    });
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for (buyer, count) in winners.into_iter().flatten() {
        *all.entry(buyer).or_default() += count;
    }
    assert!(all.values().all(|count| *count == 1), "somebody bought twice");
    let books = books(&mut server.client(), "sale");
    assert_eq!((all.len(), books.remaining, books.sold), (STOCK, 0, i64::try_from(STOCK).expect("few")));
}

#[test]
fn a_hundred_thousand_buyers_move_within_five_seconds() {
    let [_, moving] = scripts();
    let server = Server::start();
    server.expect(["EVAL", "for n = 1, 100000 do redis.call('SADD', KEYS[1], 100000000 + n) end", "1", "buyers"], NULL);
    server.expect("SET stock 500", OK);
    // The server's own time, whatever else the machine does meanwhile.
    let spent = || {
        let cpu = server.info("cpu");
        ["used_cpu_user", "used_cpu_sys"].map(|field| cpu[field].parse::<f64>().expect("seconds")).iter().sum::<f64>()
    };
    let before = spent();
    assert_eq!(server.cmd(["EVAL", &moving, "3", "stock", "buyers", "sale"]), Reply::Int(100_000));
    assert!(spent() - before < 5.0, "{} s", spent() - before);
}
