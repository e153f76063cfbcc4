//! The server's wall clock is set.

use harness::clock::{obeys, set, with_own_clock};
use harness::{ANY, INT, OK, Reply, Server, TEXT, eventually, unix_ms};
use tempfile::TempDir;

const HOUR_MS: i64 = 3_600_000;

/// A server whose clock is set in `dir`. `None` without a C compiler, or if the server reads its clock another way: there is no such clock.
fn start(dir: &TempDir) -> Option<Server> {
    let server = with_own_clock(Server::plain(), dir, 0).ok()?.start();
    obeys(&server, dir).then_some(server)
}

#[test]
fn what_is_due_at_once_is_done_though_the_clock_is_set_back_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(server) = start(&dir) else { return };
    let mut client = server.client();
    let mut holder = server.client();
    let id = holder.cmd("CLIENT ID").int();
    holder.expect("LOCK.ACQUIRE lock TOKEN holder PX 60000 SESSION", ANY);
    let mut waiter = server.client();
    waiter.send("LOCK.ACQUIRE lock TOKEN waiter PX 300 WAIT 0");
    eventually("it waits", || client.cmd("LOCK.INFO lock").field("waiting").int() == 1);
    // The connection ends, and before anything can come of that the clock is an hour behind.
    let kill = format!("CLIENT KILL ID {id}");
    for command in ["MULTI", &kill, "DEBUG SLEEP 0.5", "EXEC"] {
        client.send(command);
    }
    let asleep = unix_ms() + 250;
    eventually("it sleeps", || unix_ms() > asleep);
    set(&dir, -HOUR_MS);
    (0..4).for_each(|_| drop(client.read()));
    waiter.read().is(("waiter", INT, 300));
    // And what becomes due by the new clock, with no traffic.
    let mut next = server.client();
    next.expect("LOCK.ACQUIRE lock TOKEN next WAIT 0", ("next", INT, 30_000));
    client.expect("STOCK.CREATE sale 1", OK);
    client.expect("STOCK.DECR_ONCE sale held HOLD 100", ("OK", 1, 0, INT, TEXT));
    client.expect("STOCK.DECR_ONCE sale waiting WAITLIST", ("QUEUED", 0, 0, -1, ""));
    eventually("it is served", || client.cmd("STOCK.ORDER sale waiting").field("state").text() == "sold");
}

#[test]
fn what_is_due_because_the_clock_was_set_ahead_is_done_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(server) = start(&dir) else { return };
    let mut client = server.client();
    client.expect("LOCK.ACQUIRE lock TOKEN holder PX 1800000", ANY);
    let mut waiter = server.client();
    waiter.send("LOCK.ACQUIRE lock TOKEN waiter WAIT 0");
    eventually("it waits", || client.cmd("LOCK.INFO lock").field("waiting").int() == 1);
    set(&dir, HOUR_MS);
    waiter.read().is(("waiter", INT, 30_000));
}

#[test]
fn a_line_that_was_put_off_is_served_though_the_clock_is_set_back_meanwhile() {
    const LINE: i64 = 1_200;
    let dir = tempfile::tempdir().expect("a directory");
    let Some(server) = start(&dir) else { return };
    let mut client = server.client();
    client.expect(format!("STOCK.CREATE sale {LINE} STREAM events"), OK);
    client.expect(format!("STOCK.DECR_ONCE sale all QTY {LINE}"), ("OK", LINE, 0, -1, ""));
    client.pipeline((0..LINE).map(|n| format!("STOCK.DECR_ONCE sale o-{n} WAITLIST")));
    // The cancellation serves some hundred orders. The timer's attempt at the others is refused.
    client.pipeline(["MULTI", "STOCK.CANCEL sale all", "RENAME events kept", "SET events text", "EXEC"]);
    eventually("the line is put off", || server.log().contains("waitlist of the sale sale cannot be served"));
    set(&dir, -HOUR_MS);
    client.expect("RENAME kept events", OK);
    eventually("the line is served", || client.cmd("STOCK.INFO sale").field("waiting") == Reply::Int(0));
}
