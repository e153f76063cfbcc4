//! Two requests of one token that wait for the same lock.

use harness::{ANY, INT, NULL, Reply, Server, eventually};

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

#[test]
fn a_hold_that_two_requests_were_granted_goes_on_if_neither_connection_was_handed_its_reply() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let asks =
        ["LOCK.MACQUIRE 2 book shelf TOKEN ann PX 600000 WAIT 0", "LOCK.ACQUIRE book TOKEN ann PX 600000 WAIT 0"];
    for asks in [asks, [asks[1], asks[0]]] {
        for kills in [vec![0, 1], vec![1, 0], vec![0], vec![1]] {
            holder.expect("LOCK.ACQUIRE book TOKEN holder", ANY);
            let mut waiters = asks.map(|ask| {
                let mut client = server.client();
                let id = client.cmd("CLIENT ID").int();
                line.enter(&mut client, ask);
                (client, id)
            });
            let next = line.join("LOCK.ACQUIRE book TOKEN next WAIT 0");
            let release = "LOCK.RELEASE book holder".to_owned();
            let kill = |which: &usize| format!("CLIENT KILL ID {}", waiters[*which].1);
            let packet: Vec<String> = [release].into_iter().chain(kills.iter().map(kill)).collect();
            assert!(holder.pipeline(&packet).iter().all(|reply| *reply == Reply::Int(1)));
            let holds = if kills.len() == 2 { "next" } else { "ann" };
            eventually("the lock is where it belongs", || line.holders("book") == [holds]);
            if let [killed] = kills[..] {
                let (told, _) = &mut waiters[1 - killed];
                told.read().is(("ann", INT, 600_000));
                let shelf = asks[1 - killed].contains("shelf");
                eventually("the shelf is with the book", || line.holders("shelf").is_empty() != shelf);
                holder.expect("LOCK.MRELEASE ann 2 book shelf", if shelf { 2 } else { 1 });
            }
            eventually("the next one has it", || line.holders("book") == ["next"]);
            holder.expect("LOCK.RELEASE book next", 1);
            drop((waiters, next));
            eventually("nothing is left", || line.count("lock_waiters") == 0 && line.count("locks_held") == 0);
        }
    }
}

#[test]
fn a_command_that_fails_does_not_keep_a_grant_whose_reply_was_lost() {
    let server = Server::start();
    let (mut line, mut holder) = (Line::at(&server), server.client());
    let asks = [
        ("LOCK.MEXTEND ann 2 book shelf", Reply::Int(0)),
        ("LOCK.ACQUIRE book TOKEN ann LIMIT 2", holder.cmd("LOCK.INFO none")),
        ("LOCK.EXTEND book ann", Reply::Int(1)),
    ];
    for (ask, answer) in asks {
        holder.expect("LOCK.ACQUIRE book TOKEN holder", ANY);
        let mut client = server.client();
        let id = client.cmd("CLIENT ID").int();
        line.enter(&mut client, "LOCK.ACQUIRE book TOKEN ann PX 600000 WAIT 0");
        let next = line.join("LOCK.ACQUIRE book TOKEN next WAIT 0");
        let packet = ["LOCK.RELEASE book holder".to_owned(), format!("CLIENT KILL ID {id}"), ask.to_owned()];
        let replies = holder.pipeline(&packet);
        assert_eq!(replies[2], answer, "{ask}");
        let holds = if answer == Reply::Int(1) { "ann" } else { "next" };
        eventually("the lock is where it belongs", || line.holders("book") == [holds]);
        drop((client, next));
        eventually("nobody waits", || line.count("lock_waiters") == 0);
        holder.expect("DEL book", 1);
    }
}
