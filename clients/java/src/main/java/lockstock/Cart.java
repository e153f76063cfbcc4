package lockstock;

import java.util.List;

/**
 * The outcome of one order over several sales.
 *
 * @param status of all
 * @param legs of each, in the order in which they were named
 */
public record Cart(Status status, List<Outcome> legs) {
    /**
     * Whether it is as asked in all sales, by this request or an earlier one.
     *
     * @return true for {@link Status#OK} and {@link Status#DUPLICATE}
     */
    public boolean isDone() {
        return status == Status.OK || status == Status.DUPLICATE;
    }
}
