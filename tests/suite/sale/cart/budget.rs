//! A request to several sales serves and ends no more orders of others than a request to one sale may. The timer does the rest.

use harness::{ANY, Client, Reply, Server, eventually};

use super::{cart, mall, streams_agree};

/// The sales of [`mall`], and the lengths of their streams.
const SALES: [&str; 3] = ["one", "two", "three"];
const LENGTHS: [&str; 3] = ["XLEN one:events", "XLEN two:events", "XLEN three:events"];

/// How many waiting orders one command serves, and how many due holds it ends.
const SERVED: i64 = 100;
const ENDED: i64 = 128;

/// Runs the commands in one transaction, so that no timer comes in between, and returns their replies.
#[track_caller]
fn at_once(client: &mut Client, commands: &[&str]) -> Vec<Reply> {
    let replies = client.pipeline([&["MULTI"], commands, &["EXEC"]].concat());
    replies.last().expect("the reply of EXEC").items().to_vec()
}

#[test]
fn a_cancelled_cart_serves_a_hundred_orders_and_the_timer_the_rest_of_the_lines() {
    const LINE: i64 = 60;
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, LINE, "");
    for sale in SALES {
        client.expect(format!("STOCK.DECR_ONCE {sale} all QTY {LINE}"), ("OK", LINE, 0, -1, ""));
        client.pipeline((0..LINE).map(|n| format!("STOCK.DECR_ONCE {sale} o-{n} WAITLIST")));
    }
    let late = SALES.map(|sale| format!("STOCK.DECR_ONCE {sale} late"));
    let late = late.each_ref().map(String::as_str);
    let replies = at_once(&mut client, &[&["STOCK.MCANCEL all 3 one two three"], &LENGTHS[..], &late[..]].concat());
    // Units that the line has not been given yet are shown as remaining, and sold to no other order.
    let left = [0, 2 * LINE - SERVED, LINE];
    replies[0].clone().is(cart("OK", left.map(|left| ("OK", 0, left, -1, ""))));
    // So far a stream has the first order, those that wait, and the cancellation.
    let served = [1, 2, 3].map(|nth: usize| replies[nth].int() - LINE - 2);
    assert_eq!(served, [LINE, SERVED - LINE, 0]);
    for (reply, left) in replies[4..].iter().zip(left) {
        reply.clone().is(("SOLDOUT", 0, left, -1, ""));
    }
    eventually("every line is served", || LENGTHS.iter().all(|length| client.cmd(*length) == Reply::Int(2 * LINE + 2)));
    for sale in SALES {
        client.expect(format!("STOCK.ORDER {sale} o-{}", LINE - 1), ANY).field("state").is("sold");
    }
    streams_agree(&mut client, LINE);
}

#[test]
fn a_cart_ends_no_more_due_holds_than_a_single_order_would() {
    const HOLDS: i64 = 100;
    let server = Server::start();
    let mut client = server.client();
    mall(&mut client, HOLDS, "");
    let holds = SALES.iter().flat_map(|sale| (0..HOLDS).map(move |n| format!("STOCK.DECR_ONCE {sale} h-{n} HOLD 1")));
    let holds: Vec<String> = holds.collect();
    let mut commands: Vec<&str> = holds.iter().map(String::as_str).collect();
    let order = format!("STOCK.MDECR_ONCE all 3 one {HOLDS} two {HOLDS} three {HOLDS}");
    commands.extend(["DEBUG SLEEP 0.01", &order]);
    commands.extend(LENGTHS);
    let replies = at_once(&mut client, &commands);
    let after = &replies[holds.len() + 1..];
    after[0].clone().is(cart("OK", SALES.map(|_| ("OK", HOLDS, 0, -1, ""))));
    // So far a stream has the holds, those that have ended, and the order.
    let ended = [1, 2, 3].map(|nth: usize| after[nth].int() - HOLDS - 1);
    assert_eq!(ended, [HOLDS, ENDED - HOLDS, 0]);
    eventually("every hold has ended", || {
        LENGTHS.iter().all(|length| client.cmd(*length) == Reply::Int(2 * HOLDS + 1))
    });
    client.expect(format!("STOCK.CONFIRM three h-{}", HOLDS - 1), ("EXPIRED", 0, 0, -1, ""));
    client.expect(
        "STOCK.MCONFIRM all 3 one two three",
        cart("DUPLICATE", SALES.map(|_| ("DUPLICATE", HOLDS, 0, -1, ""))),
    );
}
