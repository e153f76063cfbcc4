import static java.time.Duration.ofMillis;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import lockstock.AlreadyHeldException;
import lockstock.Client;
import lockstock.DeadlockException;
import lockstock.Hold;
import lockstock.Lock;
import lockstock.LockstockException;
import lockstock.LostException;
import lockstock.ModuleMissingException;
import lockstock.NotAcquiredException;
import lockstock.NotReleasedException;
import lockstock.NotReplicatedException;
import lockstock.RefusedException;

/** What locks do while all is well. */
final class LockTests {
    private LockTests() {}

    public static void aHoldIsExtendedWhileItLives(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").lease(ofSeconds(1));
        Hold hold = lock.acquire(ofSeconds(1));
        Thread.sleep(2_000);
        Expect.that(hold.isHeld() && hold.isOwned() && lock.isLocked(), hold);
        Expect.that(!hold.lost().isDone(), "it is not lost");
        CompletableFuture<Hold> other = lock.acquireAsync(Duration.ZERO);
        NotAcquiredException taken = Expect.fails(NotAcquiredException.class, () -> Expect.value(other));
        Expect.that(taken.getMessage().contains("job"), taken);
        hold.release();
        hold.release();
        hold.close();
        Expect.that(!hold.isHeld() && hold.left().isZero() && !lock.isLocked() && !hold.lost().isDone(), hold);
        try (Hold again = lock.acquire(Duration.ZERO)) {
            Expect.that(again.fence() > hold.fence() && !again.token().equals(hold.token()), again);
        }
        Expect.that(!server.exists("job"), "nothing is left");
    }

    public static void threadsThatShareOneLockAreInsideOneByOne(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").lease(ofSeconds(3));
        AtomicInteger inside = new AtomicInteger(), done = new AtomicInteger();
        crowd(8, () -> {
            for (int time = 0; time < 10; time++) {
                try (Hold hold = lock.acquire(ofMinutes(1))) {
                    Expect.same(inside.incrementAndGet(), 1);
                    Expect.that(hold.isHeld(), hold);
                    Thread.sleep(1);
                    inside.decrementAndGet();
                    done.incrementAndGet();
                }
            }
        });
        Expect.same(done.get(), 80);
        Expect.same(server.locks(), 0L);
    }

    public static void aHundredThreadsAreInsideOneByOne(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").lease(ofSeconds(3));
        AtomicInteger inside = new AtomicInteger();
        crowd(100, () -> {
            try (Hold hold = lock.acquire(ofMinutes(1))) {
                Expect.same(inside.incrementAndGet(), 1);
                inside.decrementAndGet();
            }
        });
        Expect.same(server.locks(), 0L);
        Expect.same(server.waiters(), 0L);
    }

    /** So many threads do the same; the first error is thrown. */
    static void crowd(int threads, Expect.Step step) throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(threads);
        List<Future<?>> all = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            all.add(workers.submit(() -> {
                step.run();
                return null;
            }));
        }
        try {
            for (Future<?> one : all) Expect.value(one);
        } finally {
            workers.shutdownNow();
        }
    }

    public static void aThreadThatHasALockIsToldSoAtOnce(Server server, Client client) throws Exception {
        Lock lock = client.lock("job");
        try (Hold hold = lock.acquire()) {
            for (Lock same : List.of(lock, client.lock("job").lease(ofSeconds(5)), client.lock("other", "job"), client.lock("job").shared())) {
                Expect.takes(0, 500, () -> {
                    AlreadyHeldException error = Expect.fails(AlreadyHeldException.class, () -> same.acquire(ofMinutes(1)));
                    Expect.that(error.getMessage().contains("reentrant"), error);
                });
            }
            Expect.fails(AlreadyHeldException.class, lock::tryAcquire);
            // Another thread only waits.
            CompletableFuture<Boolean> other = CompletableFuture.supplyAsync(() -> Expect.quietly(() -> lock.tryAcquire(ofMillis(100))).isPresent());
            Expect.same(Expect.value(other), false);
        }
        try (Hold again = lock.acquire(Duration.ZERO)) {
            Expect.that(again.isHeld(), again);
        }
        // Permits of a pool are not one hold, and a hold of acquireAsync belongs to no thread.
        Lock permit = client.lock("pool").limit(2);
        try (Hold one = permit.acquire(); Hold two = permit.acquire()) {
            Expect.that(one.isHeld() && two.isHeld(), "both");
            // But a thread that has them all would wait for itself.
            Expect.same(permit.tryAcquire().isPresent(), false);
            Expect.fails(AlreadyHeldException.class, () -> permit.acquire(ofMinutes(1)));
            client.lock("pool").limit(3).acquire(Duration.ZERO).close();
        }
        Hold free = Expect.value(lock.acquireAsync(ofSeconds(1)));
        Expect.same(lock.tryAcquire().isPresent(), false);
        // One that is lost does not count.
        server.ask("DEL", "job");
        Server.until("it is lost", () -> {
            try {
                free.extend();
                return false;
            } catch (LostException lost) {
                return true;
            }
        });
        lock.acquire(Duration.ZERO).close();
    }

    public static void aTokenIsOneHolder(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").token("me");
        Hold first = lock.acquire(ofSeconds(1));
        Expect.same(first.token(), "me");
        Expect.fails(AlreadyHeldException.class, () -> Expect.value(lock.acquireAsync(ofSeconds(5))));
        server.ask("DEL", "job");
        Expect.fails(LostException.class, first::extend);
        Hold second = lock.acquire(ofSeconds(1));
        // A late release does not end a later hold.
        Expect.fails(LostException.class, first::release);
        Expect.that(second.isOwned(), second);
        second.release();
        Expect.fails(LostException.class, first::release);
        first.close();
    }

    public static void modesAndSeveralKeys(Server server, Client client) throws Exception {
        Lock page = client.lock("page");
        Hold reader = page.shared().acquire(Duration.ZERO);
        Hold other = Expect.value(page.shared().acquireAsync(Duration.ZERO));
        Expect.fails(NotAcquiredException.class, () -> Expect.value(page.acquireAsync(Duration.ZERO)));
        reader.release();
        other.release();
        Hold one = client.lock("pool").limit(1).acquire(Duration.ZERO);
        Expect.same(client.lock("pool").limit(1).tryAcquire().isPresent(), false);
        client.lock("pool").limit(2).acquire(Duration.ZERO).release();
        one.release();
        Lock both = client.lock("a", "b", "a").lease(ofSeconds(1));
        Hold all = both.acquire(Duration.ZERO);
        Expect.fails(NotAcquiredException.class, () -> Expect.value(client.lock("b").acquireAsync(Duration.ZERO)));
        Thread.sleep(2_000);
        Expect.that(all.isOwned(), all);
        Expect.same(all.keys(), List.of("a", "b", "a"));
        all.release();
        all = both.acquire(ofSeconds(1));
        server.ask("DEL", "a");
        Expect.that(!all.isOwned(), all);
        Expect.fails(LostException.class, all::release);
        Expect.that(!server.exists("b"), "the others are free");
    }

    public static void whatIsAskedForCountsAfterAWaitToo(Server server, Client client) throws Exception {
        for (var mode : Map.of("mode, limit, limit, 2", client.lock("job").limit(2), "mode, shared", client.lock("job").shared()).entrySet()) {
            server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
            CompletableFuture<Hold> waits = mode.getValue().token("me").lease(ofSeconds(45)).session().acquireAsync(ofSeconds(20));
            Server.until("it waits", () -> server.waiters() == 1);
            server.ask("LOCK.RELEASE", "job", "other");
            Hold hold = Expect.value(waits);
            String info = server.ask("LOCK.INFO", "job").toString();
            for (String has : List.of(mode.getKey(), "token, me", "session, yes")) Expect.that(info.contains(has), info);
            Matcher lease = Pattern.compile("lease-ms, (\\d+)").matcher(info);
            Expect.that(lease.find() && Long.parseLong(lease.group(1)) > 30_000 && Long.parseLong(lease.group(1)) <= 45_000, info);
            hold.release();
        }
    }

    public static void aGrantCountsOnlyWithItsReplicas(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").replicas(1);
        for (int time = 0; time < 2; time++) {
            Expect.fails(NotReplicatedException.class, () -> lock.tryAcquire(ofSeconds(1)));
            Expect.that(!server.exists("job"), "it is released");
        }
        Server replica = server.replica();
        try (Hold hold = lock.acquire(ofSeconds(5))) {
            Expect.that(replica.exists("job"), "the replica has it");
        }
    }

    public static void aGuardedCommandRunsOnlyWhileTheHoldLasts(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").acquire();
        Expect.same(hold.guard("SET", "x", 1), "OK");
        Expect.same(hold.guard("INCRBY", "x".getBytes(), 2L), 3L);
        Expect.same(hold.guard("GET", "none"), null);
        Expect.same(hold.guard("RPUSH", "list", "a", "b"), 2L);
        Expect.same(hold.guard("LRANGE", "list", 0, -1), List.of("a", "b"));
        Expect.same(hold.guard("LRANGE", "none", 0, -1), List.of());
        Expect.fails(RefusedException.class, () -> hold.guard("NONSENSE"));
        server.ask("DEL", "job");
        Expect.fails(LostException.class, () -> hold.guard("SET", "x", 4));
        Expect.same(server.ask("GET", "x"), "3");
        Expect.that(!hold.isHeld(), hold);
        Expect.value(hold.lost());
    }

    public static void aLeaseMayBeChanged(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").lease(ofSeconds(1)).unattended().acquire();
        hold.extend(ofMinutes(1));
        Expect.that(hold.left().compareTo(ofSeconds(50)) > 0, hold.left());
        hold.extend(ofSeconds(1));
        Expect.takes(500, 2_000, () -> hold.lost().get(10, TimeUnit.SECONDS));
        Expect.fails(LostException.class, hold::extend);
        Hold kept = client.lock("other").lease(ofSeconds(1)).acquire();
        kept.extend(ofSeconds(6));
        Thread.sleep(4_000);
        Expect.that(kept.left().compareTo(ofSeconds(3)) > 0, kept.left());
        kept.release();
    }

    public static void aFutureThatIsCancelledWithdrawsItsRequest(Server server, Client client) throws Exception {
        Lock lock = client.lock("job");
        Hold hold = lock.acquire();
        List<CompletableFuture<Hold>> futures = new ArrayList<>();
        for (int number = 0; number < 20; number++) futures.add(lock.acquireAsync(ofMinutes(1)));
        Server.until("they wait", () -> server.waiters() == 20);
        CompletableFuture<Hold> late = futures.get(0);
        for (CompletableFuture<Hold> one : futures.subList(1, 20)) one.cancel(true);
        Server.until("one waits", () -> server.waiters() == 1);
        hold.release();
        Hold next = Expect.value(late);
        next.releaseAsync().get(5, TimeUnit.SECONDS);
        Expect.fails(LostException.class, () -> {
            Hold gone = lock.acquire();
            server.ask("DEL", "job");
            try {
                gone.releaseAsync().get(5, TimeUnit.SECONDS);
            } catch (ExecutionException failure) {
                throw (LockstockException) failure.getCause();
            }
        });
        Expect.same(server.locks(), 0L);
    }

    public static void errorsOfTheServerHaveNames(Server server, Client client) throws Exception {
        server.ask("SET", "text", "x");
        RefusedException wrong = Expect.fails(RefusedException.class, () -> client.lock("text").acquire());
        Expect.that(wrong.answer().startsWith("WRONGTYPE"), wrong);
        Hold one = client.lock("one").token("ann").acquire();
        Hold two = client.lock("two").token("bob").acquire();
        CompletableFuture<Hold> ann = client.lock("two").token("ann").acquireAsync(ofSeconds(20));
        Server.until("ann waits", () -> server.waiters() == 1);
        CompletableFuture<Hold> bob = client.lock("one").token("bob").acquireAsync(ofSeconds(1));
        Expect.fails(DeadlockException.class, () -> Expect.value(bob));
        two.release();
        Expect.value(ann).release();
        one.release();
    }

    public static void aServerWithoutTheModuleIsToldFrom() throws Exception {
        try (Server plain = Server.plain()) {
            for (Run.Connect connect : List.of(Run.JEDIS, Run.LETTUCE)) {
                try (Run.Connected connected = connect.to(plain.port)) {
                    ModuleMissingException error = Expect.fails(ModuleMissingException.class, () -> connected.client().lock("job").acquire());
                    Expect.that(error.getMessage().contains("loadmodule"), error);
                    Expect.fails(ModuleMissingException.class, () -> connected.client().stock("mug").info());
                }
            }
        }
    }

    public static void aClosedClientSaysSo(Server server, Client client) throws Exception {
        Lock lock = client.lock("job");
        Hold hold = lock.acquire();
        CompletableFuture<Hold> waits = lock.acquireAsync(ofMinutes(1));
        Server.until("one waits", () -> server.waiters() == 1);
        client.close();
        Expect.that(Expect.fails(ExecutionException.class, () -> waits.get(5, TimeUnit.SECONDS)).getCause() instanceof IllegalStateException, waits);
        Expect.takes(0, 1_000, () -> {
            try {
                client.lock("other").acquire();
                throw new AssertionError("granted");
            } catch (IllegalStateException closed) {
                Expect.that(closed.getMessage().contains("closed"), closed);
            }
        });
        Expect.that(hold.isHeld(), "its lease goes on");
        Expect.fails(NotReleasedException.class, hold::release);
    }
}
