package lockstock;

import java.time.Duration;

/** What to take of a sale. It never changes; what describes more gives another one. */
public final class Order {
    private final long units;
    private final String buyer, ref;
    private final Duration hold;
    private final boolean waitlist;

    private Order(long units, String buyer, String ref, Duration hold, boolean waitlist) {
        this.units = units;
        this.buyer = buyer;
        this.ref = ref;
        this.hold = hold;
        this.waitlist = waitlist;
    }

    /**
     * An order of so many units, sold at once to the id.
     *
     * @param units from 1 on
     * @return the order
     */
    public static Order of(long units) {
        return new Order(Check.whole("the number of units", units, 1), null, null, null, false);
    }

    /**
     * An order of one unit, sold at once to the id.
     *
     * @return the order
     */
    public static Order one() {
        return of(1);
    }

    /**
     * The order for a buyer, whose limit counts, instead of the id.
     *
     * @param buyer from 1 to 512 bytes
     * @return the order
     */
    public Order buyer(String buyer) {
        return new Order(units, Check.name("a buyer", buyer), ref, hold, waitlist);
    }

    /**
     * The order reserved for that long, until it is confirmed, instead of sold at once.
     *
     * @param hold from a millisecond on
     * @return the order
     */
    public Order hold(Duration hold) {
        return new Order(units, buyer, ref, Check.span("a hold", hold), waitlist);
    }

    /**
     * The order with a reference that is stored with it.
     *
     * @param ref from 1 to 512 bytes
     * @return the order
     */
    public Order ref(String ref) {
        return new Order(units, buyer, Check.name("a reference", ref), hold, waitlist);
    }

    /**
     * The order which stands in line if too little is left.
     *
     * @return the order
     */
    public Order waitlist() {
        return new Order(units, buyer, ref, hold, true);
    }

    long units() {
        return units;
    }

    String buyer() {
        return buyer;
    }

    String ref() {
        return ref;
    }

    Duration hold() {
        return hold;
    }

    boolean isWaitlist() {
        return waitlist;
    }
}
