import static java.time.Duration.ofMillis;
import static java.time.Duration.ofSeconds;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

import lockstock.Client;
import lockstock.Hold;
import lockstock.Lock;
import lockstock.LostException;
import lockstock.NotAcquiredException;
import lockstock.UnreachableException;

/** Whatever happens to the network and the server, no two are inside, fences grow, everybody comes home in time, and nothing is left. */
final class StormTests {
    private StormTests() {}

    public static void aStormLeavesNothing(Server server, Client client) throws Exception {
        AtomicReference<Hold> inside = new AtomicReference<>();
        AtomicInteger granted = new AtomicInteger();
        AtomicLong last = new AtomicLong();
        ConcurrentLinkedQueue<Object> wrong = new ConcurrentLinkedQueue<>();
        Lock lock = client.lock("job").lease(ofSeconds(2));
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            Thread thread = new Thread(() -> {
                while (System.nanoTime() - end < 0) {
                    boolean session = ThreadLocalRandom.current().nextInt(4) == 0;
                    Lock one = session ? lock.session() : lock;
                    boolean asynchronous = ThreadLocalRandom.current().nextInt(4) == 0;
                    long begun = System.nanoTime();
                    try {
                        Hold hold;
                        if (asynchronous) {
                            CompletableFuture<Hold> asked = one.acquireAsync(ofSeconds(1));
                            try {
                                hold = asked.get(ThreadLocalRandom.current().nextInt(1_500), TimeUnit.MILLISECONDS);
                            } catch (java.util.concurrent.TimeoutException late) {
                                // It may have been granted since.
                                if (!asked.cancel(true)) asked.thenAccept(Hold::releaseAsync);
                                continue;
                            } catch (java.util.concurrent.ExecutionException failed) {
                                throw failed.getCause();
                            }
                        } else {
                            hold = one.acquire(ofSeconds(1));
                        }
                        granted.incrementAndGet();
                        if (hold.isHeld()) {
                            // A session ends with its connection, at once, and hears of it later.
                            Hold other = session ? inside.get() : inside.getAndSet(hold);
                            if (other != null && other.isHeld() && hold.isHeld()) wrong.add("two are inside");
                            if (hold.isHeld() && hold.fence() <= last.getAndSet(hold.fence()) && hold.isHeld()) wrong.add("a smaller fence");
                            Thread.sleep(1);
                            inside.compareAndSet(hold, null);
                        }
                        took(begun, 4_000 + 100, "a wait", wrong);
                        begun = System.nanoTime();
                        try {
                            hold.release();
                        } finally {
                            took(begun, 6_000, "a release", wrong);
                        }
                    } catch (NotAcquiredException | UnreachableException | LostException expected) {
                        took(begun, 6_000, "a wait", wrong);
                    } catch (Throwable error) {
                        wrong.add(error);
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        Random random = new Random();
        while (System.nanoTime() - end < 0) {
            Thread.sleep(random.nextInt(300));
            if (random.nextInt(3) == 0) {
                AutoCloseable thaw = server.freeze();
                Thread.sleep(random.nextInt(800));
                thaw.close();
            } else {
                server.cut();
            }
        }
        for (Thread thread : threads) thread.join(20_000);
        for (Thread thread : threads) if (thread.isAlive()) wrong.add("a thread does not come home: " + List.of(thread.getStackTrace()));
        Expect.that(wrong.isEmpty(), wrong);
        Expect.that(granted.get() > 10, granted);
        Server.until("nothing is left", () -> server.locks() == 0 && server.waiters() == 0);
        try (Hold hold = lock.acquire(ofMillis(500))) {
            Expect.that(hold.fence() > last.get(), hold);
        }
    }

    private static void took(long begun, long mostMs, String what, ConcurrentLinkedQueue<Object> wrong) {
        long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
        if (took > mostMs) wrong.add(what + " took " + took + " ms");
    }
}
