package lockstock.jedis;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

import lockstock.Client;
import lockstock.Library;
import lockstock.ServerException;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionFactory;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisSentineled;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.Pool;

/**
 * Has lockstock speak over Jedis: to the servers of a client of Jedis, with its credentials and its TLS, but over connections of its own. A lock must be
 * extended and released though the pool is exhausted, and neither retries nor time-outs of the pool may add to its own.
 *
 * <p>Where a client of Jedis does not tell how it connects, that is asked for: the {@link JedisClientConfig} that it was made with. To connect and to
 * greet a server is bounded by the time-outs of that; leave them as they are, or short.
 */
public final class OverJedis implements Library {
    private static final AtomicInteger THREADS = new AtomicInteger();
    /** For what blocks on a socket. The threads end when nothing is under way, and do not keep the process alive. */
    static final ExecutorService POOL = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 5, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
        Thread thread = new Thread(task, "lockstock-jedis-" + THREADS.incrementAndGet());
        thread.setDaemon(true);
        thread.setContextClassLoader(OverJedis.class.getClassLoader());
        return thread;
    });

    /** Opens a connection to an address. */
    private interface Opener {
        Connection open(String address) throws Exception;
    }

    private final boolean cluster;
    private final Supplier<List<String>> nodes;
    private final Opener opener;

    private OverJedis(boolean cluster, Supplier<List<String>> nodes, Opener opener) {
        this.cluster = cluster;
        this.nodes = nodes;
        this.opener = opener;
    }

    private static Client alone(Opener opener) {
        return new Client(new OverJedis(false, () -> List.of(""), opener));
    }

    /**
     * A client for the server of {@code jedis}.
     *
     * @param jedis any number of threads may go on using it
     * @return one for the whole process
     */
    public static Client of(RedisClient jedis) {
        return beside(jedis.getPool());
    }

    /**
     * A client for the server of {@code jedis}.
     *
     * @param jedis any number of threads may go on using it
     * @return one for the whole process
     */
    @SuppressWarnings("deprecation")
    public static Client of(JedisPooled jedis) {
        return beside(jedis.getPool());
    }

    private static Client beside(Pool<Connection> pool) {
        return alone(address -> pool.getFactory().makeObject().getObject());
    }

    /**
     * A client for the server of a {@code JedisPool}, or for the primary of a {@code JedisSentinelPool}.
     *
     * @param pool any number of threads may go on using it
     * @return one for the whole process
     */
    public static Client of(Pool<Jedis> pool) {
        Objects.requireNonNull(pool, "a pool of Jedis, not null");
        return alone(address -> pool.getFactory().makeObject().getObject().getConnection());
    }

    /**
     * A client for the primary that Sentinel names.
     *
     * @param jedis it knows the primary
     * @param config how {@code jedis} connects to the primary
     * @return one for the whole process
     */
    public static Client of(RedisSentinelClient jedis, JedisClientConfig config) {
        return primary(jedis::getCurrentMaster, config);
    }

    /**
     * A client for the primary that Sentinel names.
     *
     * @param jedis it knows the primary
     * @param config how {@code jedis} connects to the primary
     * @return one for the whole process
     */
    @SuppressWarnings("deprecation")
    public static Client of(JedisSentineled jedis, JedisClientConfig config) {
        return primary(jedis::getCurrentMaster, config);
    }

    private static Client primary(Supplier<HostAndPort> primary, JedisClientConfig config) {
        Objects.requireNonNull(config, "the configuration of the client, not null");
        return alone(address -> new ConnectionFactory(primary.get(), config).makeObject().getObject());
    }

    /**
     * A client for a cluster.
     *
     * @param jedis it knows the nodes
     * @param config how {@code jedis} connects to them
     * @return one for the whole process
     */
    public static Client of(RedisClusterClient jedis, JedisClientConfig config) {
        return cluster(() -> List.copyOf(jedis.getClusterNodes().keySet()), config);
    }

    /**
     * A client for a cluster.
     *
     * @param jedis it knows the nodes
     * @param config how {@code jedis} connects to them
     * @return one for the whole process
     */
    @SuppressWarnings("deprecation")
    public static Client of(JedisCluster jedis, JedisClientConfig config) {
        return cluster(() -> List.copyOf(jedis.getClusterNodes().keySet()), config);
    }

    private static Client cluster(Supplier<List<String>> nodes, JedisClientConfig config) {
        Objects.requireNonNull(config, "the configuration of the client, not null");
        return new Client(new OverJedis(true, nodes, address -> new ConnectionFactory(HostAndPort.from(address), config).makeObject().getObject()));
    }

    @Override
    public boolean cluster() {
        return cluster;
    }

    @Override
    public List<String> nodes() {
        return nodes.get();
    }

    @Override
    public CompletableFuture<Wire> open(String address) {
        CompletableFuture<Wire> opened = new CompletableFuture<>();
        POOL.execute(() -> {
            try {
                Connection connection = opener.open(address);
                // What waits has its end elsewhere.
                connection.setSoTimeout(0);
                Wire wire = new JedisWire(connection);
                if (!opened.complete(wire)) wire.close();
            } catch (JedisDataException refused) {
                opened.completeExceptionally(new ServerException(String.valueOf(refused.getMessage()), refused));
            } catch (Exception | LinkageError error) {
                opened.completeExceptionally(error);
            }
        });
        return opened;
    }
}
