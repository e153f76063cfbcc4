package lockstock;

import java.time.Instant;
import java.util.Optional;

/**
 * The outcome of a request for an order.
 *
 * @param status what was decided
 * @param units how many units the id has now
 * @param remaining how many may be sold now
 * @param deadline when what is held goes back; with {@link Status#NOTSTARTED}, when the sale starts
 * @param ref what was stored with the order
 */
public record Outcome(Status status, long units, long remaining, Optional<Instant> deadline, String ref) {
    /**
     * Whether it is as asked, by this request or an earlier one.
     *
     * @return true for {@link Status#OK} and {@link Status#DUPLICATE}
     */
    public boolean isDone() {
        return status == Status.OK || status == Status.DUPLICATE;
    }
}
