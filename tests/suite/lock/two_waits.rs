//! Two requests of one token that wait for the same lock.

use harness::{ANY, INT, NULL, Server};

use crate::support::line::Line;

#[test]
fn a_request_for_one_key_takes_the_place_of_another_whichever_command_asked() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let asks = ["LOCK.MACQUIRE 1 book TOKEN ann WAIT 0", "LOCK.ACQUIRE book TOKEN ann SHARED WAIT 0"];
    for [first, second] in [asks, [asks[1], asks[0]]] {
        holder.expect("LOCK.ACQUIRE book TOKEN holder", ANY);
        let mut replaced = line.join(first);
        let mut reader = line.join("LOCK.ACQUIRE book TOKEN bob SHARED WAIT 0");
        let mut waits = line.join(second);
        replaced.read().is(NULL);
        assert_eq!(line.waiters("book"), ["ann", "bob"], "{second}");
        holder.expect("LOCK.RELEASE book holder", 1);
        waits.read().is(("ann", INT, 30_000));
        if second.contains("SHARED") {
            reader.read().is(("bob", INT, 30_000));
        } else {
            assert_eq!(line.waiters("book"), ["bob"], "ann has it alone");
            holder.expect("LOCK.RELEASE book ann", 1);
            reader.read().is(("bob", INT, 30_000));
        }
        holder.expect("DEL book", 1);
    }
}

#[test]
fn a_reader_in_line_does_not_make_readers_of_the_others_of_its_token() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    holder.expect("LOCK.ACQUIRE book TOKEN holder", ANY);
    let mut both = line.join("LOCK.MACQUIRE 2 book shelf TOKEN ann WAIT 0");
    let mut own = line.join("LOCK.ACQUIRE book TOKEN ann SHARED WAIT 0");
    let mut other = line.join("LOCK.ACQUIRE book TOKEN bob SHARED WAIT 0");
    holder.expect("LOCK.RELEASE book holder", 1);
    let fence = both.read().items()[1].int();
    own.read().is(("ann", fence, 30_000));
    assert_eq!(holder.cmd("LOCK.INFO book").field("mode").text(), "exclusive");
    assert_eq!(line.waiters("book"), ["bob"]);
    holder.expect("LOCK.ACQUIRE book TOKEN ann SHARED", ("ann", fence, 30_000));
    other.read().is(("bob", INT, 30_000));
}
