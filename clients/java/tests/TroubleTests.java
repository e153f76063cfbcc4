import static java.time.Duration.ofMillis;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

import lockstock.Client;
import lockstock.Hold;
import lockstock.Lock;
import lockstock.LostException;
import lockstock.NotAcquiredException;
import lockstock.NotReleasedException;
import lockstock.Order;
import lockstock.RefusedException;
import lockstock.UnreachableException;

/** What locks do when servers, networks and threads do what they must not. */
final class TroubleTests {
    private TroubleTests() {}

    public static void aHoldThatAnAdministratorEndedIsLost(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").lease(ofSeconds(1)).acquire();
        server.ask("DEL", "job");
        Expect.that(!hold.isOwned(), hold);
        Expect.takes(0, 1_000, () -> hold.lost().get(5, TimeUnit.SECONDS));
        Expect.that(!hold.isHeld(), hold);
        Expect.fails(LostException.class, hold::extend);
        Expect.fails(LostException.class, hold::release);
        // The end of a block says so, too, and the error of its body comes first.
        Expect.fails(LostException.class, () -> {
            try (Hold other = client.lock("job").acquire()) {
                server.ask("DEL", "job");
            }
        });
        Exception body = Expect.fails(Exception.class, () -> {
            try (Hold other = client.lock("job").acquire()) {
                server.ask("DEL", "job");
                throw new Exception("of the body");
            }
        });
        Expect.that(body.getSuppressed()[0] instanceof LostException, body);
        Expect.fails(LostException.class, () -> {
            try (Hold other = client.lock("job").acquire()) {
                server.ask("DEL", "job");
                other.release();
            }
        });
    }

    public static void aLeaseThatNobodyCouldExtendIsLostByTheClock(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").lease(ofSeconds(1)).acquire();
        AutoCloseable thaw = server.freeze();
        Expect.takes(500, 1_400, () -> hold.lost().get(5, TimeUnit.SECONDS));
        Expect.that(!hold.isHeld(), hold);
        Expect.takes(0, 1_000, () -> Expect.fails(NotReleasedException.class, hold::release));
        thaw.close();
        Server.until("the lease is over", () -> server.locks() == 0);
    }

    public static void aReleaseEndsInTimeAndSaysThatItIsNotSure(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").acquire();
        AutoCloseable thaw = server.freeze();
        Expect.takes(4_000, 6_000, () -> Expect.fails(NotReleasedException.class, hold::release));
        Expect.takes(0, 100, () -> Expect.fails(NotReleasedException.class, hold::release));
        thaw.close();
    }

    public static void aReleaseThatIsInterruptedGoesOn(Server server, Client client) throws Exception {
        Hold well = client.lock("well").acquire();
        Thread.currentThread().interrupt();
        well.close();
        Expect.that(Thread.interrupted(), "the thread stays interrupted");
        Expect.that(!server.exists("well"), "it is released");
        Hold hold = client.lock("job").acquire();
        AutoCloseable thaw = server.freeze();
        Thread.currentThread().interrupt();
        Expect.takes(0, 400, () -> Expect.fails(NotReleasedException.class, hold::close));
        Expect.that(Thread.interrupted(), "the thread stays interrupted");
        thaw.close();
        Server.until("it is released in the background", () -> !server.exists("job"));
    }

    public static void aWaitEndsInTimeWhateverTheServerDoes(Server server, Client client) throws Exception {
        Lock lock = client.lock("job");
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        Expect.takes(500, 2_000, () -> Expect.fails(NotAcquiredException.class, () -> lock.acquire(ofMillis(500))));
        Expect.same(lock.tryAcquire(ofMillis(50)).isPresent(), false);
        long begun = System.nanoTime();
        CompletableFuture<Hold> waits = lock.acquireAsync(ofSeconds(1));
        Server.until("it waits", () -> server.waiters() == 1);
        AutoCloseable thaw = server.freeze();
        Expect.fails(UnreachableException.class, () -> Expect.value(waits));
        long took = Duration.ofNanos(System.nanoTime() - begun).toMillis();
        Expect.that(took <= 3_400, "it took " + took + " ms");
        Expect.takes(1_000, 3_400, () -> Expect.fails(UnreachableException.class, () -> client.lock("free").acquire(ofSeconds(1))));
        Expect.takes(0, 2_400, () -> Expect.fails(UnreachableException.class, () -> client.lock("free").tryAcquire()));
        Expect.takes(0, 3_400, () -> Expect.fails(UnreachableException.class, () -> client.lock("free").session().acquire(ofSeconds(1))));
        thaw.close();
        Server.until("nobody waits, and nothing is held", () -> server.waiters() == 0 && !server.exists("free"));
        server.kill();
        Expect.takes(1_000, 3_400, () -> Expect.fails(UnreachableException.class, () -> lock.acquire(ofSeconds(1))));
        Expect.takes(0, 3_000, () -> Expect.fails(UnreachableException.class, () -> client.stock("mug").order("ann", Order.one())));
        Expect.takes(0, 3_000, () -> Expect.fails(UnreachableException.class, lock::isLocked));
    }

    public static void anInterruptedWaitIsWithdrawn(Server server, Client client) throws Exception {
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        Lock lock = client.lock("job");
        for (boolean frozen : new boolean[] {false, true}) {
            List<Thread> threads = new ArrayList<>();
            var ends = new LinkedBlockingQueue<Throwable>();
            for (int number = 0; number < 100; number++) {
                Thread thread = new Thread(() -> {
                    try {
                        lock.acquire();
                        ends.add(new AssertionError("granted"));
                    } catch (Throwable end) {
                        ends.add(end);
                    }
                });
                threads.add(thread);
                thread.start();
            }
            Server.until("they wait", () -> server.waiters() == 100);
            AutoCloseable thaw = frozen ? server.freeze() : () -> {};
            Expect.takes(0, 2_000, () -> {
                for (Thread thread : threads) thread.interrupt();
                for (Thread thread : threads) Expect.same(ends.poll(5, TimeUnit.SECONDS).getClass(), InterruptedException.class);
            });
            thaw.close();
            Server.until("nobody waits", () -> server.waiters() == 0);
        }
        server.ask("LOCK.RELEASE", "job", "other");
        Expect.that(!server.exists("job"), "nobody was granted it");
        Thread.currentThread().interrupt();
        Expect.fails(InterruptedException.class, lock::acquire);
        Thread.currentThread().interrupt();
        Expect.same(client.stock("mug").info().isPresent(), false);
        Expect.that(Thread.interrupted(), "the thread stays interrupted");
        Server.until("nothing is left", () -> server.locks() == 0);
    }

    /** The quickest of some, for a machine may be busy. */
    public static void anInterruptedWaitEndsWithinATenthOfASecond(Server server, Client client) throws Exception {
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        for (boolean frozen : new boolean[] {false, true}) {
            Server.until("nobody waits", () -> server.waiters() == 0);
            List<Thread> threads = new ArrayList<>();
            var ends = new LinkedBlockingQueue<Long>();
            for (int number = 0; number < 10; number++) {
                Thread thread = new Thread(() -> {
                    try {
                        client.lock("job").acquire();
                    } catch (InterruptedException end) {
                        ends.add(System.nanoTime());
                    }
                });
                threads.add(thread);
                thread.start();
            }
            Server.until("they wait", () -> server.waiters() == threads.size());
            try (AutoCloseable thaw = frozen ? server.freeze() : () -> {}) {
                long quickest = Long.MAX_VALUE;
                for (Thread thread : threads) {
                    long begun = System.nanoTime();
                    thread.interrupt();
                    quickest = Math.min(quickest, ends.poll(5, TimeUnit.SECONDS) - begun);
                }
                Expect.that(quickest < 100_000_000, "it took " + quickest + " ns");
            }
        }
    }

    public static void aRequestThatIsInterruptedAtAnyTimeLeavesNothing(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").lease(ofMinutes(1));
        AtomicReference<Throwable> failed = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 300; number++) {
            Thread thread = new Thread(() -> {
                try (Hold hold = lock.acquire(ofMinutes(1))) {
                    Thread.sleep(1);
                } catch (InterruptedException | NotReleasedException interrupted) {
                    // As it was meant.
                } catch (Throwable error) {
                    failed.set(error);
                }
            });
            threads.add(thread);
            thread.start();
            TimeUnit.MICROSECONDS.sleep(number * 20L);
            if (number > 5) threads.get(number - 5).interrupt();
        }
        for (Thread thread : threads) {
            thread.interrupt();
            thread.join(10_000);
        }
        Expect.same(failed.get(), null);
        Server.until("nothing is left", () -> server.waiters() == 0 && server.locks() == 0);
    }

    public static void aWaitGoesOnWhenItsConnectionIsCut(Server server, Client client) throws Exception {
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        CompletableFuture<Hold> granted = client.lock("job").token("first").acquireAsync(ofMinutes(1));
        Server.until("it waits", () -> server.waiters() == 1);
        for (int time = 0; time < 3; time++) {
            server.cut();
            Thread.sleep(100);
            Server.until("it waits again", () -> server.waiters() == 1);
        }
        server.ask("LOCK.RELEASE", "job", "other");
        Hold hold = Expect.value(granted);
        server.cut();
        hold.release();
        Expect.same(server.locks(), 0L);
    }

    public static void aWaitIsLongerThanAnyTimeOutOfTheLibrary(Server server, Client client) throws Exception {
        // Jedis reads for 2 s unless told otherwise.
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        CompletableFuture<Hold> granted = client.lock("job").acquireAsync(ofMinutes(1));
        Server.until("it waits", () -> server.waiters() == 1);
        Object before = server.ask("CLIENT", "LIST");
        Thread.sleep(4_000);
        Expect.same(server.waiters(), 1L);
        Expect.same(blocked(server.ask("CLIENT", "LIST")), blocked(before));
        server.ask("LOCK.RELEASE", "job", "other");
        Expect.value(granted).release();
    }

    /** The connection that waits. */
    private static String blocked(Object list) {
        return list.toString().lines().filter(line -> line.contains("flags=b")).map(line -> line.split(" ")[0]).findFirst().orElseThrow();
    }

    public static void aSessionIsLostWithItsConnection(Server server, Client client) throws Exception {
        Lock session = client.lock("job").session();
        for (Lock lock : List.of(session.lease(ofMinutes(1)), session.unattended())) {
            Hold hold = lock.acquire(ofSeconds(1));
            Thread.sleep(1_500);
            Expect.that(hold.isHeld(), hold);
            server.cut();
            Server.until("the lock is free", () -> !server.exists("job"));
            Expect.takes(0, 3_000, () -> hold.lost().get(10, TimeUnit.SECONDS));
            Expect.fails(LostException.class, hold::release);
        }
        session.acquire().close();
        Expect.same(server.locks(), 0L);
    }

    public static void aSessionIsLostWhenItsClientIsClosed(Server server, Client client) throws Exception {
        Lock session = client.lock("job").session().lease(ofMinutes(1));
        List<Hold> holds = List.of(session.acquire(), client.lock("other").session().lease(ofMinutes(1)).unattended().acquire());
        Hold plain = client.lock("plain").acquire();
        client.close();
        Server.until("they are free", () -> server.locks() == 1);
        for (Hold hold : holds) Expect.takes(0, 3_000, () -> hold.lost().get(10, TimeUnit.SECONDS));
        for (Hold hold : holds) Expect.that(!hold.isHeld(), hold);
        Expect.fails(LostException.class, holds.get(0)::extend);
        Expect.that(plain.isHeld() && !plain.lost().isDone(), plain);
    }

    public static void theWaitForATokenThatIsLeavingCounts(Server server, Client client) throws Exception {
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        Lock lock = client.lock("job").token("me");
        CompletableFuture<Hold> left = lock.acquireAsync(ofMinutes(1));
        Server.until("it waits", () -> server.waiters() == 1);
        AutoCloseable thaw = server.freeze();
        left.cancel(true);
        Expect.takes(6_000, 11_000, () -> Server.until("it ends", () -> {
            try {
                return lock.acquire(ofSeconds(7)) == null;
            } catch (lockstock.AlreadyHeldException stillAsks) {
                return false;
            } catch (UnreachableException silent) {
                return true;
            }
        }));
        thaw.close();
    }

    public static void aRequestThatMayBeSentOnceOnlyOutlivesAnIdleConnection(Server server, Client client) throws Exception {
        client.stock("mug").create(10);
        for (int time = 1; time <= 3; time++) {
            Thread.sleep(1_100);
            server.cut();
            // Lettuce has a moment to notice it.
            Thread.sleep(300);
            Expect.same(client.stock("mug").adjust(1), 10L + time);
        }
        // One that was on its way is not sent again.
        CompletableFuture<Long> asked = new CompletableFuture<>();
        AutoCloseable thaw = server.freeze();
        new Thread(() -> {
            try {
                asked.complete(client.stock("mug").adjust(1));
            } catch (Throwable error) {
                asked.completeExceptionally(error);
            }
        }).start();
        Expect.fails(UnreachableException.class, () -> Expect.value(asked));
        thaw.close();
        Server.until("it was done once, at most", () -> server.ask("STOCK.INFO", "mug") != null);
        long remaining = client.stock("mug").info().orElseThrow().remaining();
        Expect.that(remaining == 13 || remaining == 14, remaining);
    }

    public static void aHoldThatIsDroppedIsNotExtendedAnyMore(Server server, Client client) throws Exception {
        List<String> warnings = Collections.synchronizedList(new ArrayList<>());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                warnings.add(record.getLevel() + " " + new SimpleFormatter().formatMessage(record));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger("lockstock");
        log.setLevel(Level.WARNING);
        log.addHandler(handler);
        CompletableFuture<Void> lost = drop(client);
        Server.until("it is lost", () -> {
            System.gc();
            return lost.isDone();
        });
        Server.until("it is free", () -> server.locks() == 0);
        log.removeHandler(handler);
        Expect.that(warnings.stream().anyMatch(text -> text.startsWith("WARNING") && text.contains("dropped") && text.contains("job")), warnings);
        // One that is used still is extended.
        try (Hold hold = client.lock("job").lease(ofSeconds(4)).acquire()) {
            for (int time = 0; time < 60; time++) {
                System.gc();
                Thread.sleep(100);
            }
            Expect.same(server.locks(), 1L);
        }
    }

    private static CompletableFuture<Void> drop(Client client) throws Exception {
        return client.lock("job").lease(ofSeconds(1)).acquire().lost();
    }

    public static void whatUsersDoWhenAHoldIsLostHoldsUpNobody(Server server, Client client) throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        Hold slow = client.lock("slow").lease(ofMillis(300)).acquire();
        CompletableFuture<Void> told = slow.lost().thenRun(() -> Expect.quietly(() -> over.await(20, TimeUnit.SECONDS)));
        server.ask("DEL", "slow");
        Hold other = client.lock("other").lease(ofSeconds(4)).acquire();
        Thread.sleep(6_000);
        Expect.that(other.isHeld() && other.isOwned() && !told.isDone(), other);
        over.countDown();
        told.get(5, TimeUnit.SECONDS);
        other.release();
        Hold odd = client.lock("odd").acquire();
        odd.lost().thenRun(() -> {
            throw new IllegalStateException("of a user");
        });
        server.ask("DEL", "odd");
        Expect.fails(LostException.class, odd::extend);
        Expect.fails(LostException.class, odd::release);
    }

    public static void oneThreadExtendsAllHolds(Server server, Client client) throws Exception {
        List<Hold> holds = new ArrayList<>();
        for (int number = 0; number < 100; number++) holds.add(client.lock("job" + number).lease(ofSeconds(2)).acquire());
        Thread.sleep(4_000);
        for (Hold hold : holds) Expect.that(hold.isHeld(), hold);
        long keepers = Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("lockstock-keeper")).count();
        Expect.same(keepers, 1L);
        Expect.that(server.ask("CLIENT", "LIST").toString().lines().count() < 20, "few connections");
        for (Hold hold : holds) hold.release();
        Expect.same(server.locks(), 0L);
    }

    public static void aPoolThatIsExhaustedHoldsUpNobody() throws Exception {
        var one = new redis.clients.jedis.ConnectionPoolConfig();
        one.setMaxTotal(1);
        try (Server server = Server.start();
                var jedis = redis.clients.jedis.RedisClient.builder().hostAndPort(server.address()).poolConfig(one).build();
                Client client = lockstock.jedis.OverJedis.of(jedis);
                var taken = jedis.getPool().getResource()) {
            Hold hold = client.lock("job").acquire(ofSeconds(1));
            CompletableFuture<Hold> next = client.lock("job").acquireAsync(ofSeconds(20));
            Server.until("one waits", () -> server.waiters() == 1);
            hold.extend();
            hold.release();
            Expect.value(next).release();
        }
    }

    public static void aPasswordIsUsedAndAWrongOneIsToldOf() throws Exception {
        try (Server server = Server.start()) {
            server.ask("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all");
            server.ask("ACL", "SETUSER", "default", "nopass", "+@all", "~*");
            for (String password : List.of("secret", "wrong")) {
                String url = "redis://ann:" + password + "@127.0.0.1:" + server.port;
                var uri = io.lettuce.core.RedisURI.create(url);
                var lettuce = io.lettuce.core.RedisClient.create(uri);
                try (lettuce;
                        var jedis = redis.clients.jedis.RedisClient.create(java.net.URI.create(url));
                        Client overJedis = lockstock.jedis.OverJedis.of(jedis);
                        Client overLettuce = lockstock.lettuce.OverLettuce.of(lettuce, uri)) {
                    for (Client client : List.of(overJedis, overLettuce)) {
                        if (password.equals("secret")) {
                            try (Hold hold = client.lock("job").acquire(ofSeconds(1))) {
                                Expect.that(server.ask("CLIENT", "LIST").toString().contains("user=ann"), hold);
                            }
                        } else {
                            Expect.takes(0, 1_500, () -> Expect.fails(RefusedException.class, () -> client.lock("job").acquire(ofSeconds(5))));
                        }
                    }
                }
            }
        }
    }

    public static void anExecutionExceptionHasTheLibrarysCause(Server server, Client client) throws Exception {
        server.kill();
        CompletableFuture<Hold> failed = client.lock("job").acquireAsync(Duration.ZERO);
        ExecutionException error = Expect.fails(ExecutionException.class, () -> failed.get(10, TimeUnit.SECONDS));
        Expect.that(error.getCause() instanceof UnreachableException cause && cause.getCause() != null, error.getCause());
    }
}
