package lockstock;

import java.time.Instant;

/** What a sale is created with, beside its total. It never changes; what describes more gives another one. */
public final class Terms {
    private static final Terms NONE = new Terms(0, null, null, false, null, false);

    private final long limit;
    private final Instant start, end;
    private final boolean rebuy, deadlines;
    private final String stream;

    private Terms(long limit, Instant start, Instant end, boolean rebuy, String stream, boolean deadlines) {
        this.limit = limit;
        this.start = start;
        this.end = end;
        this.rebuy = rebuy;
        this.stream = stream;
        this.deadlines = deadlines;
    }

    /**
     * Anybody may buy anything at any time.
     *
     * @return the terms
     */
    public static Terms none() {
        return NONE;
    }

    /**
     * The terms with a limit for each buyer.
     *
     * @param units from 1 on
     * @return the terms
     */
    public Terms limit(long units) {
        return new Terms(Check.whole("a limit", units, 1), start, end, rebuy, stream, deadlines);
    }

    /**
     * The terms with a time before which nothing is sold.
     *
     * @param at the time
     * @return the terms
     */
    public Terms start(Instant at) {
        Check.moment("the start of a sale", at);
        return new Terms(limit, at, end, rebuy, stream, deadlines);
    }

    /**
     * The terms with a time from which on nothing is sold.
     *
     * @param at the time
     * @return the terms
     */
    public Terms end(Instant at) {
        Check.moment("the end of a sale", at);
        return new Terms(limit, start, at, rebuy, stream, deadlines);
    }

    /**
     * The terms by which an id whose order lapsed or was cancelled may buy again.
     *
     * @return the terms
     */
    public Terms rebuy() {
        return new Terms(limit, start, end, true, stream, deadlines);
    }

    /**
     * The terms by which each change of an order is an entry of a stream.
     *
     * @param key of the stream
     * @return the terms
     */
    public Terms stream(String key) {
        return new Terms(limit, start, end, rebuy, Check.key("a stream", key), deadlines);
    }

    /**
     * The terms by which the stream has deadlines, too: all that is needed to rebuild the orders.
     *
     * @return the terms
     */
    public Terms deadlines() {
        if (stream == null) throw new IllegalArgumentException("deadlines are written to a stream: name it before");
        return new Terms(limit, start, end, rebuy, stream, true);
    }

    Words add(Words words) {
        if (limit > 0) words.add("LIMIT", limit);
        words.moment("START", start).moment("END", end);
        if (rebuy) words.add("REBUY");
        if (stream != null) words.add("STREAM", stream);
        if (deadlines) words.add("DEADLINES");
        return words;
    }
}
