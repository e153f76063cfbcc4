package lockstock;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** The threads of this package. None keeps the process alive. */
final class Background {
    /** The one thread that extends the holds of the process and sees to times. Nothing blocks on it. */
    static final ScheduledThreadPoolExecutor KEEPER = new ScheduledThreadPoolExecutor(1, daemons("lockstock-keeper"));
    /** For what blocks, and for what users have asked to be told. */
    static final ExecutorService POOL =
        new ThreadPoolExecutor(0, Integer.MAX_VALUE, 5, TimeUnit.SECONDS, new SynchronousQueue<>(), daemons("lockstock"));

    static {
        KEEPER.setRemoveOnCancelPolicy(true);
    }

    private Background() {}

    static ThreadFactory daemons(String name) {
        AtomicInteger count = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, name + "-" + count.incrementAndGet());
            thread.setDaemon(true);
            thread.setContextClassLoader(Background.class.getClassLoader());
            return thread;
        };
    }

    static void after(long nanos, Runnable task) {
        KEEPER.schedule(task, nanos, TimeUnit.NANOSECONDS);
    }
}
