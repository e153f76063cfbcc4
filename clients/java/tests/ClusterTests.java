import static java.time.Duration.ofMillis;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

import io.lettuce.core.RedisURI;
import lockstock.Cart;
import lockstock.Client;
import lockstock.Hold;
import lockstock.Leg;
import lockstock.Lock;
import lockstock.NotAcquiredException;
import lockstock.NotReleasedException;
import lockstock.Order;
import lockstock.RefusedException;
import lockstock.UnreachableException;
import lockstock.jedis.OverJedis;
import lockstock.lettuce.OverLettuce;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.exceptions.JedisDataException;

/** Locks and sales in a cluster. */
final class ClusterTests {
    private interface Play {
        void over(Cluster cluster, Client client) throws Exception;
    }

    private ClusterTests() {}

    private static void play(boolean jedis, Play play) throws Exception {
        play(jedis, 60_000, play);
    }

    private static void play(boolean jedis, int timeoutMs, Play play) throws Exception {
        try (Cluster cluster = new Cluster(timeoutMs)) {
            Server first = cluster.nodes.get(0);
            if (jedis) {
                var config = DefaultJedisClientConfig.builder().build();
                try (RedisClusterClient library = RedisClusterClient.builder().nodes(Set.of(first.address())).clientConfig(config).build();
                        Client client = OverJedis.of(library, config)) {
                    play.over(cluster, client);
                }
            } else {
                RedisURI uri = RedisURI.create(first.url());
                try (var library = io.lettuce.core.cluster.RedisClusterClient.create(uri); Client client = OverLettuce.of(library, uri)) {
                    play.over(cluster, client);
                }
            }
        }
    }

    public static void everyKeyIsFoundOverJedis() throws Exception {
        play(true, ClusterTests::everyKey);
    }

    public static void everyKeyIsFoundOverLettuce() throws Exception {
        play(false, ClusterTests::everyKey);
    }

    private static void everyKey(Cluster cluster, Client client) throws Exception {
        AtomicInteger numbers = new AtomicInteger();
        LockTests.crowd(30, () -> {
            int number = numbers.incrementAndGet();
            String key = "{" + number + "}job";
            Lock lock = number % 3 == 0 ? client.lock(key, key + "2") : client.lock(key);
            if (number % 2 == 0) lock = lock.session();
            try (Hold hold = lock.acquire(ofSeconds(10))) {
                CompletableFuture<Hold> other = client.lock(key).acquireAsync(ofMillis(100));
                Expect.fails(NotAcquiredException.class, () -> Expect.value(other));
                Expect.same(hold.guard("SET", key + "3", "x"), "OK");
            }
            client.stock(key + "s").create(1);
            Cart cart = client.orderAll("1", List.of(new Leg(key + "s")), Order.one());
            Expect.that(cart.isDone(), cart);
        });
        Expect.fails(RefusedException.class, () -> client.lock("a", "b").acquire());
        for (Server node : cluster.nodes) Expect.same(node.locks(), 0L);
    }

    public static void aSlotMovesWhileOneWaitsAndOneHoldsOverJedis() throws Exception {
        play(true, ClusterTests::aSlotMoves);
    }

    public static void aSlotMovesWhileOneWaitsAndOneHoldsOverLettuce() throws Exception {
        play(false, ClusterTests::aSlotMoves);
    }

    private static void aSlotMoves(Cluster cluster, Client client) throws Exception {
        Hold held = Expect.value(client.lock("job").lease(ofSeconds(3)).acquireAsync(ofSeconds(5)));
        CompletableFuture<Hold> waits = client.lock("job").session().acquireAsync(ofMinutes(1));
        Server from = null, to = null;
        for (Server node : cluster.nodes) {
            if (has(node)) from = node;
            else to = node;
        }
        Server old = from, there = to;
        Server.until("one waits", () -> old.waiters() == 1);
        Object slot = old.ask("CLUSTER", "KEYSLOT", "job");
        // The lock's key is not there yet, or not there any more: ASK.
        there.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", old.ask("CLUSTER", "MYID"));
        old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", there.ask("CLUSTER", "MYID"));
        old.ask("MIGRATE", "127.0.0.1", there.port, "job", 0, 5000);
        held.extend();
        Expect.value(client.lock("{job}other").acquireAsync(ofSeconds(2))).release();
        Expect.fails(NotAcquiredException.class, () -> client.lock("job").acquire(ofMillis(100)));
        Object id = there.ask("CLUSTER", "MYID");
        for (Server node : List.of(there, old, cluster.nodes.get(0), cluster.nodes.get(1), cluster.nodes.get(2))) {
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", id);
        }
        Thread.sleep(4_000);
        Expect.that(held.isOwned(), held);
        held.release();
        Hold next = Expect.value(waits);
        Expect.that(next.isOwned(), next);
        Expect.same(there.locks(), 1L);
        next.release();
        Expect.same(there.locks(), 0L);
    }

    public static void aSlotStaysOnItsWayOverJedis() throws Exception {
        play(true, ClusterTests::aSlotStays);
    }

    public static void aSlotStaysOnItsWayOverLettuce() throws Exception {
        play(false, ClusterTests::aSlotStays);
    }

    /** A reshard that was broken off leaves a slot so, perhaps on its way to a server that has no slots yet. */
    private static void aSlotStays(Cluster cluster, Client client) throws Exception {
        Server to = cluster.join(cluster.nodes.get(0));
        Server from = cluster.nodes.stream().filter(ClusterTests::serves).findFirst().orElseThrow();
        Object slot = from.ask("CLUSTER", "KEYSLOT", "job");
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ask("CLUSTER", "MYID"));
        from.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ask("CLUSTER", "MYID"));

        Hold session = client.lock("job").session().acquire(ofSeconds(5));
        Thread.sleep(4_000);
        Expect.that(session.isOwned() && session.isHeld() && !session.lost().isDone(), session);
        session.release();
        Expect.same(to.locks(), 0L);
        for (Lock lock : List.of(client.lock("job"), client.lock("job").session())) {
            to.asking("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
            CompletableFuture<Hold> waits = lock.acquireAsync(ofMinutes(1));
            Server.until("one waits", () -> to.waiters() == 1);
            to.asking("LOCK.RELEASE", "job", "other");
            Expect.takes(0, 2_000, () -> Expect.value(waits).release());
            Expect.same(to.locks(), 0L);
        }
    }

    /** Whether the slot is there. */
    private static boolean serves(Server node) {
        try {
            return node.ask("GET", "job") == null;
        } catch (JedisDataException moved) {
            return false;
        }
    }

    /** Whether the lock is there. */
    private static boolean has(Server node) {
        try {
            node.ask("GET", "job");
            return false;
        } catch (JedisDataException error) {
            return error.getMessage().startsWith("WRONGTYPE");
        }
    }

    public static void aClusterThatIsGoneHoldsUpNobodyOverJedis() throws Exception {
        play(true, ClusterTests::isGone);
    }

    public static void aClusterThatIsGoneHoldsUpNobodyOverLettuce() throws Exception {
        play(false, ClusterTests::isGone);
    }

    private static void isGone(Cluster cluster, Client client) throws Exception {
        // Before anything was asked, so that nothing is known.
        List<AutoCloseable> thaws = new ArrayList<>();
        for (Server node : cluster.nodes) thaws.add(node.freeze());
        Expect.takes(0, 2_500, () -> Expect.fails(UnreachableException.class, () -> client.stock("mug").info()));
        Expect.takes(0, 3_400, () -> Expect.fails(UnreachableException.class, () -> client.lock("job").acquire(ofSeconds(1))));
        for (AutoCloseable thaw : thaws) thaw.close();
        try (Hold hold = client.lock("job").acquire(ofSeconds(20))) {
            for (Server node : cluster.nodes) node.kill();
            Expect.takes(0, 2_500, () -> Expect.fails(UnreachableException.class, () -> client.stock("mug").info()));
            Expect.takes(0, 7_000, () -> Expect.fails(NotReleasedException.class, hold::release));
        }
    }

    public static void aFrozenPrimaryHasASuccessorOverJedis() throws Exception {
        play(true, 2_000, (cluster, client) -> aSuccessor(cluster, client, Server::freeze));
    }

    public static void aFrozenPrimaryHasASuccessorOverLettuce() throws Exception {
        play(false, 2_000, (cluster, client) -> aSuccessor(cluster, client, Server::freeze));
    }

    public static void aDeadPrimaryHasASuccessorOverJedis() throws Exception {
        play(true, 2_000, (cluster, client) -> aSuccessor(cluster, client, Server::kill));
    }

    public static void aDeadPrimaryHasASuccessorOverLettuce() throws Exception {
        play(false, 2_000, (cluster, client) -> aSuccessor(cluster, client, Server::kill));
    }

    /** The library may take for ever to learn of it. */
    private static void aSuccessor(Cluster cluster, Client client, SentinelTests.End end) throws Exception {
        // Then the places of all slots are known.
        everyKeyIsReached(client);
        Hold held = client.lock("job").lease(ofSeconds(15)).acquire(ofSeconds(20));
        CompletableFuture<Hold> waits = client.lock("job").acquireAsync(ofMinutes(2));
        Server primary = cluster.nodes.stream().filter(node -> node.locks() == 1).findFirst().orElseThrow();
        Server replica = cluster.replica(primary);
        Server.until("it has the lock", () -> replica.locks() == 1);
        Server.until("one waits", () -> primary.waiters() == 1);
        end.of(primary);
        Server.until("it waits at the new primary", () -> replica.waiters() == 1);
        // A wait for a frozen server is asked for again after the first lease.
        Expect.that(held.isHeld() && held.isOwned(), held);
        held.release();
        Expect.value(waits).release();
        Expect.same(replica.locks(), 0L);
    }

    public static void aClusterWhoseNodesWereReplacedIsFoundOverJedis() throws Exception {
        play(true, 2_000, ClusterTests::allAreReplaced);
    }

    public static void aClusterWhoseNodesWereReplacedIsFoundOverLettuce() throws Exception {
        play(false, 2_000, ClusterTests::allAreReplaced);
    }

    /** The library has nothing to do, so it knows the first nodes only. */
    private static void allAreReplaced(Cluster cluster, Client client) throws Exception {
        List<Server> old = List.copyOf(cluster.nodes), successors = new ArrayList<>();
        for (Server primary : old) successors.add(cluster.replica(primary));
        for (int number = 0; number < 3; number++) {
            Server successor = successors.get(number);
            Server.until("it follows", () -> ((String) successor.ask("INFO", "replication")).contains("master_link_status:up"));
            everyKeyIsReached(client);
            old.get(number).kill();
            Server.until("it has taken over", () -> ((String) successor.ask("CLUSTER", "INFO")).contains("cluster_state:ok")
                && ((String) successor.ask("INFO", "replication")).contains("role:master"));
        }
        everyKeyIsReached(client);
    }

    private static void everyKeyIsReached(Client client) throws Exception {
        for (int number = 0; number < 30; number++) client.lock("job" + number).acquire(ofSeconds(20)).release();
    }

    public static void aNodeThatDoesNotAnswerHoldsUpItsOwnKeysOnlyOverJedis() throws Exception {
        play(true, ClusterTests::aNodeIsFrozen);
    }

    public static void aNodeThatDoesNotAnswerHoldsUpItsOwnKeysOnlyOverLettuce() throws Exception {
        play(false, ClusterTests::aNodeIsFrozen);
    }

    private static void aNodeIsFrozen(Cluster cluster, Client client) throws Exception {
        everyKeyIsReached(client);
        AutoCloseable thaw = cluster.nodes.get(1).freeze();
        AtomicInteger good = new AtomicInteger(), numbers = new AtomicInteger();
        LockTests.crowd(30, () -> {
            try {
                client.lock("job" + numbers.getAndIncrement()).acquire(ofSeconds(1)).release();
                good.incrementAndGet();
            } catch (UnreachableException frozen) {
                // Of that node.
            }
        });
        Expect.that(good.get() >= 15 && good.get() < 30, good);
        thaw.close();
        everyKeyIsReached(client);
    }
}
