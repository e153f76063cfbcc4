import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import io.lettuce.core.RedisURI;
import lockstock.Client;
import lockstock.Hold;
import lockstock.jedis.OverJedis;
import lockstock.lettuce.OverLettuce;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.RedisSentinelClient;

/** A wait goes on at the new primary that Sentinel names. */
final class SentinelTests {

    private SentinelTests() {}

    private static void failover(Server primary, Server replica, Client client, End end) throws Exception {
        Hold held = client.lock("job").lease(ofMinutes(1)).acquire(ofSeconds(10));
        CompletableFuture<Hold> granted = client.lock("job").acquireAsync(ofMinutes(2));
        Server.until("one waits", () -> primary.waiters() == 1);
        Server.until("the replica has the lock", () -> replica.exists("job"));
        end.of(primary);
        Server.until("it waits at the new primary", () -> replica.waiters() == 1);
        held.release();
        Expect.value(granted).release();
        Expect.same(replica.locks(), 0L);
    }

    private interface Connect {
        void to(Server sentinel, Server primary, Server replica, End end) throws Exception;
    }

    /** How the old primary ends. */
    interface End {
        void of(Server primary) throws Exception;
    }

    private static void play(Connect connect) throws Exception {
        for (End end : List.<End>of(Server::kill, Server::freeze)) {
            try (Server primary = Server.start()) {
                Server replica = primary.replica();
                try (Server sentinel = Server.sentinel(primary.port)) {
                    String replicas = "slave-repl-offset";
                    Server.until("Sentinel knows the replica", () -> sentinel.ask("SENTINEL", "REPLICAS", "main").toString().contains(replicas));
                    connect.to(sentinel, primary, replica, end);
                }
            }
        }
    }

    public static void overJedis() throws Exception {
        play((sentinel, primary, replica, end) -> {
            var config = DefaultJedisClientConfig.builder().build();
            try (RedisSentinelClient jedis = RedisSentinelClient.builder().masterName("main").sentinels(Set.of(sentinel.address())).clientConfig(config)
                    .build(); Client client = OverJedis.of(jedis, config)) {
                failover(primary, replica, client, end);
            }
        });
    }

    public static void overAPoolOfJedis() throws Exception {
        play((sentinel, primary, replica, end) -> {
            try (JedisSentinelPool pool = new JedisSentinelPool("main", Set.of(sentinel.address().toString())); Client client = OverJedis.of(pool)) {
                failover(primary, replica, client, end);
            }
        });
    }

    public static void overLettuce() throws Exception {
        play((sentinel, primary, replica, end) -> {
            RedisURI uri = RedisURI.Builder.sentinel("127.0.0.1", sentinel.port, "main").build();
            try (var lettuce = io.lettuce.core.RedisClient.create(uri); Client client = OverLettuce.of(lettuce, uri)) {
                failover(primary, replica, client, end);
            }
        });
    }
}
