import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import io.lettuce.core.RedisURI;
import lockstock.Client;
import lockstock.Hold;
import lockstock.NotReleasedException;
import lockstock.UnreachableException;
import lockstock.jedis.OverJedis;
import lockstock.lettuce.OverLettuce;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.RedisSentinelClient;

/** A wait goes on at the new primary that Sentinel names, and no call hangs if none is named. */
final class SentinelTests {
    private static final Run.Connect JEDIS = port -> {
        var config = DefaultJedisClientConfig.builder().build();
        RedisSentinelClient jedis = RedisSentinelClient.builder().masterName("main").sentinels(Set.of(new HostAndPort("127.0.0.1", port)))
            .clientConfig(config).build();
        return new Run.Connected(OverJedis.of(jedis, config), jedis);
    };

    private static final Run.Connect POOL_OF_JEDIS = port -> {
        JedisSentinelPool pool = new JedisSentinelPool("main", Set.of("127.0.0.1:" + port));
        return new Run.Connected(OverJedis.of(pool), pool);
    };

    private static final Run.Connect LETTUCE = port -> {
        RedisURI uri = RedisURI.Builder.sentinel("127.0.0.1", port, "main").build();
        var lettuce = io.lettuce.core.RedisClient.create(uri);
        return new Run.Connected(OverLettuce.of(lettuce, uri), lettuce);
    };

    private SentinelTests() {}

    private interface Play {
        void with(Server primary, Server replica, Server sentinel, Client client) throws Exception;
    }

    private static void play(Run.Connect connect, Play play) throws Exception {
        try (Server primary = Server.start()) {
            Server replica = primary.replica();
            try (Server sentinel = Server.sentinel(primary.port)) {
                String replicas = "slave-repl-offset";
                Server.until("Sentinel knows the replica", () -> sentinel.ask("SENTINEL", "REPLICAS", "main").toString().contains(replicas));
                try (Run.Connected connected = connect.to(sentinel.port)) {
                    play.with(primary, replica, sentinel, connected.client());
                }
            }
        }
    }

    /** How the old primary ends. */
    interface End {
        void of(Server primary) throws Exception;
    }

    private static void failsOver(Run.Connect connect) throws Exception {
        for (End end : List.<End>of(Server::kill, Server::freeze)) {
            play(connect, (primary, replica, sentinel, client) -> {
                Hold held = client.lock("job").lease(ofMinutes(1)).acquire(ofSeconds(10));
                CompletableFuture<Hold> granted = client.lock("job").acquireAsync(ofMinutes(2));
                Server.until("one waits", () -> primary.waiters() == 1);
                Server.until("the replica has the lock", () -> replica.exists("job"));
                end.of(primary);
                Server.until("it waits at the new primary", () -> replica.waiters() == 1);
                held.release();
                Expect.value(granted).release();
                Expect.same(replica.locks(), 0L);
            });
        }
    }

    public static void overJedis() throws Exception {
        failsOver(JEDIS);
    }

    public static void overAPoolOfJedis() throws Exception {
        failsOver(POOL_OF_JEDIS);
    }

    public static void overLettuce() throws Exception {
        failsOver(LETTUCE);
    }

    private static void nothingAnswers(Run.Connect connect) throws Exception {
        play(connect, (primary, replica, sentinel, client) -> {
            Hold hold = client.lock("job").lease(ofMinutes(1)).acquire(ofSeconds(10));
            List<AutoCloseable> thaws = new ArrayList<>();
            for (Server server : List.of(primary, replica, sentinel)) thaws.add(server.freeze());
            Expect.takes(0, 3_400, () -> Expect.fails(UnreachableException.class, () -> client.lock("other").acquire(ofSeconds(1))));
            Expect.takes(0, 2_500, () -> Expect.fails(UnreachableException.class, () -> client.stock("mug").info()));
            Expect.takes(0, 6_000, () -> Expect.fails(NotReleasedException.class, hold::release));
            for (AutoCloseable thaw : thaws) thaw.close();
        });
    }

    public static void aSentinelThatIsGoneHoldsUpNobodyOverJedis() throws Exception {
        nothingAnswers(JEDIS);
    }

    public static void aSentinelThatIsGoneHoldsUpNobodyOverAPoolOfJedis() throws Exception {
        nothingAnswers(POOL_OF_JEDIS);
    }

    public static void aSentinelThatIsGoneHoldsUpNobodyOverLettuce() throws Exception {
        nothingAnswers(LETTUCE);
    }
}
