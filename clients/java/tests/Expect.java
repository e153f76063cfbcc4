import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** What tests expect. */
final class Expect {
    interface Step {
        void run() throws Exception;
    }

    private Expect() {}

    static void that(boolean so, Object what) {
        if (!so) throw new AssertionError(what);
    }

    static void same(Object got, Object expected) {
        if (!Objects.equals(got, expected)) throw new AssertionError(got + ", not " + expected);
    }

    /** Expects an error of just this kind. */
    static <E extends Throwable> E fails(Class<E> kind, Step step) {
        try {
            step.run();
        } catch (Throwable error) {
            if (error.getClass() == kind) return kind.cast(error);
            throw new AssertionError(error + ", not " + kind, error);
        }
        throw new AssertionError("no " + kind);
    }

    /** Expects it to take from least to most. */
    static void takes(long leastMs, long mostMs, Step step) throws Exception {
        long begun = System.nanoTime();
        step.run();
        long took = Duration.ofNanos(System.nanoTime() - begun).toMillis();
        that(took >= leastMs && took <= mostMs, "it took " + took + " ms, not " + leastMs + " to " + mostMs);
    }

    /** The value of a future that comes in time. */
    static <T> T value(Future<T> future) throws Exception {
        try {
            return future.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof Exception error) throw error;
            throw failure;
        }
    }

    static <T> T quietly(Callable<T> step) {
        try {
            return step.call();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }
}
