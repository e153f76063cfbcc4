package lockstock;

import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A lock that this process holds. Any number of threads may use it, and any of them may release it. It is extended until it is released.
 *
 * <p>One that is dropped without a release is not extended any more, and ends with its lease; a warning is logged ({@code System.Logger},
 * {@code lockstock}).
 */
public final class Hold implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    /** How long an interrupted thread stays to hear of its release. */
    private static final long MOMENT_MS = 80;

    private final Tenure tenure;
    private final Cleaner.Cleanable dropped;
    private boolean released;

    Hold(Tenure tenure) {
        this.tenure = tenure;
        dropped = CLEANER.register(this, tenure::drop);
    }

    /**
     * A number larger than that of every grant before. Let the resource that you write refuse
     * smaller fences.
     *
     * @return the fence
     */
    public long fence() {
        return tenure.fence;
    }

    /**
     * The owner of the lock.
     *
     * @return the token
     */
    public String token() {
        return tenure.request.token;
    }

    /**
     * What is locked.
     *
     * @return the keys
     */
    public List<String> keys() {
        return tenure.request.lock.keys();
    }

    /**
     * How long the hold lasts at least, by a clock that goes on while the machine sleeps.
     *
     * @return the time; zero if the hold is over
     */
    public Duration left() {
        return Duration.ofNanos(tenure.left());
    }

    /**
     * Whether the hold should last still, by the clock. Look before each step that must not be done twice, and send the fence with it.
     *
     * @return false after the release, and when the hold is lost
     */
    public boolean isHeld() {
        return tenure.left() > 0;
    }

    /**
     * Is completed when the hold has ended before its release, or may have: its lease is over, its session has ended, or an administrator has ended it.
     * What depends on it runs on a thread in the background.
     *
     * @return the same future at each call; it is never completed after a release
     */
    public CompletableFuture<Void> lost() {
        return tenure.lost;
    }

    /**
     * Asks the server whether the hold lasts, with all of its keys.
     *
     * @return true if it does
     * @throws LockstockException if the server cannot be reached
     */
    public boolean isOwned() {
        for (String key : keys()) {
            try {
                client().get(what(), client().servers.ask(tenure.guard(key, "PING"), Servers.PATIENCE, true));
            } catch (LockstockException error) {
                if (!Tenure.ends(error.getCause())) throw error;
                tenure.lose();
                return false;
            }
        }
        return true;
    }

    /**
     * Extends the hold by its lease, from now on. That is only needed for one that is {@linkplain Lock#unattended() unattended}.
     *
     * @throws LostException if the hold has ended
     * @throws UnreachableException if no server answered, which says nothing of the hold
     */
    public void extend() {
        extend(Duration.ofNanos(tenure.lease()));
    }

    /**
     * Has the hold last for a lease from now on, and every extension after it. For a minute after a request that was not answered, and may arrive late, a
     * longer lease counts as that of this request.
     *
     * @param lease from a millisecond on
     * @throws LostException if the hold has ended
     * @throws UnreachableException if no server answered, which says nothing of the hold
     */
    public void extend(Duration lease) {
        long nanos = Check.span("a lease", lease).toNanos();
        if (!client().wait(what(), tenure.extend(nanos, Servers.PATIENCE))) {
            tenure.lose();
            throw new LostException(what() + " was lost", null);
        }
    }

    /**
     * Has the server carry out a command in the same step in which it sees that this hold has the (first) lock: {@code LOCK.GUARD}. It is sent once.
     *
     * @param command its name
     * @param arguments Strings, byte arrays and numbers
     * @return the reply: null, a {@code Long}, {@code String}, {@code Double}, {@code Boolean}, or a {@code List} or {@code Map} of such
     * @throws LostException if the hold has ended: nothing was done then
     * @throws UnreachableException if no server answered: it may have been done
     * @throws RefusedException if the server refuses the command
     */
    public Object guard(String command, Object... arguments) {
        Object[] words = new Object[arguments.length + 1];
        words[0] = Check.name("a command", command);
        System.arraycopy(arguments, 0, words, 1, arguments.length);
        try {
            return client().get(what(), client().servers.ask(tenure.guard(keys().get(0), words), Servers.PATIENCE, false));
        } catch (LostException ended) {
            tenure.lose();
            throw ended;
        }
    }

    /**
     * Ends the hold, within five seconds or the rest of its lease. If the thread is interrupted it stops waiting for that, which goes on in the
     * background, and stays interrupted. It may be repeated, and then says the same.
     *
     * @throws LostException if the hold had ended before: another holder may have had the lock since
     * @throws NotReleasedException if it is not known whether it was released
     */
    public void release() {
        CompletableFuture<Tenure.End> end = begin();
        Tenure.End how = null;
        try {
            try {
                how = end.get(Request.FAREWELL * 2, TimeUnit.NANOSECONDS);
            } catch (InterruptedException interrupted) {
                try {
                    how = end.get(MOMENT_MS, TimeUnit.MILLISECONDS);
                } catch (InterruptedException again) {
                    // It is in a hurry.
                } finally {
                    Thread.currentThread().interrupt();
                }
            }
        } catch (TimeoutException | ExecutionException late) {
            // It goes on in the background.
        }
        judge(how);
    }

    /**
     * Ends the hold as {@link #release()} does, without waiting for it.
     *
     * @return is completed when the hold has ended, or fails as {@link #release()} does
     */
    public CompletableFuture<Void> releaseAsync() {
        return begin().thenAccept(this::judge);
    }

    /** Ends the hold as {@link #release()} does, unless that was called before. */
    @Override
    public void close() {
        synchronized (this) {
            if (released) return;
        }
        release();
    }

    private CompletableFuture<Tenure.End> begin() {
        CompletableFuture<Tenure.End> end = tenure.release();
        synchronized (this) {
            released = true;
        }
        dropped.clean();
        return end;
    }

    private void judge(Tenure.End how) {
        if (how == Tenure.End.LOST) throw new LostException(what() + " was lost before its release", null);
        if (how == Tenure.End.RELEASED) return;
        throw new NotReleasedException(what() + ": it is not known whether it was released; if not, its lease ends it", tenure.reason());
    }

    private Client client() {
        return tenure.request.lock.client;
    }

    private String what() {
        return tenure.request.lock.toString();
    }

    @Override
    public String toString() {
        return what() + ", fence " + fence() + (isHeld() ? ", held" : ", not held");
    }
}
