package lockstock;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;

/** Refuses arguments that mean nothing, before anything is sent. */
final class Check {
    /** The largest integer that the server takes. */
    static final long MOST = (1L << 53) - 1;
    /** Longer than anything lasts, and may be added to a time of the clock. */
    static final Duration CENTURY = Duration.ofDays(36_500);
    private static final int LONGEST = 512;

    private Check() {}

    static String key(String what, String key) {
        if (key == null) throw new NullPointerException(what + " has a key, not null");
        if (key.isEmpty()) throw new IllegalArgumentException(what + " has a key that is not empty");
        return key;
    }

    static String name(String what, String name) {
        if (name == null) throw new NullPointerException(what + " is text, not null");
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > LONGEST) throw new IllegalArgumentException(what + " has from 1 to 512 bytes, not " + bytes);
        return name;
    }

    static long whole(String what, long number, long least) {
        if (number < least || number > MOST) {
            throw new IllegalArgumentException(what + " is from " + (least < 0 ? "-(2^53 - 1)" : least) + " to 2^53 - 1, not " + number);
        }
        return number;
    }

    static Duration span(String what, Duration span) {
        if (span == null) throw new NullPointerException(what + " is a Duration, not null");
        if (span.compareTo(Duration.ofMillis(1)) < 0 || span.compareTo(CENTURY) > 0) {
            throw new IllegalArgumentException(what + " is from a millisecond to a hundred years, not " + span);
        }
        return span;
    }

    static Duration wait(Duration wait) {
        if (wait == null) throw new NullPointerException("a wait is a Duration, not null");
        if (wait.isNegative()) throw new IllegalArgumentException("a wait is from zero, not " + wait);
        return wait;
    }

    static long moment(String what, Instant at) {
        if (at == null) throw new NullPointerException(what + " is an Instant, not null");
        if (at.isBefore(Instant.EPOCH.plusMillis(1)) || at.isAfter(Instant.ofEpochMilli(MOST))) {
            throw new IllegalArgumentException(what + " is an Instant after 1970 that fits into 2^53 milliseconds, not " + at);
        }
        return at.toEpochMilli();
    }

    /** Whole milliseconds, at least one. */
    static long ms(long nanos) {
        return Math.max((nanos + 999_999) / 1_000_000, 1);
    }
}
