package lockstock;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/** The changes of {@link Stock#alter}; all else stays. It never changes itself; what describes more gives another one. */
public final class Change {
    private final Map<String, Object> words;

    private Change(Map<String, Object> words) {
        this.words = words;
    }

    private Change with(String option, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(words);
        more.put(option, value);
        return new Change(more);
    }

    /**
     * Nothing yet.
     *
     * @return the change
     */
    public static Change none() {
        return new Change(Map.of());
    }

    /**
     * The change that also sets the limit for each buyer.
     *
     * @param units from 1 on
     * @return the change
     */
    public Change limit(long units) {
        return with("LIMIT", Check.whole("a limit", units, 1));
    }

    /**
     * The change that also lets each buyer have any number.
     *
     * @return the change
     */
    public Change noLimit() {
        return with("LIMIT", 0);
    }

    /**
     * The change that also sets the start of the window.
     *
     * @param at the time
     * @return the change
     */
    public Change start(Instant at) {
        return with("START", Check.moment("the start of a sale", at));
    }

    /**
     * The change that also has the sale started.
     *
     * @return the change
     */
    public Change noStart() {
        return with("START", 0);
    }

    /**
     * The change that also sets the end of the window.
     *
     * @param at the time
     * @return the change
     */
    public Change end(Instant at) {
        return with("END", Check.moment("the end of a sale", at));
    }

    /**
     * The change that also has the sale never end.
     *
     * @return the change
     */
    public Change noEnd() {
        return with("END", 0);
    }

    /**
     * The change that also says whether an id whose order lapsed or was cancelled may buy again.
     *
     * @param may whether
     * @return the change
     */
    public Change rebuy(boolean may) {
        return with("REBUY", may ? "yes" : "no");
    }

    Words add(Words command) {
        if (words.isEmpty()) throw new IllegalArgumentException("a change changes something");
        words.forEach((option, value) -> command.add(option, value));
        return command;
    }
}
