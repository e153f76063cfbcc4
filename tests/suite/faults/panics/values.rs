//! A panic while a value is deleted, replaced or renamed.

use harness::{ANY, Client, INT, OK, Reply, Server, err, eventually};

use super::site::Site;

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_a_value_goes() {
    for doing in ["letting go of a value", "freeing a value", "measuring a value"] {
        for delete in ["DEL key", "UNLINK key", "SET key v", "PEXPIRE key 1"] {
            let mut site = Site::set();
            site.arm(doing);
            site.client.expect(delete, ANY);
            let mut heir = site.heirs.pop().expect("the heir of the key");
            if delete.starts_with("SET") {
                // A waiter for a lock does not want a string.
                heir.read().is(err("WRONGTYPE"));
            } else {
                heir.read().is(("heir", INT, 3_600_000));
            }
            site.wait_again("key", heir);
            if doing != "measuring a value" {
                site.struck(doing);
            }
            site.proves_whole();
        }
    }
}

#[test]
#[ignore = "needs a debug build: make test-panics"]
fn while_a_value_is_renamed() {
    // Redis tells of the new name. Valkey is not listened to; without SCAN the scan for modules looks for it.
    let found = if Server::start().is_valkey() { "a scan of the keys" } else { "a new name" };
    for doing in ["letting go of a value", found] {
        let mut site = Site::on(Server::builder().config("rename-command SCAN \"\"").start());
        site.client.expect("LOCK.ACQUIRE short TOKEN t PX 1000", ANY);
        site.client.expect("STOCK.CREATE goods 5", OK);
        site.client.expect("STOCK.DECR_ONCE goods a HOLD 1000", ANY);
        for (from, to) in [("short", "shorter"), ("goods", "wares")] {
            site.arm(doing);
            site.client.expect(format!("RENAME {from} {to}"), OK);
            site.struck(doing);
        }
        eventually("the lease ends under its new name", || site.client.cmd("EXISTS shorter") == Reply::Int(0));
        let state = |client: &mut Client| client.cmd("STOCK.ORDER wares a").field("state").text();
        eventually("and the hold of the sale", || state(&mut site.client) == "expired");
        site.proves_whole();
    }
}
