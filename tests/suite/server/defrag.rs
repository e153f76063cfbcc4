//! Active defragmentation: the server moves keys' names and tables to other places in memory while it runs. Only servers with the
//! allocator that they bundle can do it; the others are not asked.

use harness::shop::books;
use harness::{Client, INT, OK, Reply, Server, eventually};

const KEYS: usize = 20_000;

#[track_caller]
fn all_done(replies: &[Reply]) {
    assert!(!replies.iter().any(Reply::is_error), "{:?}", replies.iter().find(|reply| reply.is_error()));
}

/// Leaves holes between what stays: every second key goes.
fn perforate(client: &mut Client) {
    all_done(&client.pipeline((0..KEYS).map(|n| format!("SET filler-{n} {n:0>100}"))));
    all_done(&client.pipeline((0..KEYS).map(|n| format!("LOCK.ACQUIRE lock-{n} TOKEN t-{n} PX 3600000"))));
    all_done(&client.pipeline((0..KEYS).map(|n| format!("STOCK.DECR_ONCE sale order-{n} BUYER b-{n} HOLD 3600000"))));
    all_done(&client.pipeline((0..KEYS).map(|n| format!("DEL filler-{n}"))));
    all_done(&client.pipeline((0..KEYS).step_by(2).map(|n| format!("LOCK.RELEASE lock-{n} t-{n}"))));
}

#[test]
fn what_the_server_moves_in_memory_is_found_again() {
    let server = Server::builder()
        .config("active-defrag-ignore-bytes 1")
        .config("active-defrag-threshold-lower 1")
        .config("active-defrag-cycle-min 50")
        .config("active-defrag-cycle-max 75")
        .start();
    if server.cmd("CONFIG SET activedefrag yes").is_error() {
        return;
    }
    server.expect("CONFIG SET activedefrag no", OK);
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {KEYS} STREAM events"), OK);
    let mut waiter = server.client();
    client.expect("LOCK.ACQUIRE waited TOKEN holder PX 3600000 SESSION", ("holder", INT, 3_600_000));
    waiter.send("LOCK.ACQUIRE waited TOKEN waiter WAIT 0");
    perforate(&mut client);
    let digest = server.digest();
    client.expect("CONFIG SET activedefrag yes", OK);
    eventually("much was moved", || server.info_int("stats", "active_defrag_key_hits") > 1_000);
    assert_eq!(server.digest(), digest);

    all_done(&client.pipeline((0..KEYS).map(|n| format!("STOCK.CANCEL sale order-{n}"))));
    assert_eq!(books(&mut client, "sale").remaining, i64::try_from(KEYS).expect("few"));
    let released = client.pipeline((0..KEYS).map(|n| format!("LOCK.RELEASE lock-{n} t-{n}")));
    assert_eq!(released.iter().map(Reply::int).sum::<i64>(), i64::try_from(KEYS / 2).expect("few"));
    client.close();
    waiter.read().is(("waiter", INT, 30_000));
    assert_eq!(server.info_int("lockstock", "lockstock_locks_held"), 1);
}
