package lockstock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * One sale: what may be asked of it. Every request but {@link #create(long)} and {@link #adjust(long)} may be repeated, and is when a connection
 * breaks. Each ends within two seconds. Any number of threads may share it.
 *
 * <p>No {@link Status} is an error. Each method throws a {@link LockstockException} if the server refuses or cannot be reached, and an
 * {@link IllegalArgumentException} for an argument that means nothing.
 */
public final class Stock {
    private final Client client;
    private final String sale;

    Stock(Client client, String sale) {
        this.client = client;
        this.sale = sale;
    }

    /**
     * Makes the sale, with so many units, open to all at any time.
     *
     * @param total from 0 on
     * @throws SaleExistsException if the key is in use
     */
    public void create(long total) {
        create(total, Terms.none());
    }

    /**
     * Makes the sale, with so many units. It is sent once: after a lost answer, a second one would be told that the sale exists.
     *
     * @param total from 0 on
     * @param terms who may buy how much, and when
     * @throws SaleExistsException if the key is in use
     */
    public void create(long total, Terms terms) {
        terms.add(words("CREATE").add(Check.whole("a total", total, 0))).ask(client, false);
    }

    /**
     * Changes the terms of the sale.
     *
     * @param change what is to be changed
     * @throws NoSaleException if there is no such sale
     */
    public void alter(Change change) {
        change.add(words("ALTER")).ask(client, true);
    }

    /**
     * Adds units, or withdraws unsold ones. It is sent once: without an id it must not be repeated.
     *
     * @param delta how many
     * @return how many remain
     * @throws NoSaleException if there is no such sale
     */
    public long adjust(long delta) {
        return Answers.number(words("ADJUST").add(Check.whole("a delta", delta, -Check.MOST)).ask(client, false));
    }

    /**
     * Adds units, or withdraws unsold ones, once: the sale remembers the id.
     *
     * @param delta how many
     * @param id of this adjustment
     * @return how many remain
     * @throws NoSaleException if there is no such sale
     */
    public long adjust(long delta, String id) {
        return Answers.number(words("ADJUST").add(Check.whole("a delta", delta, -Check.MOST), "ID").id(id).ask(client, true));
    }

    /**
     * Takes units for an id, once: asked again it answers {@link Status#DUPLICATE}.
     *
     * @param id the id of the order
     * @param order how many, for whom and for how long
     * @return the outcome
     */
    public Outcome order(String id, Order order) {
        Words words = words("DECR_ONCE").id(id);
        if (order.units() != 1) words.add("QTY", order.units());
        words.order(order);
        if (order.isWaitlist()) words.add("WAITLIST");
        return Answers.outcome(words.ask(client, true));
    }

    /**
     * Makes a sale of what is held: the payment is there.
     *
     * @param id of the order
     * @return the outcome
     */
    public Outcome confirm(String id) {
        return Answers.outcome(words("CONFIRM").id(id).ask(client, true));
    }

    /**
     * Makes a sale of so many units of what is held; the others go back.
     *
     * @param id of the order
     * @param keep from 1 on
     * @return the outcome
     */
    public Outcome confirm(String id, long keep) {
        return Answers.outcome(words("CONFIRM").id(id).add("KEEP", Check.whole("what is kept", keep, 1)).ask(client, true));
    }

    /**
     * Gives units back, once.
     *
     * @param id of the order
     * @return the outcome
     */
    public Outcome cancel(String id) {
        return Answers.outcome(words("CANCEL").id(id).ask(client, true));
    }

    /**
     * Gives all units back but so many.
     *
     * @param id of the order
     * @param keep from 1 on
     * @return the outcome
     */
    public Outcome cancel(String id, long keep) {
        return Answers.outcome(words("CANCEL").id(id).add("KEEP", Check.whole("what is kept", keep, 1)).ask(client, true));
    }

    /**
     * Moves the deadline of what is held.
     *
     * @param id of the order
     * @param hold how long from now
     * @return the outcome
     */
    public Outcome extend(String id, Duration hold) {
        return Answers.outcome(words("EXTEND").id(id).span("PX", Check.span("a hold", hold)).ask(client, true));
    }

    /**
     * The known state of the sale.
     *
     * @return nothing if there is no such sale
     */
    public Optional<Sale> info() {
        return Optional.ofNullable(words("INFO").ask(client, true)).map(Answers::sale);
    }

    /**
     * The known state of an order.
     *
     * @param id of the order
     * @return nothing if there is no such order
     */
    public Optional<Placed> look(String id) {
        return Optional.ofNullable(words("ORDER").id(id).ask(client, true)).map(reply -> Answers.placed(id, reply));
    }

    /**
     * The units that a buyer has or waits for.
     *
     * @param buyer its name
     * @return nothing if there is no such sale
     */
    public Optional<Buyer> buyer(String buyer) {
        Object reply = words("BUYER").add(Check.name("a buyer", buyer)).ask(client, true);
        return Optional.ofNullable(reply).map(pair -> Answers.row(pair, 2)).map(row -> new Buyer(Answers.number(row.get(0)), Answers.number(row.get(1))));
    }

    /**
     * All orders of the sale. They are asked for in pages, as by {@code SCAN}: one that changes meanwhile may come twice.
     *
     * @return the orders
     */
    public Stream<Placed> orders() {
        return stream(null);
    }

    /**
     * All orders of the sale in this state, as {@link #orders()} has them.
     *
     * @param state what has become of them
     * @return the orders
     */
    public Stream<Placed> orders(State state) {
        if (Objects.requireNonNull(state, "a state is one of State, not null") == State.OTHER) {
            throw new IllegalArgumentException("a state is held, sold, cancelled, expired or waiting");
        }
        return stream(state);
    }

    private Stream<Placed> stream(State state) {
        int kind = Spliterator.ORDERED | Spliterator.NONNULL;
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(new Pages(state), kind), false);
    }

    private Words words(String verb) {
        return new Words(verb, sale);
    }

    /** Asks for the next page when it is needed. */
    private final class Pages implements Iterator<Placed> {
        private final State state;
        private final Queue<Placed> page = new ArrayDeque<>();
        private String cursor = "0";

        Pages(State state) {
            this.state = state;
        }

        @Override
        public boolean hasNext() {
            while (page.isEmpty() && cursor != null) {
                Words words = words("ORDERS").add(cursor, "COUNT", 500);
                if (state != null) words.add("STATE", state.word());
                Object reply = words.ask(client, true);
                if (reply == null) {
                    cursor = null;
                    break;
                }
                List<?> row = Answers.row(reply, 2);
                cursor = String.valueOf(row.get(0));
                if (cursor.equals("0")) cursor = null;
                for (Object order : Answers.row(row.get(1), 0)) page.add(Answers.placed(order));
            }
            return !page.isEmpty();
        }

        @Override
        public Placed next() {
            if (!hasNext()) throw new NoSuchElementException();
            return page.remove();
        }
    }
}
