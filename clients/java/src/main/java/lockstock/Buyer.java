package lockstock;

/**
 * The units of a buyer.
 *
 * @param units how many the buyer has or waits for
 * @param limit how many the sale lets a buyer have; 0: any number
 */
public record Buyer(long units, long limit) {}
