package lockstock;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.LongSupplier;

/**
 * A clock that goes on while the machine sleeps, as the server's does and {@link System#nanoTime} does not. It looks at the wall clock, and if that has
 * gone another way, at the time since the machine was started (Linux); elsewhere a wall clock that has leapt ahead is believed, for a hold that is
 * thought to be over too early does no harm.
 */
final class Clock {
    private static final long LEAP = 250_000_000;
    /** How finely the time since the start is known. */
    private static final long GRAIN = 20_000_000;
    private static final Clock CLOCK = new Clock(System::nanoTime, () -> System.currentTimeMillis() * 1_000_000, Clock::uptime);

    private final LongSupplier timer, wall, boot;
    private final long begun, lag;
    private long skew, slept;

    Clock(LongSupplier timer, LongSupplier wall, LongSupplier boot) {
        this.timer = timer;
        this.wall = wall;
        this.boot = boot;
        begun = timer.getAsLong();
        skew = wall.getAsLong() - begun;
        lag = boot.getAsLong() - begun;
    }

    /** Nanoseconds since the first look. */
    static long now() {
        return CLOCK.read();
    }

    synchronized long read() {
        long now = timer.getAsLong(), leapt = wall.getAsLong() - now - skew;
        if (Math.abs(leapt) > LEAP) {
            skew += leapt;
            long up = boot.getAsLong();
            long gone = up < 0 ? Math.max(leapt, 0) : up - now - lag - slept;
            if (gone > GRAIN) slept += gone;
        }
        return now - begun + slept;
    }

    /** The time since the machine was started, asleep or not; below 0 where it is not known. */
    private static long uptime() {
        try {
            String text = Files.readString(Path.of("/proc/uptime"));
            return (long) (Double.parseDouble(text.substring(0, text.indexOf(' '))) * 1e9);
        } catch (Exception unknown) {
            return -1;
        }
    }
}
