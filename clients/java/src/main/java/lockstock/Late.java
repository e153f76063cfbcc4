package lockstock;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The requests of a token that set its lease and may arrive yet, after those that were sent later: then the lease is theirs. */
final class Late {
    /** How late a request may arrive, at most: a network brings what it was given, though its sender has no connection to it any more. */
    static final long LATE = TimeUnit.MINUTES.toNanos(1);

    /** By the lease that they set. */
    private final Map<Long, Alike> all = new HashMap<>();

    /** Requests for one lease: how many are under way, and when those that were not answered have arrived at the latest. */
    private static final class Alike {
        private int underway;
        private long until = Long.MIN_VALUE / 2;
    }

    /** Notes one that is sent now. */
    synchronized void begin(long lease) {
        // Those that are over count for what was sent before.
        all.values().removeIf(some -> some.underway == 0 && some.until + LATE < Clock.now());
        all.computeIfAbsent(lease, none -> new Alike()).underway++;
    }

    /** It may still arrive, unless it was answered or was not sent. */
    synchronized void end(long lease, Throwable error) {
        all.get(lease).underway--;
        if (error != null && !Servers.isNothingDone(Servers.cause(error))) doubt(lease);
    }

    /** Notes one that was not answered. */
    synchronized void doubt(long lease) {
        all.computeIfAbsent(lease, none -> new Alike()).until = Clock.now() + LATE;
    }

    /** How much of a lease counts that was asked for at that time. */
    synchronized long counts(long lease, long sent) {
        for (Map.Entry<Long, Alike> one : all.entrySet()) {
            Alike some = one.getValue();
            if (some.underway > 0 || some.until >= sent) lease = Math.min(lease, one.getKey());
        }
        return lease;
    }

    /** Whether some may arrive. */
    boolean isSome() {
        return counts(Long.MAX_VALUE, Clock.now()) < Long.MAX_VALUE;
    }

    /** Adds those of an earlier request of the token. */
    synchronized void join(Late earlier) {
        synchronized (earlier) {
            earlier.all.forEach((lease, some) -> {
                Alike own = all.computeIfAbsent(lease, none -> new Alike());
                own.until = Math.max(own.until, some.underway > 0 ? Clock.now() + LATE : some.until);
            });
        }
    }
}
