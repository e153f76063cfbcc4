package lockstock;

/**
 * One sale of a cart.
 *
 * @param sale its key
 * @param units how many of it, from 1 on
 */
public record Leg(String sale, long units) {
    /**
     * So many units of a sale.
     *
     * @param sale its key
     * @param units how many of it, from 1 on
     */
    public Leg {
        Check.key("a sale", sale);
        Check.whole("the number of units", units, 1);
    }

    /**
     * One unit of a sale.
     *
     * @param sale its key
     */
    public Leg(String sale) {
        this(sale, 1);
    }
}
