import static java.time.Duration.ofMillis;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import lockstock.Client;
import lockstock.Hold;
import lockstock.Lock;
import lockstock.Order;
import lockstock.Outcome;
import lockstock.SaleExistsException;
import lockstock.Stock;

/** How to take locks and orders: a story that prints what it does. */
final class Story {
    private Story() {}

    static void tell(Client client) throws Exception {
        Lock lock = client.lock("job:42").lease(ofSeconds(10));
        Hold held = lock.acquire(ofSeconds(20));
        System.out.printf("held: %b, with a fence: %b%n", held.isHeld(), held.fence() > 0);
        // On another thread: this one has the lock.
        boolean brief = CompletableFuture.supplyAsync(() -> granted(lock)).get();
        System.out.printf("granted to who waits 200 ms: %b%n", brief);
        // A caller that stops waiting before that leaves the line.
        CompletableFuture<Hold> impatient = lock.acquireAsync(ofMinutes(1));
        Thread.sleep(200);
        impatient.cancel(true);

        // Three more stand in line and are served in order, each by the release of the one before it.
        var served = new LinkedBlockingQueue<Long>();
        Thread[] workers = new Thread[3];
        for (int number = 0; number < 3; number++) {
            workers[number] = new Thread(() -> {
                try (Hold hold = lock.acquire(ofSeconds(20))) {
                    served.add(hold.fence());
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            });
            workers[number].start();
            Thread.sleep(200); // Only so that they come one after another.
        }
        held.release();
        System.out.printf("released: %b%n", !held.isHeld());
        long last = 0;
        for (int number = 1; number <= 3; number++) {
            long fence = served.poll(20, TimeUnit.SECONDS);
            System.out.printf("worker %d, with a larger fence: %b%n", number, fence > last);
            last = fence;
        }
        for (Thread worker : workers) worker.join();

        Stock mug = client.stock("mug");
        try {
            mug.create(1);
        } catch (SaleExistsException before) {
            // It is there from an earlier run.
        }
        Order order = Order.one().hold(ofMinutes(10));
        print("order", mug.order("ann", order));
        print("again", mug.order("ann", order));
        print("other", mug.order("bob", order));
        print("paid", mug.confirm("ann"));
        print("again", mug.confirm("ann"));
    }

    private static boolean granted(Lock lock) {
        try {
            return lock.tryAcquire(ofMillis(200)).isPresent();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static void print(String what, Outcome outcome) {
        System.out.printf("%s: %s, has %d, left %d%n", what, outcome.status(), outcome.units(), outcome.remaining());
    }
}
