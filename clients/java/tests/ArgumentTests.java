import static java.time.Duration.ofSeconds;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;

import lockstock.Change;
import lockstock.Client;
import lockstock.Hold;
import lockstock.Leg;
import lockstock.Lock;
import lockstock.Order;
import lockstock.State;
import lockstock.Stock;
import lockstock.Terms;
import lockstock.jedis.OverJedis;
import lockstock.lettuce.OverLettuce;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.RedisClusterClient;

/** Wrong arguments are refused where they are made, before anything is sent. */
final class ArgumentTests {
    private static final Class<IllegalArgumentException> WRONG = IllegalArgumentException.class;
    private static final Class<NullPointerException> MISSING = NullPointerException.class;

    private ArgumentTests() {}

    private static void all(Class<? extends RuntimeException> kind, Expect.Step... steps) {
        for (Expect.Step step : steps) {
            RuntimeException error = Expect.fails(kind, step);
            // It says what was expected.
            Expect.that(error.getMessage() != null && error.getMessage().matches("(?s).*(not |has |do not|goes with|name it|changes|at least|held).*"), error);
        }
    }

    public static void ofLocks(Server server, Client client) throws Exception {
        Lock lock = client.lock("job");
        all(WRONG, () -> client.lock(""), () -> client.lock("a", ""), () -> lock.lease(Duration.ZERO), () -> lock.lease(Duration.ofNanos(1)),
            () -> lock.lease(ofSeconds(-1)), () -> lock.lease(ofSeconds(Long.MAX_VALUE)), () -> lock.limit(0), () -> lock.limit(-1),
            () -> lock.limit(Long.MAX_VALUE), () -> lock.limit(2).shared(), () -> lock.shared().limit(2), () -> lock.replicas(0),
            () -> lock.replicas(-1), () -> lock.token(""), () -> lock.token("x".repeat(513)), () -> lock.token("\u00e9".repeat(257)),
            () -> client.lock("a", "b").shared(), () -> client.lock("a", "b").limit(1), () -> lock.acquire(ofSeconds(-1)),
            () -> lock.tryAcquire(Duration.ofNanos(-1)), () -> lock.acquireAsync(ofSeconds(-1)));
        all(MISSING, () -> client.lock(null), () -> client.lock("a", (String) null), () -> lock.lease(null), () -> lock.token(null),
            () -> lock.acquire(null), () -> lock.tryAcquire(null), () -> lock.acquireAsync(null), () -> new Client(null),
            () -> OverJedis.of((redis.clients.jedis.util.Pool<redis.clients.jedis.Jedis>) null));
        // The longest that there is.
        try (Hold hold = lock.lease(Duration.ofDays(36_500)).token("x".repeat(512)).acquire(ofSeconds(Long.MAX_VALUE))) {
            all(WRONG, () -> hold.extend(Duration.ZERO), () -> hold.extend(ofSeconds(-1)), () -> hold.guard(""), () -> hold.guard("SET", "x", new Object()),
                () -> hold.guard("SET", "x", null, "y"));
            all(MISSING, () -> hold.extend(null), () -> hold.guard(null));
            Expect.same(server.locks(), 1L);
        }
        Expect.same(server.locks(), 0L);
    }

    public static void ofSales(Server server, Client client) throws Exception {
        Stock mug = client.stock("mug");
        mug.create(5);
        Order order = Order.one();
        all(WRONG, () -> client.stock(""), () -> mug.create(-1), () -> mug.create(1L << 53), () -> Terms.none().limit(0), () -> Terms.none().deadlines(),
            () -> Terms.none().stream(""), () -> Terms.none().start(Instant.EPOCH), () -> Terms.none().end(Instant.MAX), () -> mug.alter(Change.none()),
            () -> Change.none().limit(0), () -> mug.adjust(1, ""), () -> mug.adjust(Long.MIN_VALUE), () -> mug.order("", order), () -> Order.of(0),
            () -> Order.of(-1), () -> order.buyer(""), () -> order.ref("x".repeat(513)), () -> order.hold(Duration.ZERO),
            () -> order.hold(ofSeconds(-1)), () -> mug.confirm(""), () -> mug.confirm("a", 0), () -> mug.cancel("a", -1),
            () -> mug.extend("a", Duration.ZERO), () -> mug.orders(State.OTHER), () -> new Leg(""), () -> new Leg("mug", 0),
            () -> client.orderAll("a", List.of(), order), () -> client.orderAll("a", List.of(new Leg("mug")), order.waitlist()),
            () -> client.orderAll("a", List.of(new Leg("mug")), Order.of(2)), () -> client.confirmAll("a", List.of()),
            () -> client.cancelAll("", List.of("mug")), () -> client.cancelAll("a", List.of("")));
        all(MISSING, () -> client.stock(null), () -> mug.order(null, order), () -> order.buyer(null), () -> order.hold(null), () -> order.ref(null),
            () -> Terms.none().stream(null), () -> Terms.none().start(null), () -> Change.none().end(null), () -> mug.orders(null),
            () -> mug.extend("a", null), () -> mug.confirm(null), () -> mug.buyer(null), () -> client.confirmAll("a", Arrays.asList("mug", null)));
        Expect.same(mug.info().orElseThrow().changes(), 0L);
    }

    public static void anyPoolOfJedisWillDo() throws Exception {
        try (Server server = Server.start(); JedisPool pool = new JedisPool("127.0.0.1", server.port); Client client = OverJedis.of(pool)) {
            try (Hold hold = client.lock("job").acquire(ofSeconds(1))) {
                Expect.same(hold.guard("SET", "x", "y"), "OK");
            }
            all(MISSING, () -> OverJedis.of((RedisClusterClient) null, null));
        }
        all(MISSING, () -> OverLettuce.of(io.lettuce.core.RedisClient.create(), null));
    }
}
