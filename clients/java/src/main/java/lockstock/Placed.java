package lockstock;

import java.time.Instant;
import java.util.Optional;

/**
 * An order that was placed.
 *
 * @param id its id
 * @param state what has become of it
 * @param units how many
 * @param buyer for whom
 * @param ref what was stored with it
 * @param deadline when what is held goes back
 * @param place its place on the waitlist (1: next; 0: it does not wait); only {@link Stock#look} tells it
 */
public record Placed(String id, State state, long units, String buyer, String ref, Optional<Instant> deadline, long place) {}
