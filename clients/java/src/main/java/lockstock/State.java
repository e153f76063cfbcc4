package lockstock;

import java.util.Locale;

/** What has become of an order. */
public enum State {
    /** Reserved until its deadline. */
    HELD,
    /** Paid. */
    SOLD,
    /** Given back. */
    CANCELLED,
    /** Given back by its deadline. */
    EXPIRED,
    /** On the waitlist. */
    WAITING,
    /** A word of a later server. */
    OTHER;

    static State of(String word) {
        try {
            return valueOf(word.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException later) {
            return OTHER;
        }
    }

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
