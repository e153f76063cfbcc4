// How to take locks and orders of lockstock with Jedis. Compiled and run with Jedis 7.5.3 and Java 17.
//
//     java -cp 'jars/*' WithJedis.java redis://127.0.0.1:6379
//
// In jars/ are redis.clients:jedis and what it depends on (commons-pool2, slf4j-api, gson, json): `mvn dependency:copy-dependencies
// -DoutputDirectory=jars` brings them. That SLF4J then finds no provider does no harm: nothing is logged.
//
// The part to take over is Lock; the rest is a story that uses it. With a RedisClusterClient everything is the same.

import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

import redis.clients.jedis.ClusterCommandArguments;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.SafeEncoder;

public class WithJedis {
    /** Nobody waits longer: it is how long Jedis reads for an answer to a call that blocks. */
    static final Duration LONGEST_WAIT = Duration.ofMinutes(10);
    static final Duration GRACE = Duration.ofSeconds(5);
    static final Duration PAUSE = Duration.ofMillis(50);

    /** Extends all locks of this process. A thread or two will do; they must not keep the process alive. */
    static final ScheduledExecutorService KEEPER = Executors.newScheduledThreadPool(2, task -> {
        Thread thread = new Thread(task, "extends locks");
        thread.setDaemon(true);
        return thread;
    });

    /** A command of lockstock and its first key. A plain CommandArguments is refused in a cluster; this one is good for both. */
    static CommandArguments command(String name, String key) {
        byte[] raw = SafeEncoder.encode(name);
        ProtocolCommand command = () -> raw;
        return new ClusterCommandArguments(command).key(key);
    }

    /** Sends what may be repeated until it is answered: Jedis sends nothing again, and who uses a connection that was cut is the first to know. */
    static Object send(UnifiedJedis jedis, CommandArguments command) {
        long end = System.nanoTime() + GRACE.toNanos();
        while (true) {
            try {
                return jedis.executeCommand(command);
            } catch (JedisException error) {
                if (!passes(error) || System.nanoTime() - end > 0) throw error;
                LockSupport.parkNanos(PAUSE.toNanos());
            }
        }
    }

    /** One request for a lock, and the hold that comes of it. */
    static final class Lock implements AutoCloseable {
        /** Is completed when the hold has ended before it was released, or may have. */
        final CompletableFuture<Void> lost = new CompletableFuture<>();

        private final UnifiedJedis jedis;
        private final String key;
        /** One for this request and all its repetitions: the server then finds its place in line, or its grant. */
        private final String token = UUID.randomUUID().toString();
        private final long leaseMs;
        private volatile long fence;
        private volatile long until = System.nanoTime();
        private volatile boolean asking;
        private volatile boolean over;
        private volatile Future<?> next;

        Lock(UnifiedJedis jedis, String key, Duration lease) {
            this.jedis = jedis;
            this.key = key;
            this.leaseMs = lease.toMillis();
        }

        /** Larger than that of every grant before: have what you write to refuse smaller ones. */
        long fence() {
            return fence;
        }

        /** Whether the hold should last still, by this process's clock. */
        boolean isHeld() {
            return fence > 0 && !over && System.nanoTime() - until < 0;
        }

        /** Stands in line for at most {@code wait}; false if others had the lock all the time, or {@code close} was called meanwhile. */
        boolean acquire(Duration wait) throws InterruptedException {
            boolean granted;
            asking = true;
            try {
                granted = stand(System.nanoTime() + wait.toNanos());
            } catch (JedisException | InterruptedException error) {
                asking = false;
                // Without an answer the request may stand in line, and would be granted the lock though nobody is here.
                if (!(error instanceof JedisDataException)) close();
                throw error;
            } finally {
                asking = false;
            }
            if (granted && over) {
                // The release has come to the server first.
                send(jedis, command("LOCK.RELEASE", key).add(token));
                return false;
            }
            // At once after a wait: nobody knows how long the answer took.
            if (granted) next = KEEPER.schedule(this::extend, wait.isZero() ? leaseMs / 3 : 0, TimeUnit.MILLISECONDS);
            return granted;
        }

        private boolean stand(long end) throws InterruptedException {
            while (!over) {
                long left = Math.max(0, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
                try {
                    return ask(left);
                } catch (JedisException error) {
                    if (over || left == 0 || !passes(error)) throw error;
                }
                // Asked again with the same token, the server finds its place in line, or its grant.
                Thread.sleep(PAUSE.toMillis());
            }
            return false;
        }

        /**
         * Ends the hold; from another thread also a wait, which cannot be interrupted. False if there was no hold to end, or the answer was lost
         * and this is that to the repetition.
         */
        boolean release() {
            over = true;
            if (next != null) next.cancel(false);
            while (true) {
                boolean held = (Long) send(jedis, command("LOCK.RELEASE", key).add(token)) == 1;
                // What is still on its way would stand in line after this.
                if (held || !asking) return held;
                LockSupport.parkNanos(PAUSE.toNanos());
            }
        }

        /** If the server cannot be told, the lease ends the hold. */
        @Override
        public void close() {
            if (over) return;
            try {
                release();
            } catch (JedisException error) {
                if (!passes(error)) throw error;
            }
        }

        private boolean ask(long waitMs) {
            CommandArguments ask = command("LOCK.ACQUIRE", key).add("TOKEN").add(token).add("PX").add(leaseMs);
            if (waitMs > 0) ask.add("WAIT").add(waitMs);
            long sent = System.nanoTime();
            // Blocking: with the read time-out of such calls. A parked call has its connection of the pool for itself.
            Object reply = jedis.executeCommand(ask.blocking());
            if (reply == null) return false;
            fence = (Long) ((List<?>) reply).get(1);
            until = (waitMs > 0 ? System.nanoTime() : sent) + TimeUnit.MILLISECONDS.toNanos(leaseMs);
            return true;
        }

        private void extend() {
            long sent = System.nanoTime();
            long pause = leaseMs / 3;
            try {
                boolean held = (Long) jedis.executeCommand(command("LOCK.EXTEND", key).add(token).add("PX").add(leaseMs)) == 1;
                // The lease counts from before it was asked for.
                until = held ? sent + TimeUnit.MILLISECONDS.toNanos(leaseMs) : sent;
            } catch (JedisException error) {
                // No answer says nothing; the clock does.
                pause = leaseMs / 20;
            }
            if (over) return;
            if (isHeld()) next = KEEPER.schedule(this::extend, pause, TimeUnit.MILLISECONDS);
            else lost.complete(null);
        }
    }

    static final Set<String> PASSING = Set.of("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN");

    /** Whether asking again, of the same server or another, may help. */
    static boolean passes(JedisException error) {
        if (error instanceof JedisConnectionException) return true;
        String text = String.valueOf(error.getMessage());
        return text.startsWith("UNBLOCKED force") || PASSING.contains(text.split(" ", 2)[0]);
    }

    /** What came of a request for an order. None of the statuses is an error. */
    record Outcome(String status, long units, long remaining, long deadline, String ref) {
        static Outcome of(Object reply) {
            List<?> five = (List<?>) reply;
            return new Outcome(SafeEncoder.encode((byte[]) five.get(0)), (Long) five.get(1), (Long) five.get(2), (Long) five.get(3),
                    SafeEncoder.encode((byte[]) five.get(4)));
        }
    }

    /** Reserves a unit for {@code id}. Sent again with the same id, because an answer was lost, it reserves no second one. */
    static Outcome order(UnifiedJedis jedis, String sale, String id, Duration hold) {
        return Outcome.of(send(jedis, command("STOCK.DECR_ONCE", sale).add(id).add("HOLD").add(hold.toMillis())));
    }

    /** The payment is there: what was held is sold, once. */
    static Outcome confirm(UnifiedJedis jedis, String sale, String id) {
        return Outcome.of(send(jedis, command("STOCK.CONFIRM", sale).add(id)));
    }

    public static void main(String[] args) throws Exception {
        URI url = URI.create(args.length > 0 ? args[0] : "redis://127.0.0.1:6379");
        var config = DefaultJedisClientConfig.builder()
                .blockingSocketTimeoutMillis((int) LONGEST_WAIT.plus(GRACE).toMillis())
                .build();
        // The pool has eight connections unless told otherwise. A waiting caller holds one; releases and extensions need one, too.
        try (RedisClient jedis = RedisClient.builder().hostAndPort(url.getHost(), url.getPort()).clientConfig(config).build()) {
            Duration lease = Duration.ofSeconds(10);
            Lock held = new Lock(jedis, "job:42", lease);
            held.acquire(Duration.ofSeconds(1));
            System.out.printf("held: %b, with a fence: %b%n", held.isHeld(), held.fence() > 0);
            Lock brief = new Lock(jedis, "job:42", lease);
            System.out.printf("granted to who waits 200 ms: %b%n", brief.acquire(Duration.ofMillis(200)));
            // Whoever stops waiting before that leaves the line.
            Lock impatient = new Lock(jedis, "job:42", lease);
            KEEPER.schedule(impatient::close, 200, TimeUnit.MILLISECONDS);
            if (impatient.acquire(Duration.ofMinutes(1))) throw new AssertionError("granted, though cancelled");

            // Three more stand in line and are served in order, each by the release of the one before it.
            var served = new LinkedBlockingQueue<Long>();
            List<Thread> workers = new ArrayList<>();
            for (int number = 1; number <= 3; number++) {
                Thread worker = new Thread(() -> {
                    try (Lock lock = new Lock(jedis, "job:42", lease)) {
                        served.add(lock.acquire(Duration.ofSeconds(20)) ? lock.fence() : 0);
                    } catch (InterruptedException error) {
                        Thread.currentThread().interrupt();
                    }
                });
                worker.start();
                workers.add(worker);
                Thread.sleep(200); // Only so that they come one after another.
            }
            System.out.printf("released: %b%n", held.release());
            long last = 0;
            for (int number = 1; number <= 3; number++) {
                long fence = served.poll(20, TimeUnit.SECONDS);
                System.out.printf("worker %d, with a larger fence: %b%n", number, fence > last);
                last = fence;
            }
            for (Thread worker : workers) worker.join();

            try {
                send(jedis, command("STOCK.CREATE", "mug").add(1));
            } catch (JedisDataException busykey) {
                // It is there from an earlier run.
            }
            Duration hold = Duration.ofMinutes(10);
            print("order", order(jedis, "mug", "ann", hold));
            print("again", order(jedis, "mug", "ann", hold));
            print("other", order(jedis, "mug", "bob", hold));
            print("paid", confirm(jedis, "mug", "ann"));
            print("again", confirm(jedis, "mug", "ann"));
        }
    }

    static void print(String what, Outcome outcome) {
        System.out.printf("%s: %s, has %d, left %d%n", what, outcome.status(), outcome.units(), outcome.remaining());
    }
}
