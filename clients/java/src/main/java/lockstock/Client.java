package lockstock;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * Where the servers are. Make one for the whole process, by {@code OverJedis} or {@code OverLettuce}; any number of threads may share it.
 *
 * <p>No call hangs, even if the server is dead, frozen or failing over: a wait ends at most two seconds after its time, a release within
 * five seconds or the lease, any other request within two seconds. A thread that is interrupted ends its wait or its release at once, and
 * what must be told the server goes on in the background; any other request goes on for its two seconds, and the thread stays interrupted.
 */
public final class Client implements AutoCloseable {
    final Servers servers;
    final Claims claims = new Claims();

    /**
     * A client over a client library. It begins to connect in the background.
     *
     * @param library what is needed of it
     */
    public Client(Library library) {
        servers = new Servers(Objects.requireNonNull(library, "a client is over a library, not null"));
        servers.warm();
    }

    /**
     * Describes the lock of this key. Nothing is asked for before {@link Lock#acquire(java.time.Duration)}.
     *
     * @param key what is locked
     * @param more further keys: all of them are locked, or none. In a cluster they are of one slot
     * @return the description
     */
    public Lock lock(String key, String... more) {
        List<String> keys = new ArrayList<>();
        keys.add(Check.key("a lock", key));
        for (String one : more) keys.add(Check.key("a lock", one));
        return new Lock(this, List.copyOf(keys));
    }

    /**
     * The sale of this key. Nothing is sent.
     *
     * @param sale its key
     * @return the sale
     */
    public Stock stock(String sale) {
        return new Stock(this, Check.key("a sale", sale));
    }

    /**
     * Takes from several sales, all of it or nothing. In a cluster they are of one slot. How many units is said by the legs, and there is no waitlist.
     *
     * @param id the id of the order
     * @param legs the sales, and how many units of each
     * @param order for whom and for how long; see {@link Order}
     * @return the outcome
     * @throws LockstockException if the server refuses or cannot be reached
     */
    public Cart orderAll(String id, List<Leg> legs, Order order) {
        if (order.isWaitlist() || order.units() != 1) {
            throw new IllegalArgumentException("a cart's legs say how many units, and it has no waitlist");
        }
        Words words = new Words("MDECR_ONCE", id, names(legs.stream().map(Leg::sale).toList()));
        for (Leg leg : legs) words.add(leg.sale(), leg.units());
        return Answers.cart(words.order(order).ask(this, true));
    }

    /**
     * Confirms an order in all these sales, or in none.
     *
     * @param id of the order
     * @param sales their keys
     * @return the outcome
     * @throws LockstockException if the server refuses or cannot be reached
     */
    public Cart confirmAll(String id, List<String> sales) {
        return legs("MCONFIRM", id, sales);
    }

    /**
     * Cancels an order in each of these sales.
     *
     * @param id of the order
     * @param sales their keys
     * @return the outcome
     * @throws LockstockException if the server refuses or cannot be reached
     */
    public Cart cancelAll(String id, List<String> sales) {
        return legs("MCANCEL", id, sales);
    }

    private Cart legs(String verb, String id, List<String> sales) {
        Words words = new Words(verb, id, names(sales));
        return Answers.cart(words.add(sales.toArray()).ask(this, true));
    }

    private static List<String> names(List<String> sales) {
        if (sales.isEmpty()) throw new IllegalArgumentException("a cart has a sale, at least");
        for (String sale : sales) Check.key("a sale", sale);
        return sales;
    }

    /** Closes the connections, and ends the waits. Holds that are not released end with their leases, those of a session at once. */
    @Override
    public void close() {
        servers.close();
    }

    /** What was answered. */
    Object get(String what, CompletableFuture<Object> asked) {
        return Answers.plain(wait(what, asked));
    }

    /** Waits for work that ends soon by itself. A thread that is interrupted meanwhile stays so. */
    <T> T wait(String what, CompletableFuture<T> asked) {
        boolean interrupted = false;
        // Each has an end of its own before that.
        long end = Clock.now() + 3 * Servers.PATIENCE;
        try {
            while (true) {
                try {
                    return Servers.await(asked, end);
                } catch (InterruptedException goesOn) {
                    interrupted = true;
                }
            }
        } catch (RuntimeException error) {
            throw LockstockException.of(what, error);
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }
}
