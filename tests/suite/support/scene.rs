//! A server in the middle of its day: something of everything that has to survive.

use std::collections::BTreeMap;

use harness::{Client, INT, OK, Reply, Server, TEXT};

/// The lease of everything in the scene: longer than any test.
pub const LEASE_MS: i64 = 3_600_000;

/// A name of every byte that could be taken for the end of something.
pub const RAW: &[u8] = b"\0\r\n%s\xff\"'{}";

/// The clients that are still connected; holds with a session end with the connection.
pub struct Scene {
    _session: Client,
}

impl Scene {
    /// Fills the databases 0 and 3 of `server` with a lock, a sale and an order of each kind.
    #[track_caller]
    pub fn set(server: &Server) -> Self {
        let mut client = server.client();
        for db in [0, 3] {
            client.expect(format!("SELECT {db}"), OK);
            let mut hold = |lock: &[u8], token: &[u8], rest: &str| {
                let words = [&[b"LOCK.ACQUIRE", lock, b"TOKEN", token][..], &words(rest)].concat();
                client.expect(words, (token, INT, LEASE_MS));
            };
            hold(b"exclusive", b"alice", "PX 3600000");
            hold(b"session", b"bob", "PX 3600000 SESSION");
            hold(RAW, RAW, "EX 3600");
            hold(b"long", &[b'x'; 512], "EX 3600");
            for reader in ["r1", "r2", "r3"] {
                hold(b"shared", reader.as_bytes(), "EX 3600 SHARED");
            }
            hold(b"downgraded", b"carol", "EX 3600");
            hold(b"downgraded", b"carol", "EX 3600 SHARED");
            for number in 0..20 {
                hold(b"semaphore", format!("permit-{number}").as_bytes(), &format!("EX 3600 LIMIT {}", number + 1));
            }
            client.expect("LOCK.MACQUIRE 2 left right TOKEN frank EX 3600", ("frank", INT, LEASE_MS));
            sell(&mut client);
        }
        client.expect("SELECT 0", OK);
        client.expect("LOCK.ACQUIRE renewed TOKEN dave PX 60000", ("dave", INT, 60_000));
        client.expect("LOCK.EXTEND renewed dave EX 3600", 1);
        // What is over leaves nothing.
        client.expect("LOCK.ACQUIRE over TOKEN erin", ("erin", INT, 30_000));
        client.expect("LOCK.RELEASE over erin", 1);
        client.expect("SET plain value", OK);
        Self { _session: client }
    }
}

/// Opens two sales, one with everything and one with nothing, and takes orders of every kind.
#[track_caller]
fn sell(client: &mut Client) {
    let everything = "STOCK.CREATE sale{s} 1000 LIMIT 100 START 1 END 9000000000000 REBUY STREAM events{s} DEADLINES";
    client.expect(everything, OK);
    client.expect("STOCK.CREATE plain{s} 300", OK);
    let mut order = |words: &str, status: &str| {
        client.expect(words, (status, INT, INT, INT, TEXT));
    };
    order("STOCK.DECR_ONCE sale{s} bought QTY 3 BUYER ann REF invoice-1", "OK");
    order("STOCK.DECR_ONCE sale{s} held QTY 2 BUYER ann HOLD 3600000", "OK");
    order("STOCK.DECR_ONCE sale{s} confirmed BUYER ben HOLD 3600000 REF r", "OK");
    order("STOCK.CONFIRM sale{s} confirmed", "OK");
    order("STOCK.DECR_ONCE sale{s} extended HOLD 60000", "OK");
    order("STOCK.EXTEND sale{s} extended PX 7200000", "OK");
    for kind in ["HOLD 3600000", ""] {
        order(&format!("STOCK.DECR_ONCE sale{{s}} back BUYER ben {kind}"), "OK");
        order("STOCK.CANCEL sale{s} back", "OK");
    }
    for number in 0..200 {
        order(&format!("STOCK.DECR_ONCE plain{{s}} order-{number}"), "OK");
    }
    client.expect([b"STOCK.DECR_ONCE", &b"plain{s}"[..], RAW, b"BUYER", RAW, b"REF", RAW], ("OK", 1, 99, -1, RAW));
    client.expect("STOCK.ADJUST sale{s} 50", INT);
    client.expect("STOCK.ADJUST plain{s} -9", 90);
    client.expect("STOCK.ALTER plain{s} LIMIT 5 END 9000000000000", OK);
}

fn words(text: &str) -> Vec<&[u8]> {
    text.split_whitespace().map(str::as_bytes).collect()
}

/// The fences of all holds of `lock`, by token.
#[track_caller]
pub fn holds(server: &Server, lock: &str) -> BTreeMap<String, i64> {
    let info = server.cmd(["LOCK.INFO", lock]);
    if matches!(info, Reply::Nil(_)) {
        return BTreeMap::new();
    }
    let holders = info.field("holders");
    holders.items().iter().map(|holder| (holder.field("token").text(), holder.field("fence").int())).collect()
}
