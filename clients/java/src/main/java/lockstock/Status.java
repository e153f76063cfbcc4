package lockstock;

import java.util.Locale;

/** A sale's answer. None is an error. */
public enum Status {
    /** Done by this request. */
    OK,
    /** Already so, by an earlier request of this id. */
    DUPLICATE,
    /** Nothing is left. */
    SOLDOUT,
    /** Fewer are left than asked for. */
    INSUFFICIENT,
    /** The buyer would pass the sale's limit. */
    LIMIT,
    /** The sale has not started. */
    NOTSTARTED,
    /** The sale has ended. */
    ENDED,
    /** The hold of this id has lapsed, and the sale does not sell to it again. */
    EXPIRED,
    /** The order of this id was cancelled, and the sale does not sell to it again. */
    CANCELLED,
    /** The order stands on the waitlist. */
    QUEUED,
    /** It could have been taken, but another sale of the cart refused. */
    SKIPPED,
    /** There is no such order. */
    NOORDER,
    /** There is no such sale. */
    NOSTOCK,
    /** A word of a later server. */
    OTHER;

    static Status of(String word) {
        try {
            return valueOf(word.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException later) {
            return OTHER;
        }
    }
}
