// How to take locks and orders of lockstock with Lettuce. Compiled and run with Lettuce 7.7.0 and Java 17.
//
//     java -cp 'jars/*' WithLettuce.java redis://127.0.0.1:6379
//
// In jars/ are io.lettuce:lettuce-core and what it depends on (netty, reactor-core, reactive-streams): `mvn dependency:copy-dependencies
// -DoutputDirectory=jars` brings them. That SLF4J then finds no provider does no harm: nothing is logged.
//
// Lettuce sends the commands of all threads over one connection, where a parked request would hold up all others, its own release included; and
// when a command times out, its connection is kept and the request waits on. So waits go by NOTIFY: the answer comes at once, and what
// becomes of the request over a second connection, which subscribes. The part to take over is Locks; the rest is a story that uses it.
// In a cluster, dispatch finds the node by addKey, and everything else is the same.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionStateAdapter;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;

public class WithLettuce {
    static final Duration GRACE = Duration.ofSeconds(5);
    static final long PAUSE_MS = 50;

    /** The name of a command that Lettuce does not know. */
    record Name(String text) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return text.getBytes();
        }
    }

    /** Sends a command, whose first key is {@code key} where one is named. */
    static List<Object> send(StatefulRedisConnection<String, String> connection, String name, String key, Object... words) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8).addKey(key);
        for (Object word : words) args.add(word.toString());
        return connection.sync().dispatch(new Name(name), new NestedMultiOutput<>(StringCodec.UTF8), args);
    }

    /** Asks for locks. One for each client is enough. */
    static final class Locks implements AutoCloseable {
        private final StatefulRedisConnection<String, String> asks;
        private final StatefulRedisPubSubConnection<String, String> hears;
        private final String channel = "lockstock:" + UUID.randomUUID();
        /** Who waits, by token. */
        private final Map<String, Hold> waiting = new ConcurrentHashMap<>();
        private final ScheduledExecutorService keeper = Executors.newScheduledThreadPool(2, task -> {
            Thread thread = new Thread(task, "extends locks");
            thread.setDaemon(true);
            return thread;
        });

        Locks(RedisClient client) {
            asks = client.connect();
            hears = client.connectPubSub();
            hears.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    Hold hold = waiting.get(field(text, "token"));
                    if (hold != null) hold.hear(text);
                }
            });
            hears.sync().subscribe(channel);
            // A request is gone with the connection that brought it, and a message comes once or never. So after a reconnect of
            // either, every waiter asks again: the server keeps each place for a second, and says where the token stands.
            var again = new RedisConnectionStateAdapter() {
                @Override
                public void onRedisConnected(RedisChannelHandler<?, ?> connection, java.net.SocketAddress address) {
                    keeper.execute(() -> waiting.values().forEach(Hold::askAgain));
                }
            };
            asks.addListener(again);
            hears.addListener(again);
        }

        /** Stands in line for at most {@code wait}; null if others had the lock all the time, or {@code withdraw} was called. */
        Hold acquire(String key, Duration wait, Duration lease) throws InterruptedException {
            return await(ask(key, wait, lease));
        }

        /** Stands in line; {@code await} tells what came of it. */
        Hold ask(String key, Duration wait, Duration lease) {
            Hold hold = new Hold(this, key, System.nanoTime() + wait.toNanos(), lease.toMillis());
            waiting.put(hold.token, hold);
            hold.askAgain();
            return hold;
        }

        Hold await(Hold hold) throws InterruptedException {
            try {
                long left = hold.end - System.nanoTime() + GRACE.toNanos();
                if (!hold.answer.get(left, TimeUnit.NANOSECONDS)) return null;
                hold.extendIn(0);
                return hold;
            } catch (ExecutionException | TimeoutException | InterruptedException error) {
                // Without an answer the request may stand in line, and would be granted the lock though nobody is here.
                hold.release();
                if (error instanceof InterruptedException interrupted) throw interrupted;
                throw new RedisException("no lock " + hold.key, error);
            } finally {
                waiting.remove(hold.token);
            }
        }

        @Override
        public void close() {
            keeper.shutdownNow();
            hears.close();
            asks.close();
        }
    }

    /** One request for a lock, and the hold that comes of it. */
    static final class Hold {
        /** Larger than that of every grant before: have what you write to refuse smaller ones. */
        volatile long fence;
        /** Is completed when the hold has ended before it was released, or may have. */
        final CompletableFuture<Void> lost = new CompletableFuture<>();

        private final Locks locks;
        private final String key;
        /** One for this request and all its repetitions: the server then finds its place in line, or its grant. */
        private final String token = UUID.randomUUID().toString();
        private final long end;
        private final long leaseMs;
        private final CompletableFuture<Boolean> answer = new CompletableFuture<>();
        private volatile long until = System.nanoTime();
        private volatile boolean over;
        private volatile Future<?> next;

        Hold(Locks locks, String key, long end, long leaseMs) {
            this.locks = locks;
            this.key = key;
            this.end = end;
            this.leaseMs = leaseMs;
        }

        /** Whether the hold should last still, by this process's clock. */
        boolean isHeld() {
            return fence > 0 && !over && System.nanoTime() - until < 0;
        }

        /** Ends the hold, or the wait. False if there was no hold to end. */
        synchronized boolean release() {
            over = true;
            if (next != null) next.cancel(false);
            return (Long) send(locks.asks, "LOCK.RELEASE", key, token).get(0) == 1;
        }

        /** Never at the same time as the release, which would come first and leave a request in line. */
        private synchronized void askAgain() {
            if (over || answer.isDone()) return;
            long left = Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
            try {
                List<Object> reply = send(locks.asks, "LOCK.ACQUIRE", key, "TOKEN", token, "PX", leaseMs, "WAIT", left, "NOTIFY", locks.channel);
                // One number is the place in line.
                if (reply.size() == 3) granted((Long) reply.get(1));
            } catch (RedisException error) {
                fail(error);
            }
        }

        private void hear(String text) {
            switch (field(text, "event")) {
                case "granted" -> granted(Long.parseLong(field(text, "fence")));
                case "timeout" -> answer.complete(false);
                default -> {
                    String error = field(text, "error");
                    if (error.startsWith("CANCELLED")) answer.complete(false);
                    // By what it has asked again itself.
                    else if (!error.startsWith("REPLACED")) fail(new RedisCommandExecutionException(error));
                }
            }
        }

        private void granted(long fence) {
            this.fence = fence;
            until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(leaseMs);
            answer.complete(true);
        }

        private void fail(RedisException error) {
            if (passes(error) && System.nanoTime() - end < 0) locks.keeper.schedule(this::askAgain, PAUSE_MS, TimeUnit.MILLISECONDS);
            else answer.completeExceptionally(error);
        }

        private void extendIn(long pauseMs) {
            next = locks.keeper.schedule(this::extend, pauseMs, TimeUnit.MILLISECONDS);
        }

        private void extend() {
            long sent = System.nanoTime();
            long pause = leaseMs / 3;
            try {
                boolean held = (Long) send(locks.asks, "LOCK.EXTEND", key, token, "PX", leaseMs).get(0) == 1;
                // The lease counts from before it was asked for.
                until = held ? sent + TimeUnit.MILLISECONDS.toNanos(leaseMs) : sent;
            } catch (RedisException error) {
                // No answer says nothing; the clock does.
                pause = leaseMs / 20;
            }
            if (over) return;
            if (isHeld()) extendIn(pause);
            else lost.complete(null);
        }
    }

    /** A field of the messages. The token is ours, without anything to escape; in a key, quotes would be. */
    static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"?((?:[^\"\\\\,}]|\\\\.)*)").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    /** Whether asking again, of the same server or another, may help. */
    static boolean passes(RedisException error) {
        if (!(error instanceof RedisCommandExecutionException)) return true;
        String text = String.valueOf(error.getMessage());
        return text.matches("(?s)(UNBLOCKED (force|this server)|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN) .*");
    }

    /** What came of a request for an order. None of the statuses is an error. */
    record Outcome(String status, long units, long remaining, long deadline, String ref) {
        static Outcome of(List<Object> five) {
            return new Outcome((String) five.get(0), (Long) five.get(1), (Long) five.get(2), (Long) five.get(3), (String) five.get(4));
        }
    }

    /** Reserves a unit for {@code id}. Sent again with the same id, because an answer was lost, it reserves no second one. */
    static Outcome order(StatefulRedisConnection<String, String> shop, String sale, String id, Duration hold) {
        return Outcome.of(send(shop, "STOCK.DECR_ONCE", sale, id, "HOLD", hold.toMillis()));
    }

    /** The payment is there: what was held is sold, once. */
    static Outcome confirm(StatefulRedisConnection<String, String> shop, String sale, String id) {
        return Outcome.of(send(shop, "STOCK.CONFIRM", sale, id));
    }

    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create(args.length > 0 ? args[0] : "redis://127.0.0.1:6379");
        try (Locks locks = new Locks(client); StatefulRedisConnection<String, String> shop = client.connect()) {
            Duration lease = Duration.ofSeconds(10);
            Hold held = locks.acquire("job:42", Duration.ofSeconds(1), lease);
            System.out.printf("held: %b, with a fence: %b%n", held.isHeld(), held.fence > 0);
            Hold brief = locks.acquire("job:42", Duration.ofMillis(200), lease);
            System.out.printf("granted to who waits 200 ms: %b%n", brief != null);
            // Whoever stops waiting before that leaves the line.
            Hold impatient = locks.ask("job:42", Duration.ofMinutes(1), lease);
            impatient.release();
            if (locks.await(impatient) != null) throw new AssertionError("granted, though cancelled");

            // Three more stand in line and are served in order, each by the release of the one before it.
            var served = new LinkedBlockingQueue<Long>();
            List<Thread> workers = new ArrayList<>();
            for (int number = 1; number <= 3; number++) {
                Thread worker = new Thread(() -> {
                    try {
                        Hold lock = locks.acquire("job:42", Duration.ofSeconds(20), lease);
                        served.add(lock.fence);
                        lock.release();
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
                send(shop, "STOCK.CREATE", "mug", 1);
            } catch (RedisCommandExecutionException busykey) {
                // It is there from an earlier run.
            }
            Duration hold = Duration.ofMinutes(10);
            print("order", order(shop, "mug", "ann", hold));
            print("again", order(shop, "mug", "ann", hold));
            print("other", order(shop, "mug", "bob", hold));
            print("paid", confirm(shop, "mug", "ann"));
            print("again", confirm(shop, "mug", "ann"));
        } finally {
            client.shutdown();
        }
    }

    static void print(String what, Outcome outcome) {
        System.out.printf("%s: %s, has %d, left %d%n", what, outcome.status(), outcome.units(), outcome.remaining());
    }
}
