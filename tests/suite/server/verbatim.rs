//! Commands whose words are what came of them are sent to replicas and files as they are. There they are applied: no clock, no window and no
//! limit is asked again.

use harness::shop::{books, orders};
use harness::{ANY, Client, Feeder, INT, OK, Reply, Server, Stage, TEXT, Words, eventually, unix_ms};

/// What a primary may have sent some hours ago.
fn stream() -> Vec<Words> {
    let [past, later] = [-3_600_000, 3_600_000].map(|away| unix_ms() + away);
    let lines = [
        "SELECT 0".to_owned(),
        "STOCK.CREATE sale 8 LIMIT 2 START 500 END 600".into(),
        "STOCK.DECR_ONCE sale window BUYER ann QTY 2".into(),
        "STOCK.DECR_ONCE sale limit REF r BUYER ann WAITLIST".into(),
        format!("STOCK.APPLY sale TAKEN paid 1 {past}"),
        "STOCK.CONFIRM sale paid".into(),
        format!("STOCK.APPLY sale TAKEN back 1 {past}"),
        "STOCK.CANCEL sale back".into(),
        "STOCK.ADJUST sale -2 ID x".into(),
        format!("LOCK.APPLY lock HELD t 5 {past}"),
        "LOCK.RELEASE lock t".into(),
        format!("LOCK.APPLY fenced HELD t 5 {past}"),
        "LOCK.RELEASE fenced t FENCE 5".into(),
        format!("LOCK.APPLY shared HELD t 6 {later} SHARED HELD u 7 {past} SHARED"),
        "lock.release shared u".into(),
        format!("LOCK.APPLY a HELD t 8 {past}"),
        format!("LOCK.APPLY b HELD t 8 {later}"),
        format!("LOCK.APPLY c HELD u 9 {later}"),
        "LOCK.MRELEASE t 3 a b c".into(),
        "SET the-end x".into(),
    ];
    lines.iter().map(|line| Words::from(&**line)).collect()
}

#[track_caller]
fn all_is_as_it_was(client: &mut Client) {
    eventually("all of it was applied", || client.cmd("EXISTS the-end").int() == 1);
    let found: Vec<String> = orders(client, "sale")
        .into_iter()
        .map(|(id, order)| format!("{id} {} {} {}", order.state, order.units, order.buyer))
        .collect();
    assert_eq!(found, ["back cancelled 0 back", "limit sold 1 ann", "paid sold 1 paid", "window sold 2 ann"]);
    let books = books(client, "sale");
    assert_eq!((books.total, books.remaining), (6, 2));
    for (key, there) in [("lock", 0), ("fenced", 0), ("shared", 1), ("a", 0), ("b", 0), ("c", 1)] {
        client.expect(["EXISTS", key], there);
    }
    let holders = client.cmd("LOCK.INFO shared").field("holders");
    assert_eq!((holders.items().len(), holders.at(0).field("token").text()), (1, "t".to_owned()));
}

#[test]
fn a_replica_applies_them_and_is_promoted_with_what_its_primary_had() {
    let mut empty = Server::start();
    empty.expect("SET text x", OK);
    empty.shutdown();
    let file = std::fs::read(empty.dir().join("dump.rdb")).expect("the file");
    let feeder = Feeder::with_stream(file, &stream());
    let mut replica = Server::builder().aof("always").start();
    replica.expect(format!("REPLICAOF 127.0.0.1 {}", feeder.port()), OK);
    let mut client = replica.client();
    all_is_as_it_was(&mut client);
    assert!(!replica.log().contains("is sending an error"), "{}", replica.log());
    let before = replica.digest();
    replica.promote();
    assert_eq!(replica.digest(), before);
    // Now it decides.
    client.expect("STOCK.DECR_ONCE sale late", ("ENDED", 0, 2, -1, ""));
    eventually("the file is there", || replica.info_int("persistence", "aof_rewrite_in_progress") == 0);
    replica.shutdown();
    replica.start_again();
    all_is_as_it_was(&mut replica.client());
    assert_eq!(replica.digest(), before, "from its own file");
}

#[test]
fn a_file_brings_them_back() {
    let mut server = Server::builder().aof("always").start();
    server.expect("SET first x", OK);
    server.shutdown();
    let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
    let wire: Vec<u8> = stream().iter().flat_map(Words::wire).collect();
    let before = std::fs::read(&file).expect("the file");
    std::fs::write(&file, [before, wire].concat()).expect("a longer file");
    server.start_again();
    all_is_as_it_was(&mut server.client());
}

#[test]
fn only_what_says_all_is_sent_so() {
    let mut stage = Stage::set(|words| {
        words.0.iter().take(3).map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
    });
    let mut client = stage.server.client();
    client.expect("STOCK.CREATE sale 9", OK);
    client.expect("SET pad x", OK);
    stage.told();
    for (request, told) in [
        ("STOCK.DECR_ONCE sale a", "STOCK.DECR_ONCE sale a"),
        ("STOCK.DECR_ONCE sale b HOLD 60000", "STOCK.APPLY sale TAKEN"),
        ("STOCK.EXTEND sale b PX 50000", "STOCK.APPLY sale EXTENDED"),
        ("STOCK.CONFIRM sale b", "STOCK.CONFIRM sale b"),
        ("stock.cancel sale b", "stock.cancel sale b"),
    ] {
        client.expect(request, ("OK", INT, INT, INT, TEXT));
        assert_eq!(stage.told(), [told], "{request}");
    }
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    client.expect("LOCK.RELEASE lock other", 0);
    assert_eq!(stage.told(), ["LOCK.APPLY lock HELD"]);
    let mut next = stage.waiter("LOCK.ACQUIRE lock TOKEN next WAIT 0");
    client.expect("LOCK.RELEASE lock t", 1);
    next.read().is(("next", INT, 30_000));
    assert_eq!(stage.told(), ["LOCK.APPLY lock ENDED"], "a hand-over is an effect");
    // Of several locks, only if none is handed over.
    client.expect("LOCK.MACQUIRE 2 x y TOKEN t", ANY);
    let mut both = stage.waiter("LOCK.ACQUIRE y TOKEN next WAIT 0");
    stage.told();
    client.expect("LOCK.MRELEASE t 2 x y", 2);
    both.read().is(("next", INT, 30_000));
    assert_eq!(stage.told(), ["MULTI", "LOCK.APPLY x ENDED", "LOCK.APPLY y ENDED", "EXEC"]);
    assert!(matches!(client.cmd("LOCK.INFO x"), Reply::Nil(_)));
    stage.server.digest();
}

#[test]
fn a_primary_can_be_told_to_send_effects_only() {
    let mut stage = Stage::set(|words| format!("{words:?}"));
    let mut client = stage.server.client();
    client.expect("CONFIG GET lockstock.replicate-commands", ("lockstock.replicate-commands", "yes"));
    client.expect("CONFIG SET lockstock.replicate-commands no", OK);
    client.expect("STOCK.CREATE sale 9", OK);
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    stage.told();
    for (request, told) in [
        ("STOCK.DECR_ONCE sale a", "STOCK.APPLY sale TAKEN a 1"),
        ("STOCK.CONFIRM sale a", ""),
        ("STOCK.CANCEL sale a", "STOCK.APPLY sale CANCELLED a"),
        ("STOCK.ADJUST sale 1", "STOCK.APPLY sale ADJUSTED 1"),
        ("LOCK.MRELEASE t 1 lock", "LOCK.APPLY lock ENDED t"),
    ] {
        client.expect(request, ANY);
        let told = if told.is_empty() { vec![] } else { vec![told] };
        assert_eq!(stage.told(), told, "{request}");
    }
    let example = std::fs::read_to_string("redis.conf.example").expect("the file");
    assert!(example.contains("\nlockstock.replicate-commands yes\n"));
}

#[test]
fn a_replica_that_counts_its_own_memory_refuses_orders_as_it_refuses_other_writes_but_no_effects() {
    let primary = Server::start();
    let replica = Server::builder().config("replica-ignore-maxmemory no").replica_of(&primary).start();
    let mut client = primary.client();
    client.expect("STOCK.CREATE sale 9", OK);
    client.expect("STOCK.DECR_ONCE sale before HOLD 3600000", ANY);
    replica.wait_in_sync(&primary);
    replica.expect("CONFIG SET maxmemory 1", OK);
    client.expect("CONFIG SET lockstock.replicate-commands no", OK);
    client.expect("STOCK.DECR_ONCE sale a", ANY);
    client.expect("CONFIG SET lockstock.replicate-commands yes", OK);
    client.expect("STOCK.DECR_ONCE sale b", ANY);
    client.expect("STOCK.CONFIRM sale before", ANY);
    client.expect("SET text x", OK);
    replica.wait_in_sync(&primary);
    let mut reader = replica.client();
    let there: Vec<_> = orders(&mut reader, "sale").into_iter().map(|(id, order)| (id, order.state)).collect();
    assert_eq!(there, [("a".to_owned(), "sold".to_owned()), ("before".into(), "sold".into())]);
    reader.expect("EXISTS text", 0);
    assert!(replica.log().contains("is sending an error"));
}

#[test]
fn in_import_mode_the_one_who_brings_the_data_brings_them() {
    let server = Server::start();
    let mut client = server.client();
    if client.cmd("CONFIG SET import-mode yes").is_error() {
        // Only Valkey has it.
        return;
    }
    let mut source = server.client();
    source.expect("CLIENT IMPORT-SOURCE ON", OK);
    for words in stream() {
        let reply = source.cmd(&words);
        assert!(!reply.is_error(), "{words:?}: {reply:?}");
    }
    all_is_as_it_was(&mut client);
    // A command from any other client is a request.
    client.expect("STOCK.DECR_ONCE sale late", ("ENDED", 0, 2, -1, ""));
    client.expect("STOCK.CONFIRM sale back", ("CANCELLED", 0, 2, -1, ""));
}
