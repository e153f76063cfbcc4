//! Reply and error of a guarded command are those of the command, byte for byte.

use harness::{ANY, Client, Cluster, Reply, Server, Words, err};

use super::held;

/// Commands of all types of values, in an order in which each finds something, and some that fail.
const COMMANDS: &str = "
SET n 12345|OBJECT ENCODING n|SET n 6 EX 1000|OBJECT ENCODING n|SETEX n 1000 7|OBJECT ENCODING n|GETSET n -8|OBJECT ENCODING n|SETNX n2 9|OBJECT ENCODING n2
SET 5 6|OBJECT ENCODING 5|SET n 0x10|OBJECT ENCODING n|INCR n2|OBJECT ENCODING n2|APPEND n3 10|OBJECT ENCODING n3|DEL n n2 n3 5
SET s hello|SET s hello GET|SET s x NX|SET s x XX|SETNX s y|SETEX s 1000 y|PSETEX s 1000000 yy|GET s|GETSET s z|GETEX s PERSIST|GETRANGE s 0 -1
SETRANGE s 3 abc|STRLEN s|APPEND s tail|SUBSTR s 0 1|MSET a 1 b 2|MGET a b none|MSETNX a 1 c 3|INCR a|INCRBY a 5|DECR a|DECRBY a 2|INCRBYFLOAT a 0.5
INCR s|INCR|GET|SET s|GETDEL b|GETDEL b|LCS s a|LCS s s IDX|SETBIT bits 7 1|GETBIT bits 7|BITCOUNT bits|BITPOS bits 1|BITOP NOT bits2 bits
BITFIELD bits SET u8 0 255 GET u4 0 INCRBY u2 0 1|BITFIELD_RO bits GET u8 0|LPUSH l a b c|RPUSH l d|LPUSHX none a|RPUSHX l e|LRANGE l 0 -1|LLEN l|LINDEX l 0
LINDEX l 99|LSET l 0 z|LSET l 99 z|LINSERT l BEFORE z y|LREM l 1 z|LPOS l d|LPOP l|LPOP l 2|RPOP l|RPOPLPUSH l l2|LMOVE l l2 LEFT RIGHT|LMPOP 1 l2 LEFT
LTRIM l 0 0|LPOP none|LPOP none 2|GET l|SADD set a b c d|SISMEMBER set a|SMISMEMBER set a z|SCARD set|SREM set a|SMOVE set set2 b|SMEMBERS set2
SINTER set set2|SUNION set2|SDIFF set2 set|SINTERCARD 2 set set2|SINTERSTORE set3 set set|SUNIONSTORE set3 set set2|SDIFFSTORE set3 set set2
SRANDMEMBER set2|SPOP set2|SPOP none|SRANDMEMBER none 3|SSCAN set2 0|HSET h f 1 g 2|HGET h f|HGET h none|HMGET h f none|HMSET h i 3|HGETALL h|HKEYS none
HVALS none|HLEN h|HEXISTS h f|HSETNX h f 2|HINCRBY h f 4|HINCRBYFLOAT h f 0.25|HSTRLEN h f|HDEL h i|HRANDFIELD none 2|HRANDFIELD none|HSCAN none 0
HINCRBY h f x|ZADD z 1 a 2 b 3 c|ZADD z XX CH 5 a|ZADD z GT INCR 1 a|ZADD z NX INCR 1 a|ZSCORE z a|ZSCORE z none|ZMSCORE z a none|ZINCRBY z 1.5 a
ZCARD z|ZCOUNT z -inf +inf|ZLEXCOUNT z - +|ZRANGE z 0 -1 WITHSCORES|ZRANGE z 0 -1|ZREVRANGE z 0 -1 WITHSCORES|ZRANGEBYSCORE z 0 9 WITHSCORES LIMIT 0 1
ZREVRANGEBYSCORE z 9 0|ZRANGEBYLEX z - +|ZREVRANGEBYLEX z + -|ZRANK z a|ZRANK z none|ZREVRANK z a|ZRANGESTORE z2 z 0 -1|ZUNION 2 z z2 WITHSCORES
ZINTER 2 z z2|ZDIFF 2 z z2|ZINTERCARD 2 z z2|ZUNIONSTORE z3 2 z z2|ZINTERSTORE z3 2 z z2|ZDIFFSTORE z3 2 z z2|ZPOPMIN z2|ZPOPMAX z2 2|ZPOPMIN none
ZMPOP 1 z2 MIN|ZMPOP 1 none MIN|ZRANDMEMBER none 2|ZREM z a|ZREMRANGEBYRANK z 0 0|ZREMRANGEBYSCORE z 0 0|ZREMRANGEBYLEX z [x [y|ZSCAN z 0|ZADD s 1 a
GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania|GEODIST geo Palermo Catania km|GEODIST geo Palermo none|GEOHASH geo Palermo none
GEOPOS geo Palermo none|GEOSEARCH geo FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST|GEORADIUS geo 15 37 200 km STORE near|GEORADIUS_RO geo 15 37 200 km
GEOSEARCHSTORE near geo FROMMEMBER Palermo BYBOX 400 400 km|PFADD p a b c|PFCOUNT p|PFMERGE p2 p|PFCOUNT s|XADD x 1-1 f v|XADD x 1-1 f v|XADD x 2-* f v
XADD x NOMKSTREAM MAXLEN 10 3-1 f v|XLEN x|XRANGE x - +|XREVRANGE x + - COUNT 1|XREAD COUNT 1 STREAMS x 0|XREAD STREAMS x 9-9|XGROUP CREATE x g 0
XGROUP CREATE x g 0|XREADGROUP GROUP g c COUNT 1 STREAMS x >|XACK x g 1-1|XPENDING x g|XDEL x 1-1|XTRIM x MAXLEN 1|XSETID x 9-9|XGROUP DELCONSUMER x g c
XGROUP DESTROY x g|XINFO STREAM none|XINFO GROUPS x|XCLAIM none g c 0 1-1|XAUTOCLAIM none g c 0 0|EXISTS s none|TYPE s|TYPE none|TTL s|PTTL none
EXPIRE s 1000|EXPIRE s 2000 GT|EXPIRE s 5 NX|EXPIRE none 5|EXPIREAT s 99999999999|PEXPIRE s 1000000|PEXPIREAT s 99999999999000|EXPIRETIME s|PEXPIRETIME s
PERSIST s|RENAME s s2|RENAMENX s2 s|RENAME none x|COPY s s3|COPY s s3|COPY s s3 REPLACE|DEL s3 none|UNLINK s2|TOUCH s none|KEYS nothing-*|SCAN 0 MATCH nothing
OBJECT ENCODING l|OBJECT REFCOUNT none|OBJECT ENCODING none|OBJECT FREQ s|OBJECT HELP|DUMP none|DUMP a|RESTORE r 0 x|SORT l ALPHA|SORT l ALPHA STORE sorted
SORT s|SORT_RO none|SORT l BY w* GET #|PING|PING hello|ECHO hello|DBSIZE|COMMAND COUNT|COMMAND GETKEYS SET k v|COMMAND INFO get|COMMAND|LOLWUT VERSION 1
PUBLISH channel hello|PUBSUB CHANNELS|PUBSUB NUMSUB c|PUBSUB NUMPAT|MEMORY USAGE none|WAIT 0 0|WAIT x y|NO-SUCH|NO-SUCH a b|no-such 'quoted'|OBJECT NO-SUCH s
XGROUP|XGROUP NO-SUCH x|SET s v EX|SET s v EX 0|SET s v PX -5|SET s v BAD|MSET a|EXPIRE s x|LPUSH s x|HSET h f|ZADD z x y|SINTERCARD 0 s|LMPOP 0 l LEFT
SETRANGE s -1 x|GETRANGE s x y|INCRBY a 1.5|BITOP BAD d s|SCAN x|SCAN 0 COUNT 0|DEBUG SLEEP|FLUSHDB BAD|LOCK.INFO none|LOCK.ACQUIRE|LOCK.RELEASE none x
STOCK.CREATE sale 5|STOCK.DECR_ONCE sale ann|STOCK.ORDER sale ann|STOCK.INFO sale|STOCK.ORDERS sale 0|STOCK.BUYER sale ann|STOCK.INFO none|STOCK.INFO s";

/// The answers that cannot be compared: the refusals of a guard.
const REFUSED: &str = "-ERR LOCK.GUARD runs neither";

/// What a client gets for the words.
fn raw(client: &mut Client, words: impl Into<Words>) -> String {
    client.send(words);
    client.read_raw().escape_ascii().to_string()
}

#[test]
fn replies_and_errors_are_the_same_in_both_protocols() {
    for protocol in [2, 3] {
        let server = Server::start();
        let [mut plain, mut guarded] = [0, 1].map(|db| {
            let mut client = server.client();
            client.expect(format!("HELLO {protocol}"), ANY);
            client.expect(format!("SELECT {db}"), ANY);
            client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
            client
        });
        let (mut compared, mut refused) = (0, vec![]);
        for command in COMMANDS.split(['|', '\n']).filter(|command| !command.is_empty()) {
            let want = raw(&mut plain, command);
            let got = raw(&mut guarded, format!("LOCK.GUARD lock t {command}"));
            if got.starts_with(REFUSED) {
                refused.push(command.split(' ').next().unwrap_or_default());
                continue;
            }
            assert_eq!(got, want, "{command}, RESP{protocol}");
            compared += 1;
        }
        assert!(compared > 240, "{compared}");
        assert!(refused.iter().all(|name| ["DEBUG", "WAIT"].contains(name)), "{refused:?}");
    }
}

#[test]
fn names_and_values_of_any_bytes_come_through() {
    let server = Server::start();
    let mut client = held(&server);
    let long = vec![b'x'; 70_000];
    let odd: [&[u8]; 8] = [b"", b"\0", b"a\0b", b"%s%n", b"\xff\xfe", b"a\r\nb", &long, b"-0123"];
    for value in odd {
        client.expect([b"LOCK.GUARD", &b"lock"[..], b"t", b"SET", value, value], harness::OK);
        client.expect([b"GET", value], value);
        client.expect([b"LOCK.GUARD", &b"lock"[..], b"t", b"GET", value], value);
        // As a command it is none, and the reply is one line.
        for name in [value, &[b"SET\0", value].concat()] {
            let reply = client.cmd([b"LOCK.GUARD", &b"lock"[..], b"t", name, b"k", b"v"]);
            reply.is(err("ERR unknown command"));
        }
    }
    client.expect("EXISTS k", 0);
}

#[test]
fn the_database_is_the_callers() {
    let server = Server::start();
    let mut client = held(&server);
    client.expect("SELECT 5", harness::OK);
    client.expect("LOCK.GUARD lock t SET k v", err("NOTHELD"));
    client.expect("LOCK.ACQUIRE lock TOKEN t", ANY);
    client.expect("LOCK.GUARD lock t SET k v", harness::OK);
    client.expect("LOCK.GUARD lock t MOVE k 6", 1);
    client.expect("LOCK.GUARD lock t SET k w", harness::OK);
    client.expect("DBSIZE", 2);
    client.expect("SELECT 6", harness::OK);
    client.expect("GET k", "v");
}

/// Every command of the server and every subcommand, with its arity and whether scripts may run it.
fn all_commands(client: &mut Client) -> Vec<(String, i64, bool)> {
    let mut all = vec![];
    let mut rows = client.cmd("COMMAND").items().to_vec();
    while let Some(row) = rows.pop() {
        let noscript = row.at(2).items().iter().any(|flag| *flag == Reply::Simple("noscript".into()));
        let inner = row.items().get(9).map(|inner| inner.items().to_vec()).unwrap_or_default();
        if inner.is_empty() {
            all.push((row.at(0).text().replace('|', " "), row.at(1).int(), noscript));
        }
        rows.extend(inner);
    }
    all
}

/// The subcommands of `CLUSTER` that change nothing.
const LOOKS: [&str; 12] = [
    "count-failure-reports",
    "countkeysinslot",
    "getkeysinslot",
    "help",
    "info",
    "keyslot",
    "links",
    "myid",
    "nodes",
    "replicas",
    "shards",
    "slots",
];

/// Guards every command that the server has, with too few words, with just enough, and with two more.
fn sweep(client: &mut Client, server: &Server) {
    for (name, arity, noscript) in all_commands(client) {
        // What a node of a cluster would not recover from, with the guard or without.
        if name.strip_prefix("cluster ").is_some_and(|name| !LOOKS.contains(&name)) {
            continue;
        }
        let least = usize::try_from(arity.abs()).expect("small");
        for (words, filler) in [(1, "0"), (least, "0"), (least, "{lock}x"), (least + 2, "1"), (least + 2, "{lock}x")] {
            let mut call: Vec<&str> = "LOCK.GUARD lock t".split(' ').chain(name.split(' ')).collect();
            call.resize(call.len().max(words + 3), filler);
            client.send(&call);
            let reply = String::from_utf8_lossy(&client.read_raw()).into_owned();
            let fits = if arity < 0 { call.len() - 3 >= least } else { call.len() - 3 == least };
            if reply.starts_with("-CROSSSLOT") {
                assert!(filler != "{lock}x", "{call:?}: {reply}");
            } else if noscript && fits {
                assert!(reply.starts_with(REFUSED), "{call:?}: {reply}");
            } else if ["select", "lock.guard"].contains(&name.as_str()) {
                assert!(reply.starts_with("-ERR"), "{call:?}: {reply}");
            } else {
                assert!(!reply.starts_with(REFUSED), "{call:?}: {reply}");
            }
            // Some delete everything.
            client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
        }
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn every_command_that_the_server_has_is_run_or_refused_and_it_lives() {
    let server = Server::start();
    let mut client = held(&server);
    sweep(&mut client, &server);
    let mut client = server.client();
    client.hello3();
    sweep(&mut client, &server);
}

#[test]
fn so_it_is_on_a_node_of_a_cluster() {
    let cluster = Cluster::start(1);
    let server = cluster.node(0);
    let mut client = held(server);
    sweep(&mut client, server);
}

#[test]
fn so_it_is_in_a_script() {
    let server = Server::start();
    let mut client = held(&server);
    for (name, arity, _) in all_commands(&mut client) {
        let least = usize::try_from(arity.abs()).expect("small");
        for filler in ["0", "{lock}x"] {
            let mut call: Vec<&str> =
                vec!["EVAL", "return redis.pcall(unpack(ARGV))", "1", "lock", "LOCK.GUARD", "lock", "t"];
            call.extend(name.split(' '));
            call.resize(call.len().max(least + 7), filler);
            client.send(&call);
            let reply = String::from_utf8_lossy(&client.read_raw()).into_owned();
            assert!(!name.starts_with("wait") || reply.starts_with("-ERR"), "{call:?}: {reply}");
            client.expect("LOCK.ACQUIRE lock TOKEN t PX 3600000", ANY);
        }
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn what_nodes_are_told_about_slots_is_refused() {
    let cluster = Cluster::start(1);
    let server = cluster.node(0);
    let mut client = held(server);
    let slot = cluster.slot("lock");
    client.expect(format!("LOCK.GUARD lock t CLUSTER SETSLOT {slot} STABLE"), err(&REFUSED[1..]));
    client.expect("LOCK.GUARD lock t cluster syncslots CAPA x", err(&REFUSED[1..]));
}
