//! What a caller gets wrong is answered with one error line that says what, and changes nothing.

mod faults;

use std::collections::BTreeMap;

use harness::{ANY, Client, NULL, OK, Reply, Server, TEXT, Tap, Want, Words, err, items};

use self::faults::{Fault, Word, faults};
use crate::support::forms::{FORMS, Form, MOST};

/// A lock, a sale with an order, and values of the server's own, on a server with a listener.
struct Stage {
    server: Server,
    client: Client,
    tap: Tap,
}

impl Stage {
    fn set() -> Self {
        let server = Server::start();
        let mut client = server.client();
        client.expect("LOCK.ACQUIRE lock TOKEN holder PX 600000", ("holder", ANY, 600_000));
        client.expect("STOCK.CREATE sale 100 LIMIT 5", OK);
        client.expect("STOCK.DECR_ONCE sale first QTY 2", ("OK", 2, 98, -1, ""));
        client.expect("SET string v", OK);
        client.expect("RPUSH list v", 1);
        let tap = Tap::attach(&server);
        Self { server, client, tap }
    }

    /// Every key with its value, byte for byte.
    fn contents(&mut self) -> BTreeMap<String, Reply> {
        let keys = self.client.cmd("KEYS *");
        keys.items().iter().map(|key| (key.text(), self.client.cmd(["DUMP", &key.text()]))).collect()
    }

    /// Fails the test unless each call is answered by one error that `complains` about its fault, and by nothing else.
    fn refuses(&mut self, calls: Vec<(Vec<Word>, Fault)>) {
        assert!(!calls.is_empty());
        let before = self.contents();
        for (words, fault) in calls {
            let words = Words(words);
            let reply = self.client.cmd(&words);
            let Reply::Error(line) = &reply else { panic!("{words:?}\nwanted an error, {fault:?}\n   got {reply:?}") };
            assert!(fault.is_named_in(line), "{words:?}\nwanted an error, {fault:?}\n   got {line}");
            // One error line, not two: the next reply belongs to the next command.
            self.client.expect("PING still-in-step", "still-in-step");
            assert_eq!(self.contents(), before, "{words:?} changed something");
        }
        assert_eq!(self.tap.drain(), [""; 0], "something was replicated");
        self.server.expect("PING", Reply::Simple("PONG".into()));
    }
}

#[track_caller]
fn refuses_every_fault(name: &str, keys: &[&str]) {
    let mut stage = Stage::set();
    for key in keys {
        stage.refuses(faults(Form::of(name), key));
    }
}

#[test]
fn lock_acquire_refuses_every_fault() {
    refuses_every_fault("LOCK.ACQUIRE", &["lock", "free"]);
}

#[test]
fn lock_release_refuses_every_fault() {
    refuses_every_fault("LOCK.RELEASE", &["lock", "free"]);
}

#[test]
fn lock_extend_refuses_every_fault() {
    refuses_every_fault("LOCK.EXTEND", &["lock", "free"]);
}

#[test]
fn lock_info_refuses_every_fault() {
    refuses_every_fault("LOCK.INFO", &["lock", "free"]);
}

#[test]
fn stock_create_refuses_every_fault() {
    refuses_every_fault("STOCK.CREATE", &["sale", "new"]);
}

#[test]
fn stock_decr_once_refuses_every_fault() {
    refuses_every_fault("STOCK.DECR_ONCE", &["sale", "none"]);
}

#[test]
fn stock_adjust_refuses_every_fault() {
    refuses_every_fault("STOCK.ADJUST", &["sale", "none"]);
}

#[test]
fn stock_alter_refuses_every_fault() {
    refuses_every_fault("STOCK.ALTER", &["sale", "none"]);
}

#[test]
fn stock_confirm_refuses_every_fault() {
    refuses_every_fault("STOCK.CONFIRM", &["sale", "none"]);
}

#[test]
fn stock_cancel_refuses_every_fault() {
    refuses_every_fault("STOCK.CANCEL", &["sale", "none"]);
}

#[test]
fn stock_extend_refuses_every_fault() {
    refuses_every_fault("STOCK.EXTEND", &["sale", "none"]);
}

#[test]
fn stock_buyer_refuses_every_fault() {
    refuses_every_fault("STOCK.BUYER", &["sale", "none"]);
}

#[test]
fn stock_orders_refuses_every_fault() {
    refuses_every_fault("STOCK.ORDERS", &["sale", "none"]);
}

#[test]
fn stock_order_refuses_every_fault() {
    refuses_every_fault("STOCK.ORDER", &["sale", "none"]);
}

#[test]
fn stock_info_refuses_every_fault() {
    refuses_every_fault("STOCK.INFO", &["sale", "none"]);
}

#[test]
fn numbers_past_their_largest_are_refused_with_the_range() {
    let past = (MOST + 1).to_string();
    let range = |name: &str| Fault::Integer(name.into(), vec![MOST]);
    let call = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let mut stage = Stage::set();
    stage.refuses(vec![
        (call(&format!("LOCK.ACQUIRE free LIMIT {past}")), range("LIMIT")),
        (call(&format!("STOCK.CREATE new {past}")), range("total")),
        (call(&format!("STOCK.CREATE new 1 LIMIT {past}")), range("LIMIT")),
        (call(&format!("STOCK.DECR_ONCE sale id QTY {past}")), range("QTY")),
        // The time at which these end would not fit.
        (call(&format!("LOCK.ACQUIRE free PX {}", i64::MAX)), Fault::Integer("PX".into(), vec![1])),
        (call(&format!("LOCK.ACQUIRE free EX {}", i64::MAX / 1_000)), Fault::Integer("EX".into(), vec![1])),
        (call(&format!("LOCK.ACQUIRE free WAIT {}", i64::MAX)), Fault::Integer("WAIT".into(), vec![0])),
        (call(&format!("LOCK.EXTEND lock holder PX {}", i64::MAX)), Fault::Integer("PX".into(), vec![1])),
        (call(&format!("STOCK.DECR_ONCE sale id HOLD {}", i64::MAX)), Fault::Integer("HOLD".into(), vec![1])),
        (call(&format!("STOCK.EXTEND sale first PX {}", i64::MAX)), Fault::Integer("PX".into(), vec![1])),
        (call(&format!("STOCK.ALTER sale LIMIT {past}")), range("LIMIT")),
        (call(&format!("STOCK.ADJUST sale {past}")), range("delta")),
    ]);
}

#[test]
fn the_bounds_themselves_are_allowed() {
    let mut server = Server::start();
    let mut client = server.client();
    // An hour off the largest, for a clock that moves while the test runs.
    let now = client.cmd("TIME").at(0).text().parse::<i64>().unwrap() * 1_000;
    let far = i64::MAX - now - 3_600_000;
    client.expect("LOCK.ACQUIRE a TOKEN t PX 1", ("t", ANY, 1));
    client.expect(format!("LOCK.ACQUIRE b TOKEN t PX {far}"), ("t", ANY, far));
    client.expect(format!("LOCK.EXTEND b t PX {far}"), 1);
    client.expect(format!("LOCK.ACQUIRE c TOKEN t EX {}", far / 1_000), ("t", ANY, far / 1_000 * 1_000));
    client.expect(format!("LOCK.ACQUIRE d TOKEN t LIMIT {MOST} WAIT {MOST}"), ("t", ANY, 30_000));
    client.expect(format!("STOCK.CREATE most {MOST} LIMIT {MOST}"), OK);
    client.expect(format!("STOCK.DECR_ONCE most id QTY {MOST}"), ("OK", MOST, 0, -1, ""));
    client.expect("STOCK.CREATE none 0", OK);
    client.expect("STOCK.DECR_ONCE none id", ("SOLDOUT", 0, 0, -1, ""));
    client.expect(format!("STOCK.ADJUST none {MOST}"), MOST);
    client.expect("STOCK.ADJUST none 1", err("ERR"));
    client.expect(format!("STOCK.ADJUST none -{MOST}"), 0);
    client.expect("STOCK.ADJUST none -1", err("ERR"));
    drop(client);
    server.restart();
    server.expect("LOCK.INFO b", ANY).field("mode").is("exclusive");
}

#[test]
fn identifiers_and_keys_are_any_bytes() {
    let server = Server::start();
    let mut client = server.client();
    for name in [&b"\0"[..], b"a\0b", b"%s%n", b"\xff\xfe", b"a\r\nb", b" ", &[b'x'; 512], &[0; 512]] {
        let lock = [b"lock:", name].concat();
        let token = Want::from(name);
        client.expect([b"LOCK.ACQUIRE", &lock[..], b"TOKEN", name], items([token.clone(), ANY, 30_000.into()]));
        let holders = client.expect([b"LOCK.INFO", &lock[..]], ANY).field("holders");
        holders.at(0).field("token").is(name);
        client.expect([b"LOCK.EXTEND", &lock[..], name], 1);
        client.expect([b"LOCK.RELEASE", &lock[..], name], 1);

        let sale = [b"sale:", name].concat();
        client.expect([b"STOCK.CREATE", &sale[..], b"10"], OK);
        let order = [b"STOCK.DECR_ONCE", &sale[..], name, b"BUYER", name, b"REF", name];
        let stands = |status: &str| items([status.into(), 1.into(), 9.into(), (-1).into(), Want::from(name)]);
        client.expect(order, stands("OK"));
        client.expect(order, stands("DUPLICATE"));
        let row = client.expect([b"STOCK.ORDER", &sale[..], name], ANY);
        row.field("buyer").is(name);
        row.field("ref").is(name);
    }
    // A key may be empty or long: the server's own rules count.
    for key in [vec![], vec![b'k'; 513], vec![b'k'; 100_000]] {
        client.expect([b"LOCK.ACQUIRE", &key[..]], (TEXT, ANY, 30_000));
        client.expect([b"DEL", &key[..]], 1);
        client.expect([b"STOCK.CREATE", &key[..], b"1"], OK);
    }
}

#[test]
fn options_come_in_any_order_and_case() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("lock.acquire a SESSION wait 0 limit 3 px 5000 token t", ("t", ANY, 5_000));
    client.expect("Lock.Acquire b Token t Shared Ex 5 Wait 10 Session", ("t", ANY, 5_000));
    client.expect("LOCK.EXTEND b t ex 7", 1);
    client.expect("stock.create s 10 rebuy end 0 start 0 limit 4", OK);
    client.expect("STOCK.CREATE told 10 Deadlines LIMIT 3 stream s:told", OK);
    client.expect("STOCK.INFO told", ANY).field("deadlines").is("yes");
    client.expect("STOCK.DECR_ONCE s id ref r hold 60000 buyer b qty 2", ("OK", 2, 8, ANY, "r"));
    // A value is never taken for the next option's name.
    client.expect("LOCK.ACQUIRE c TOKEN PX PX 5000", ("PX", ANY, 5_000));
    client.expect("STOCK.CREATE named 10 STREAM deadlines", OK);
    assert_eq!(client.cmd("STOCK.INFO named").field("stream").text(), "deadlines");
    client.expect("STOCK.DECR_ONCE s REF BUYER QTY REF HOLD", ("OK", 1, 7, -1, "HOLD"));
}

#[test]
fn a_key_of_another_type_stays_untouched() {
    let mut stage = Stage::set();
    let before = stage.contents();
    for form in FORMS {
        // The other family's own type is a foreign one, too.
        let cousin = if form.name.starts_with("LOCK.") { "sale" } else { "lock" };
        for key in ["string", "list", cousin] {
            let busy = form.name == "STOCK.CREATE";
            stage.client.expect(form.shortest(key), err(if busy { "BUSYKEY" } else { "WRONGTYPE" }));
        }
    }
    assert_eq!(stage.contents(), before);
    assert_eq!(stage.tap.drain(), [""; 0]);
}

#[test]
fn what_is_missing_is_said_in_the_commands_own_way() {
    let mut stage = Stage::set();
    let before = stage.contents();
    let none = [
        ("LOCK.RELEASE free t", Want::from(0)),
        ("LOCK.EXTEND free t", 0.into()),
        ("LOCK.INFO free", NULL),
        ("LOCK.RELEASE lock stranger", 0.into()),
        ("LOCK.EXTEND lock stranger", 0.into()),
        ("LOCK.ACQUIRE lock TOKEN stranger", NULL),
        ("STOCK.DECR_ONCE none id", ("NOSTOCK", 0, 0, -1, "").into()),
        ("STOCK.DECR_ONCE none id QTY 5 HOLD 60000 REF r", ("NOSTOCK", 0, 0, -1, "").into()),
        ("STOCK.ADJUST none 1", err("NOSTOCK ")),
        ("STOCK.ORDER none id", NULL),
        ("STOCK.ORDER sale stranger", NULL),
        ("STOCK.INFO none", NULL),
        ("STOCK.CREATE sale 5", err("BUSYKEY")),
        ("STOCK.CONFIRM none id", ("NOSTOCK", 0, 0, -1, "").into()),
        ("STOCK.CONFIRM sale stranger", ("NOORDER", 0, 98, -1, "").into()),
        ("STOCK.CANCEL none id", ("NOSTOCK", 0, 0, -1, "").into()),
        ("STOCK.CANCEL sale stranger", ("NOORDER", 0, 98, -1, "").into()),
        ("STOCK.EXTEND none id PX 5", ("NOSTOCK", 0, 0, -1, "").into()),
        ("STOCK.EXTEND sale stranger PX 5", ("NOORDER", 0, 98, -1, "").into()),
        ("STOCK.ALTER none LIMIT 5", err("NOSTOCK ")),
        ("STOCK.ALTER sale", OK),
        ("STOCK.BUYER none ann", NULL),
        ("STOCK.BUYER sale stranger", (0, 5).into()),
        ("STOCK.ORDERS none 0", ("0", ()).into()),
    ];
    for (call, want) in none {
        stage.client.expect(call, want);
    }
    assert_eq!(stage.contents(), before);
    assert_eq!(stage.tap.drain(), [""; 0]);
}
