// What docs/clients.md says of Jedis and Lettuce, against real servers: `make test-clients-java`.
//
//     LOCKSTOCK_URL=redis://… LOCKSTOCK_CLUSTER_URL=redis://… java -cp 'jars/*' Table.java

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;

import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;

import redis.clients.jedis.ClusterCommandArguments;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.SafeEncoder;

public class Table {
    static final URI SERVER = URI.create(System.getenv("LOCKSTOCK_URL"));
    static final URI CLUSTER = URI.create(System.getenv("LOCKSTOCK_CLUSTER_URL"));

    interface Test {
        void run() throws Exception;
    }

    /** Sees what a server has, over a connection of its own. */
    static final RedisClient EYE = RedisClient.create(SERVER);

    public static void main(String[] args) throws Exception {
        test("Jedis has the defaults of its row", Table::jedisDefaults);
        test("Jedis closes the connection of a call that expires", Table::jedisExpires);
        test("Jedis reads for a call that blocks as long as it takes", Table::jedisBlocks);
        test("Jedis sends nothing again", Table::jedisSendsOnce);
        test("Jedis parks a call on a connection of its pool", Table::jedisPool);
        test("Jedis knows the node of a key, and sends again in a cluster", Table::jedisCluster);
        test("Lettuce has the defaults of its row", Table::lettuceDefaults);
        test("Lettuce keeps the connection of a call that expires, and the wait", Table::lettuceExpires);
        test("Lettuce sends again what was unanswered", Table::lettuceSendsAgain);
        test("Lettuce sends everything over one connection", Table::lettuceShares);
        test("Lettuce knows the node of a key", Table::lettuceCluster);
        System.exit(0);
    }

    static void test(String name, Test test) throws Exception {
        EYE.flushAll();
        EYE.executeCommand(command("LOCK.ACQUIRE", "k", "TOKEN", "holder"));
        test.run();
        System.out.println("ok: " + name);
    }

    // Jedis

    static void jedisDefaults() throws Exception {
        var config = DefaultJedisClientConfig.builder().build();
        expect(config.getSocketTimeoutMillis() == 2_000 && config.getBlockingSocketTimeoutMillis() == 0, "time-outs");
        expect(new ConnectionPoolConfig().getMaxTotal() == 8, "pool");
        row("Jedis 7", "`socketTimeoutMillis`, 2 s; `blockingSocketTimeoutMillis`, none", "`maxTotal`, 8", "no (in a cluster: yes)");
    }

    static void jedisExpires() throws Exception {
        try (UnifiedJedis jedis = jedis(8)) {
            fails(JedisConnectionException.class, () -> jedis.executeCommand(ask("k", "impatient")));
            waiting();
        }
    }

    static void jedisBlocks() throws Exception {
        try (UnifiedJedis jedis = jedis(8)) {
            var granted = CompletableFuture.supplyAsync(() -> jedis.executeCommand(ask("k", "patient").blocking()));
            waiting("patient");
            // Several times as long as any other call may take.
            Thread.sleep(1_500);
            waiting("patient");
            EYE.executeCommand(command("LOCK.RELEASE", "k", "holder"));
            expect(granted.get(10, TimeUnit.SECONDS) != null, "granted");
        }
    }

    static void jedisSendsOnce() throws Exception {
        try (UnifiedJedis jedis = jedis(8)) {
            var answer = CompletableFuture.runAsync(() -> jedis.executeCommand(ask("k", "parked").blocking()));
            waiting("parked");
            cut(EYE);
            fails(JedisConnectionException.class, () -> {
                try {
                    answer.get(10, TimeUnit.SECONDS);
                } catch (java.util.concurrent.ExecutionException error) {
                    throw (Exception) error.getCause();
                }
            });
            waiting();
        }
    }

    static void jedisPool() throws Exception {
        try (UnifiedJedis jedis = jedis(1)) {
            var answer = CompletableFuture.supplyAsync(() -> jedis.executeCommand(ask("k", "parked").blocking()));
            waiting("parked");
            fails(JedisException.class, jedis::ping);
            EYE.executeCommand(command("LOCK.RELEASE", "k", "parked"));
            answer.get(10, TimeUnit.SECONDS);
            expect(jedis.ping().equals("PONG"), "the connection is free again");
        }
    }

    static void jedisCluster() throws Exception {
        Set<HostAndPort> nodes = Set.of(new HostAndPort(CLUSTER.getHost(), CLUSTER.getPort()));
        try (RedisClusterClient jedis = RedisClusterClient.create(nodes)) {
            for (int number = 0; number < 20; number++) {
                expect(jedis.executeCommand(command("LOCK.ACQUIRE", "jedis" + number, "TOKEN", "me")) != null, "granted");
                expect(jedis.executeCommand(command("LOCK.RELEASE", "jedis" + number, "me")).equals(1L), "released");
            }
            String key = "jedis";
            jedis.executeCommand(command("LOCK.ACQUIRE", key, "TOKEN", "holder"));
            var granted = CompletableFuture.supplyAsync(() -> jedis.executeCommand(ask(key, "parked").blocking()));
            until("it waits", () -> waiters(jedis, key).equals(List.of("parked")));
            long before = client(jedis, key);
            for (String node : jedis.getClusterNodes().keySet()) {
                try (RedisClient eye = RedisClient.create(HostAndPort.from(node))) {
                    cut(eye);
                }
            }
            until("it waits again", () -> waiters(jedis, key).equals(List.of("parked")) && client(jedis, key) != before);
            jedis.executeCommand(command("LOCK.RELEASE", key, "holder"));
            expect(granted.get(10, TimeUnit.SECONDS) != null, "granted");
            jedis.executeCommand(command("LOCK.RELEASE", key, "parked"));
        }
    }

    /** An impatient client, with so many connections. */
    static UnifiedJedis jedis(int connections) {
        var pool = new ConnectionPoolConfig();
        pool.setMaxTotal(connections);
        pool.setMaxWait(Duration.ofMillis(300));
        var config = DefaultJedisClientConfig.builder().socketTimeoutMillis(300).build();
        return RedisClient.builder().hostAndPort(SERVER.getHost(), SERVER.getPort()).clientConfig(config).poolConfig(pool).build();
    }

    /** A command; LOCK.* and STOCK.* have their key first. */
    static CommandArguments command(String name, String first, String... words) {
        byte[] raw = SafeEncoder.encode(name);
        // A plain CommandArguments is refused in a cluster.
        var command = new ClusterCommandArguments(() -> raw);
        return (name.contains(".") ? command.key(first) : command.add(first)).addObjects((Object[]) words);
    }

    static CommandArguments ask(String key, String token) {
        return command("LOCK.ACQUIRE", key, "TOKEN", token, "WAIT", "60000");
    }

    // Lettuce

    record Name(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes();
        }
    }

    static CommandArgs<String, String> words(String key, String... words) {
        var args = new CommandArgs<>(StringCodec.UTF8).addKey(key);
        for (String word : words) args.add(word);
        return args;
    }

    static List<Object> send(StatefulRedisConnection<String, String> connection, String name, String key, String... words) {
        return connection.sync().dispatch(new Name(name), new NestedMultiOutput<>(StringCodec.UTF8), words(key, words));
    }

    static void lettuceDefaults() throws Exception {
        expect(RedisURI.create("redis://127.0.0.1").getTimeout().equals(Duration.ofSeconds(60)), "time-out");
        row("Lettuce 7", "`RedisURI.timeout`, 60 s", "**connection is kept, the request goes on waiting**", "yes, after a reconnect", "shared");
    }

    static void lettuceExpires() throws Exception {
        var client = io.lettuce.core.RedisClient.create(SERVER.toString());
        try (var connection = client.connect()) {
            connection.setTimeout(Duration.ofMillis(300));
            fails(RedisCommandTimeoutException.class, () -> send(connection, "LOCK.ACQUIRE", "k", "TOKEN", "impatient", "WAIT", "60000"));
            Thread.sleep(500);
            waiting("impatient");
            EYE.executeCommand(command("LOCK.RELEASE", "k", "impatient"));
            waiting();
            expect(connection.sync().ping().equals("PONG"), "the connection is kept");
        } finally {
            client.shutdown();
        }
    }

    static void lettuceSendsAgain() throws Exception {
        var client = io.lettuce.core.RedisClient.create(SERVER.toString());
        try (var connection = client.connect(); var other = client.connect()) {
            var granted = connection.async().dispatch(new Name("LOCK.ACQUIRE"), new NestedMultiOutput<>(StringCodec.UTF8),
                    words("k", "TOKEN", "parked", "WAIT", "60000"));
            waiting("parked");
            long before = client(EYE, "k");
            EYE.executeCommand(command("CLIENT", "KILL", "ID", "" + before));
            until("it waits again", () -> waiters(EYE, "k").equals(List.of("parked")) && client(EYE, "k") != before);
            expect(other.sync().ping().equals("PONG"), "a second connection is free");
            EYE.executeCommand(command("LOCK.RELEASE", "k", "holder"));
            expect(granted.get(10, TimeUnit.SECONDS).size() == 3, "granted");
        } finally {
            client.shutdown();
        }
    }

    static void lettuceShares() throws Exception {
        var client = io.lettuce.core.RedisClient.create(SERVER.toString());
        try (var connection = client.connect()) {
            connection.async().dispatch(new Name("LOCK.ACQUIRE"), new NestedMultiOutput<>(StringCodec.UTF8),
                    words("k", "TOKEN", "parked", "WAIT", "60000"));
            waiting("parked");
            connection.setTimeout(Duration.ofMillis(300));
            fails(RedisCommandTimeoutException.class, () -> connection.sync().ping());
            EYE.executeCommand(command("LOCK.RELEASE", "k", "parked"));
            connection.setTimeout(Duration.ofSeconds(10));
            expect(connection.sync().ping().equals("PONG"), "the connection is free again");
        } finally {
            client.shutdown();
        }
    }

    static void lettuceCluster() throws Exception {
        var client = io.lettuce.core.cluster.RedisClusterClient.create(CLUSTER.toString());
        try (StatefulRedisClusterConnection<String, String> connection = client.connect()) {
            for (int number = 0; number < 20; number++) {
                for (String[] command : List.of(new String[] {"ACQUIRE", "TOKEN", "me"}, new String[] {"RELEASE", "me"})) {
                    var args = words("lettuce" + number, Arrays.copyOfRange(command, 1, command.length));
                    var reply = connection.sync().dispatch(new Name("LOCK." + command[0]), new NestedMultiOutput<>(StringCodec.UTF8), args);
                    expect(reply.size() == (command[0].equals("ACQUIRE") ? 3 : 1), "done: " + reply);
                }
            }
        } finally {
            client.shutdown();
        }
    }

    // What is seen

    /** The flat list or the list of entries of a reply's map, as RESP2 has it. */
    static Object field(Object flat, String name) {
        List<?> pairs = (List<?>) flat;
        if (!pairs.isEmpty() && pairs.get(0) instanceof redis.clients.jedis.util.KeyValue) {
            return pairs.stream().map(pair -> (redis.clients.jedis.util.KeyValue<?, ?>) pair).filter(pair -> text(pair.getKey()).equals(name))
                    .findFirst().orElseThrow().getValue();
        }
        int at = IntStream.range(0, pairs.size() / 2).filter(pair -> text(pairs.get(2 * pair)).equals(name)).findFirst().orElseThrow();
        return pairs.get(2 * at + 1);
    }

    static String text(Object word) {
        return word instanceof byte[] bytes ? SafeEncoder.encode(bytes) : String.valueOf(word);
    }

    static List<?> rows(UnifiedJedis eye, String key) {
        Object info = eye.executeCommand(command("LOCK.INFO", key));
        return info == null ? List.of() : (List<?>) field(info, "waiters");
    }

    static List<String> waiters(UnifiedJedis eye, String key) {
        return rows(eye, key).stream().map(row -> text(field(row, "token"))).toList();
    }

    /** The connection of the first who waits. */
    static long client(UnifiedJedis eye, String key) {
        return (Long) field(rows(eye, key).get(0), "client");
    }

    static void waiting(String... tokens) throws Exception {
        until(Arrays.toString(tokens) + " wait", () -> waiters(EYE, "k").equals(List.of(tokens)));
    }

    /** Closes all connections but the eye's. */
    static void cut(RedisClient eye) {
        eye.executeCommand(command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
    }

    static void until(String what, BooleanSupplier condition) throws Exception {
        for (long end = System.nanoTime() + 10_000_000_000L; !condition.getAsBoolean(); Thread.sleep(5)) {
            expect(System.nanoTime() - end < 0, what);
        }
    }

    static void expect(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    static void fails(Class<? extends Exception> kind, Test test) {
        try {
            test.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) return;
            throw new AssertionError("not " + kind.getSimpleName(), error);
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    /** Expects the table to have a row of this client, with these words. */
    static void row(String name, String... words) throws Exception {
        String row = Files.readAllLines(Path.of("docs/clients.md")).stream().filter(line -> line.startsWith("| " + name + " |")).findFirst().orElse("");
        for (String word : words) expect(row.contains(word), word + " is not in the row of " + name + ": " + row);
    }
}
