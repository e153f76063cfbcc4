//! Mistyped commands: the error names the wrong word as it was typed.

use harness::{ANY, OK, Reply, Server};

const WRONG: [(&str, &str); 38] = [
    // An option that is misspelled, or another command's, or said twice.
    ("LOCK.ACQUIRE lock WAITT 5", "ERR syntax error near 'WAITT'"),
    ("LOCK.ACQUIRE lock TOKEN a SHARED LIMIT 2", "ERR syntax error near 'LIMIT'"),
    ("LOCK.ACQUIRE lock PX 5 EX 5", "ERR syntax error near 'EX'"),
    ("LOCK.ACQUIRE lock PX 5 px 5", "ERR syntax error near 'px'"),
    ("LOCK.ACQUIRE lock token", "ERR syntax error: no value after 'token'"),
    ("LOCK.ACQUIRE lock TOKEN", "ERR syntax error: no value after 'TOKEN'"),
    ("LOCK.ACQUIRE lock WAIT", "ERR syntax error: no value after 'WAIT'"),
    ("LOCK.ACQUIRE lock TOKEN a NOTIFY news", "ERR syntax error: NOTIFY needs WAIT and TOKEN"),
    ("LOCK.ACQUIRE lock WAIT 5 NOTIFY news", "ERR syntax error: NOTIFY needs WAIT and TOKEN"),
    ("LOCK.RELEASE lock a b", "ERR syntax error near 'b'"),
    ("LOCK.RELEASE lock a FENCE", "ERR syntax error: no value after 'FENCE'"),
    ("LOCK.RELEASE lock a FENCE 7 8", "ERR syntax error near '8'"),
    ("LOCK.RELEASE lock a FENCE seven", "ERR FENCE must be an integer from 1 to 9007199254740991"),
    ("LOCK.EXTEND lock a 30000", "ERR syntax error near '30000'"),
    ("LOCK.EXTEND lock a PX", "ERR syntax error: no value after 'PX'"),
    // Numbers, with a bound that is the same tomorrow.
    ("LOCK.ACQUIRE lock PX 0", "ERR PX must be an integer from 1 to 9000000000000000000"),
    ("LOCK.ACQUIRE lock PX 30s", "ERR PX must be an integer from 1 to 9000000000000000000"),
    ("LOCK.ACQUIRE lock PX 9223372036854775807", "ERR PX must be an integer from 1 to 9000000000000000000"),
    ("LOCK.ACQUIRE lock EX -1", "ERR EX must be an integer from 1 to 9000000000000000"),
    ("LOCK.ACQUIRE lock WAIT -1", "ERR WAIT must be an integer from 0 to 9007199254740991"),
    ("LOCK.ACQUIRE lock LIMIT 0", "ERR LIMIT must be an integer from 1 to 9007199254740991"),
    ("STOCK.DECR_ONCE sale a HOLD 0", "ERR HOLD must be an integer from 1 to 9000000000000000000"),
    ("STOCK.EXTEND sale a PX 0", "ERR PX must be an integer from 1 to 9000000000000000000"),
    ("STOCK.DECR_ONCE sale a QTY 1.5", "ERR QTY must be an integer from 1 to 9007199254740991"),
    ("STOCK.CONFIRM sale a KEEP 0", "ERR KEEP must be an integer from 1 to 9007199254740991"),
    // How many keys there are.
    ("LOCK.MACQUIRE 3 a b", "ERR numkeys is 3, but only 2 keys follow"),
    ("LOCK.MRELEASE a 2 lock", "ERR numkeys is 2, but only 1 key follows"),
    ("LOCK.MACQUIRE a b", "ERR numkeys must be an integer from 1 to 1"),
    ("LOCK.MACQUIRE 1 a b", "ERR syntax error near 'b'"),
    ("STOCK.MDECR_ONCE cart 2 sale 1", "ERR numkeys is 2, but only 1 key with its number follows"),
    ("STOCK.MCONFIRM cart 3 sale other", "ERR numkeys is 3, but only 2 keys follow"),
    // Sales.
    ("STOCK.CREATE other 5 DEADLINES", "ERR syntax error: DEADLINES needs STREAM"),
    ("STOCK.CREATE other 5 REBUY yes", "ERR syntax error near 'yes'"),
    ("STOCK.ALTER sale REBUY", "ERR syntax error: no value after 'REBUY'"),
    ("STOCK.EXTEND sale a EX 5", "ERR syntax error near 'EX'"),
    ("STOCK.CANCEL sale a KEPT 1", "ERR syntax error near 'KEPT'"),
    ("STOCK.ORDERS sale 0 STATE", "ERR syntax error: no value after 'STATE'"),
    ("STOCK.ORDERS sale 0 STATE bought", "ERR STATE must be held, sold, cancelled, expired or waiting"),
];

#[test]
fn the_error_names_the_wrong_word_and_nothing_is_changed() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("STOCK.CREATE sale 5", OK);
    client.expect("STOCK.DECR_ONCE sale a HOLD 3600000", ANY);
    let before = server.keys();
    for (call, error) in WRONG {
        let reply = client.cmd(call);
        assert_eq!(reply, Reply::Error(error.into()), "{call}");
        server.keys().are(&before);
    }
}

#[test]
fn a_word_that_is_no_text_or_long_is_shown_on_one_line() {
    let server = Server::start();
    let mut client = server.client();
    let reply = client.cmd([b"LOCK.ACQUIRE", &b"lock"[..], b"a\r\n\0'\xff"]);
    assert_eq!(reply, Reply::Error("ERR syntax error near 'a\\r\\n\\x00\\'\\xff'".into()));
    let long = "x".repeat(1_000);
    let reply = client.cmd(["LOCK.ACQUIRE", "lock", &long]);
    assert_eq!(reply, Reply::Error(format!("ERR syntax error near '{}…'", &long[..128])));
}
