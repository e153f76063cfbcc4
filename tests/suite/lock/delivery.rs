//! A grant is delivered when the server has handed its reply to the connection, read or not. It is taken back only if the connection ended
//! before that.

mod scene;

use std::time::Duration;

use harness::{ANY, Client, INT, NULL, OK, Reply, Server, Words, eventually};

use crate::support::line::Line;
use scene::{ASK, ENDS, End, LARGE, Scene, jam, jam_uncopied, server, with_large_value};

#[test]
fn a_grant_that_was_read_stays_whatever_else_is_unsent_when_its_connection_ends() {
    let server = server();
    for end in ENDS {
        let mut scene = Scene::set(&server, |_, _| (), &[]);
        scene.pass_on_and_read();
        jam(&mut scene.waiter, &mut scene.admin);
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_read_stays_however_long_it_has_been_quiet_since() {
    let server = server();
    for end in [End::Closed, End::Killed, End::Limit] {
        let mut scene = Scene::set(&server, |_, _| (), &[]);
        scene.pass_on_and_read();
        let uptime = server.info_int("server", "uptime_in_seconds");
        eventually("a second has passed", || server.info_int("server", "uptime_in_seconds") > uptime);
        jam(&mut scene.waiter, &mut scene.admin);
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_read_stays_whatever_was_sent_along_with_the_request() {
    let server = server();
    for end in ENDS {
        // The reply to the one is written together with that to the other, and more than the connection takes.
        let mut scene = Scene::set(&server, |_, _| (), &[ASK]);
        scene.pass_on_and_read();
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_handed_to_the_connection_stays_though_nobody_read_it() {
    let server = server();
    for end in ENDS {
        for behind in [&[][..], &["SET behind 1"][..]] {
            let mut scene = Scene::set(&server, jam, behind);
            scene.pass_on();
            if !behind.is_empty() {
                eventually("what was asked for behind it is done", || scene.admin.cmd("DEL behind").int() == 1);
            }
            scene.holder.expect("LOCK.ACQUIRE other TOKEN t", ANY);
            scene.holder.expect("LOCK.RELEASE other t", 1);
            scene.end(end);
            scene.stays(&format!("{end:?} {behind:?}"));
        }
    }
}

#[test]
fn a_grant_whose_connection_ends_before_it_is_handed_over_goes_on_to_the_next() {
    let server = server();
    for jammed in [false, true] {
        for request in ["LOCK.ACQUIRE lock TOKEN waiter", "LOCK.MACQUIRE 2 lock also TOKEN waiter"] {
            for in_one_step in [true, false] {
                let before = |waiter: &mut Client, admin: &mut Client| {
                    if jammed {
                        jam(waiter, admin);
                    }
                };
                let mut scene = Scene::asking(&server, before, request, &[]);
                let both = ["LOCK.RELEASE lock holder".to_owned(), format!("CLIENT KILL ID {}", scene.waiter_id)];
                if in_one_step {
                    let [release, kill] = both;
                    let replies = scene.holder.pipeline(["MULTI".to_owned(), release, kill, "EXEC".to_owned()]);
                    replies[3].clone().is((1, 1));
                } else {
                    assert_eq!(scene.holder.pipeline(both), [Reply::Int(1), Reply::Int(1)]);
                }
                scene.goes_on(&format!("{request}, in one step: {in_one_step}, jammed: {jammed}"));
            }
        }
    }
}

#[test]
fn a_grant_that_was_read_at_last_stays() {
    let server = server();
    for end in [End::Closed, End::Killed] {
        let mut scene = Scene::set(&server, jam, &[]);
        scene.pass_on();
        scene.waiter.read();
        scene.waiter.read();
        scene.waiter.read().is(("waiter", INT, 60_000));
        jam(&mut scene.waiter, &mut scene.admin);
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_read_behind_a_value_that_is_not_copied_stays() {
    let server = server();
    for end in [End::Closed, End::Reset, End::Killed] {
        let mut scene = Scene::set(&server, jam_uncopied, &[]);
        scene.pass_on();
        scene.waiter.read();
        scene.waiter.read().is(("waiter", INT, 60_000));
        // It says nothing more.
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_read_stays_though_it_was_asked_for_in_one_packet_with_a_value_that_is_not_copied() {
    let server = server();
    server.expect(format!("SETRANGE three {} x", (3 << 20) - 1), INT);
    for end in [End::Closed, End::Reset, End::Killed] {
        for round in 0..3 {
            let mut scene = Scene::with_packet(&server, &["GET three"]);
            scene.pass_on();
            scene.waiter.read();
            scene.waiter.read().is(("waiter", INT, 60_000));
            // It says nothing more.
            scene.end(end);
            scene.stays(&format!("{end:?} {round}"));
        }
    }
}

/// The server keeps no more than this for a client, and closes the connection of one that has more unsent.
const LITTLE: &str = "client-output-buffer-limit normal 1mb 0 0";

#[test]
fn a_grant_stays_though_a_limit_cut_it_off_in_the_turn_it_was_handed_over_in() {
    let server = with_large_value(Server::builder().config(LITTLE));
    let release = "LOCK.RELEASE lock holder";
    for (pass_on, behind) in [
        (&[release][..], &[ASK][..]),
        (&[release], &["LOCK.ACQUIRE other TOKEN waiter PX 1", ASK]),
        (&["LOCK.EXTEND lock holder PX 1"], &[ASK]),
        (&["MULTI", release, "EXEC"], &[ASK]),
    ] {
        // What was asked for behind the lock is answered in the same turn, and too long to be sent.
        let mut scene = Scene::set(&server, |_, _| (), behind);
        scene.holder.pipeline(pass_on.iter().copied());
        scene.gone();
        scene.stays(&format!("{pass_on:?} {behind:?}"));
    }
}

#[test]
fn a_grant_that_was_read_stays_though_the_next_reply_was_cut_off_in_the_turn_it_was_written_in() {
    let server = with_large_value(Server::builder().config(LITTLE));
    for resp in [2, 3] {
        let hello = |waiter: &mut Client, _: &mut Client| drop(waiter.cmd(format!("HELLO {resp}")));
        let mut scene = Scene::set(&server, hello, &[]);
        scene.pass_on_and_read();
        scene.waiter.send(ASK);
        scene.gone();
        scene.stays("read");
    }
}

#[test]
fn a_grant_that_was_handed_over_while_a_script_ran_stays_though_the_next_reply_was_cut_off_in_the_same_turn() {
    // The server looks after its clients while a script takes long.
    let server = with_large_value(Server::builder().config(LITTLE).config("busy-reply-threshold 100"));
    let busy = "for i = 1, 1e8 do end";
    let release = format!("{busy} redis.call('LOCK.RELEASE', 'lock', 'holder') for i = 1, 1e6 do end");
    for packet in
        [vec![vec!["LOCK.RELEASE", "lock", "holder"], vec!["EVAL", busy, "0"]], vec![vec!["EVAL", &release, "0"]]]
    {
        let mut scene = Scene::set(&server, |_, _| (), &[ASK]);
        assert!(scene.holder.pipeline(packet).iter().all(|reply| !reply.is_error()));
        // Redis 7.0 sends it while the script runs, the others never.
        let heard = scene.waiter.hear(Duration::from_secs(5)).is_ok();
        scene.gone();
        scene.stays(if heard { "read" } else { "handed over" });
    }
}

#[test]
fn a_grant_that_was_read_stays_though_its_connection_ended_while_a_script_ran() {
    let server = Server::builder().config("busy-reply-threshold 50").start();
    let functions = "#!lua name=library\nredis.register_function('busy', function() while true do end end)";
    server.expect(["FUNCTION", "LOAD", functions], "library");
    for (busy, kill) in [("EVAL", "SCRIPT KILL"), ("FCALL", "FUNCTION KILL")] {
        let mut scene = Scene::set(&server, |_, _| (), &[]);
        let body = if busy == "EVAL" { "while true do end" } else { "busy" };
        let packet = [vec!["LOCK.RELEASE", "lock", "holder"], vec![busy, body, "0"]].map(Words::from);
        scene.holder.try_send(&packet).expect("it is connected");
        eventually("the script takes long", || scene.admin.cmd("PING").is_error());
        // Redis before 7.4 sends the grant while the script runs, the others never.
        let heard = scene.waiter.hear(Duration::from_millis(500)).is_ok();
        assert_eq!(heard, !server.is_valkey() && server.version() < [7, 4, 0]);
        // The end of the connection reaches the server before the end of the script.
        std::mem::replace(&mut scene.waiter, Client::connect(server.port())).close();
        scene.admin.expect(kill, OK);
        scene.holder.read().is(1);
        assert!(scene.holder.read().is_error());
        if heard {
            scene.stays(busy);
        } else {
            scene.goes_on(busy);
        }
    }
}

#[test]
fn a_grant_that_was_read_stays_while_messages_flood_its_connection() {
    // However many messages are unread.
    let server = with_large_value(Server::builder().config("client-output-buffer-limit pubsub 0 0 0"));
    let message = "x".repeat(1 << 20);
    for end in [End::Closed, End::Killed] {
        let mut scene = Scene::set(&server, |_, _| (), &[]);
        scene.pass_on_and_read();
        scene.waiter.send("SUBSCRIBE news");
        scene.waiter.read();
        for _ in 0..LARGE >> 20 {
            scene.admin.expect(["PUBLISH", "news", &message], 1);
        }
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_that_was_read_stays_though_a_message_was_on_its_way_before_it() {
    let server = server();
    for end in [End::Closed, End::Killed] {
        let track = |waiter: &mut Client, _: &mut Client| {
            waiter.hello3();
            waiter.expect("CLIENT TRACKING ON", OK);
            waiter.expect("GET watched", NULL);
        };
        let mut scene = Scene::set(&server, track, &[ASK]);
        // The waiter is told of the change and of the grant in one turn, and then the large value.
        scene.holder.pipeline(["SET watched 1", "LOCK.RELEASE lock holder"]);
        assert_eq!(scene.waiter.read().items().len(), 2, "the message");
        scene.waiter.read().is(("waiter", INT, 60_000));
        scene.end(end);
        scene.stays(&format!("{end:?}"));
        server.expect("DEL watched", 1);
    }
}

#[test]
fn a_grant_that_was_read_behind_a_large_reply_stays_though_the_next_one_was_not_read() {
    let server = server();
    for end in [End::Closed, End::Killed] {
        // At no time all is sent.
        let mut scene = Scene::set(&server, jam, &[ASK]);
        scene.pass_on();
        let list = format!("CLIENT LIST ID {}", scene.waiter_id);
        eventually("the last one is on its way", || scene.admin.cmd(&list).text().contains(" cmd=getrange "));
        scene.waiter.read();
        scene.waiter.read();
        scene.waiter.read().is(("waiter", INT, 60_000));
        scene.end(end);
        scene.stays(&format!("{end:?}"));
    }
}

#[test]
fn a_grant_after_a_short_wait_that_was_read_stays_whatever_messages_come_behind_it() {
    let server = with_large_value(Server::builder().config("client-output-buffer-limit pubsub 0 0 0"));
    let (mut line, mut holder, mut admin) = (Line::at(&server), server.client(), server.client());
    let message = "x".repeat(1 << 20);
    let mut waiter = server.client();
    waiter.hello3();
    let id = waiter.id();
    waiter.expect("CLIENT TRACKING ON BCAST PREFIX news", OK);
    holder.expect("LOCK.ACQUIRE lock TOKEN holder", ANY);
    line.enter(&mut waiter, "LOCK.ACQUIRE lock TOKEN waiter PX 60000 WAIT 0");
    let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    // All in one turn: the grant is written, and then more about keys than the connection takes.
    let names = (0..LARGE >> 20).map(|number| format!("news{number}{message}"));
    let mut packet = vec![vec!["LOCK.RELEASE".to_owned(), "lock".to_owned(), "holder".to_owned()]];
    packet.extend(names.map(|name| vec!["SET".to_owned(), name, String::new()]));
    holder.pipeline(packet);
    waiter.read().is(("waiter", INT, 60_000));
    admin.expect(format!("CLIENT KILL ID {id}"), 1);
    eventually("the connection ends", || !admin.cmd("CLIENT LIST").text().contains(&format!("id={id} ")));
    for _ in 0..3 {
        admin.expect("PING", ANY);
    }
    assert_eq!(line.holders("lock"), ["waiter"]);
    holder.expect("LOCK.RELEASE lock waiter", 1);
    next.read().is(("next", INT, 30_000));
}

#[test]
fn where_nobody_may_ask_about_clients_a_grant_that_was_read_stays() {
    let server = with_large_value(Server::builder().config("rename-command CLIENT \"\""));
    let (mut line, mut holder, mut admin) = (Line::at(&server), server.client(), server.client());
    let mut waiter = line.join_behind(&mut holder, 600_000);
    let mut next = line.join("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    holder.expect("LOCK.RELEASE lock holder", 1);
    waiter.read().is(("waiter", INT, 60_000));
    let clients = server.info_int("clients", "connected_clients");
    jam(&mut waiter, &mut admin);
    waiter.close();
    eventually("the connection ends", || server.info_int("clients", "connected_clients") < clients);
    assert_eq!(line.holders("lock"), ["waiter"]);
    holder.expect("LOCK.RELEASE lock waiter", 1);
    next.read().is(("next", INT, 30_000));
}
