//! A random load on a sale, looked at after every step.

use std::collections::BTreeSet;

use harness::shop::{Replay, books, events, orders};
use harness::{ANY, Client, OK, Reply, Server, Words, eventually, random};

const STEPS: usize = 2_500;

/// So few that many have to wait.
const TOTAL: i64 = 20;

/// One command of a seller or of one of a few buyers, most of which have something to do with each other.
fn step(random: &mut fastrand::Rng) -> Words {
    let id = format!("id-{}", random.u8(..40));
    let text = match random.u8(..20) {
        0..9 => {
            let hold = ["", "HOLD 1", "HOLD 10", "HOLD 60000"][random.usize(..4)];
            let buyer = [String::new(), format!("BUYER b-{}", random.u8(..6))][random.usize(..2)].clone();
            let waitlist = ["", "WAITLIST"][random.usize(..2)];
            format!("STOCK.DECR_ONCE sale {id} QTY {} {hold} {buyer} {waitlist}", random.u8(1..5))
        }
        9..12 => format!("STOCK.CONFIRM sale {id}"),
        12..16 => format!("STOCK.CANCEL sale {id}"),
        16 => format!("STOCK.EXTEND sale {id} PX {}", [1, 10, 60_000][random.usize(..3)]),
        // A little more is taken than given, so that the sale stays small.
        17 => format!("STOCK.ADJUST sale {}", random.i8(-6..6)),
        18 => format!("STOCK.ALTER sale LIMIT {} REBUY {}", random.u8(..9), ["yes", "no"][random.usize(..2)]),
        _ => format!("STOCK.ORDER sale {id}"),
    };
    text.into()
}

/// What an answer says must be so at that very moment.
#[track_caller]
fn answers_are_true(client: &mut Client, words: &Words, before: i64) -> Reply {
    // In one transaction, so that no hold lapses in between.
    let replies = client.pipeline([Words::from("MULTI"), words.clone(), "STOCK.INFO sale".into(), "EXEC".into()]);
    let (answer, info) = (replies[3].at(0), replies[3].at(1).fields());
    let number = |name: &str| info[name].int();
    assert_eq!(number("total"), number("remaining") + number("held") + number("sold"), "{words:?}: {info:?}");
    assert!(number("seq") >= before, "{words:?}");
    if let Reply::Array(cells) = answer
        && cells.len() == 5
    {
        // A deadline may pass between the two commands, and then there is more to sell; never less.
        assert!(number("remaining") >= cells[2].int(), "{words:?}: {answer:?}, {info:?}");
        let status = answer.at(0).text();
        let has = cells[1].int() > 0;
        let takes = !words.0[0].ends_with(b"CANCEL") && ["OK", "DUPLICATE"].contains(&status.as_str());
        assert_eq!(has, takes, "{words:?}: {answer:?}");
    }
    answer.clone()
}

/// An id that was told once that its payment came too late is never told that it came in time, unless it has bought anew.
#[track_caller]
fn no_refusal_is_taken_back(late: &mut BTreeSet<Vec<u8>>, words: &Words, answer: &Reply) {
    let (Some(id), Reply::Array(_)) = (words.0.get(2), answer) else { return };
    let status = answer.at(0).text();
    match (words.name().as_str(), status.as_str()) {
        // A waiting order buys anew, too, when it is served.
        ("STOCK.DECR_ONCE", "OK" | "QUEUED") => drop(late.remove(id)),
        ("STOCK.CONFIRM", "LIMIT") => assert!(late.insert(id.clone()), "{words:?} was refused before"),
        ("STOCK.CONFIRM", "EXPIRED") => drop(late.insert(id.clone())),
        ("STOCK.CONFIRM", _) => assert!(!late.contains(id), "{words:?} was refused before: {answer:?}"),
        _ => {}
    }
}

#[test]
fn every_unit_is_in_one_place_after_every_step() {
    load("");
}

#[test]
fn with_deadlines_its_events_are_the_sale() {
    load("DEADLINES");
}

/// Loads a sale with these `options` at random.
fn load(options: &str) {
    let primary = Server::builder().aof("everysec").start();
    let replica = Server::builder().replica_of(&primary).start();
    let mut client = primary.client();
    client.expect(format!("STOCK.CREATE sale {TOTAL} LIMIT 6 REBUY STREAM events {options}"), OK);
    let (mut random, mut late) = (random(), BTreeSet::new());
    for number in 0..STEPS {
        let seq = client.cmd("STOCK.INFO sale").field("seq").int();
        let words = step(&mut random);
        let answer = answers_are_true(&mut client, &words, seq);
        no_refusal_is_taken_back(&mut late, &words, &answer);
        if number % 500 == 0 {
            books(&mut client, "sale");
            client.expect("DEBUG RELOAD", OK);
        }
    }
    eventually("the last short holds lapse", || {
        let before = client.cmd("STOCK.INFO sale").field("seq").int();
        let due = orders(&mut client, "sale").values().filter(|order| order.state == "expired").count();
        let told = events(&mut client, "events");
        let replay = Replay::of(TOTAL, &told);
        let lapsed = replay.orders.values().filter(|order| order.0 == "expire").count();
        due == lapsed && before == replay.seq
    });
    let told = events(&mut client, "events");
    Replay::of(TOTAL, &told).agrees_with(&mut client, "sale");
    assert!(told.len() > STEPS / 10, "the load made few changes: {}", told.len());
    assert_eq!(told.iter().any(|event| event.event == "extend"), !options.is_empty());
    assert!(told.iter().filter(|event| event.event == "wait").count() > 0, "nobody has waited");
    let digest = |server: &Server| server.expect("DEBUG DIGEST", ANY).text();
    eventually("the replica has the same", || {
        replica.wait_in_sync(&primary);
        digest(&primary) == digest(&replica)
    });
    assert_eq!(orders(&mut replica.client(), "sale"), orders(&mut client, "sale"));
}
