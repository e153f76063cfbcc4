package lockstock;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Describes a lock: what is asked for, and how. It is no lock itself: any number of threads may share one description and
 * {@linkplain #acquire(Duration) acquire} by it, and each {@link Hold} has a token and a state of its own. It never changes; what describes more gives
 * another description.
 *
 * <p>A lock is not reentrant: a thread that has the lock of a key and asks for it again gets an {@link AlreadyHeldException} at once.
 */
public final class Lock {
    final Client client;
    private final List<String> keys;
    private final Duration lease;
    private final String token;
    private final boolean shared, session, unattended;
    private final long limit;
    private final int replicas;

    Lock(Client client, List<String> keys) {
        this(client, keys, Duration.ofSeconds(30), null, false, 0, false, 0, false);
    }

    private Lock(Client client, List<String> keys, Duration lease, String token, boolean shared, long limit, boolean session, int replicas,
            boolean unattended) {
        this.client = client;
        this.keys = keys;
        this.lease = lease;
        this.token = token;
        this.shared = shared;
        this.limit = limit;
        this.session = session;
        this.replicas = replicas;
        this.unattended = unattended;
        if (shared && limit > 0) throw new IllegalArgumentException("shared and limit do not go together: a lock is for all readers, or for so many");
        if (keys.size() > 1 && (shared || limit > 0)) {
            throw new IllegalArgumentException("several keys are locked exclusively: neither shared nor limit goes with them");
        }
    }

    /**
     * The lock with another lease: how long it outlasts this process if it dies or freezes (30 s without this). While the process lives, the hold is
     * extended each third of it.
     *
     * @param lease from a millisecond on
     * @return the description
     */
    public Lock lease(Duration lease) {
        return new Lock(client, keys, Check.span("a lease", lease), token, shared, limit, session, replicas, unattended);
    }

    /**
     * The lock together with other readers.
     *
     * @return the description
     */
    public Lock shared() {
        return new Lock(client, keys, lease, token, true, limit, session, replicas, unattended);
    }

    /**
     * The lock as one of so many holders.
     *
     * @param holders from 1 on
     * @return the description
     */
    public Lock limit(long holders) {
        return new Lock(client, keys, lease, token, shared, Check.whole("a limit", holders, 1), session, replicas, unattended);
    }

    /**
     * The lock with a hold that also ends when its connection does: at once when this process dies. That its connection has ended is noticed within a
     * second.
     *
     * @return the description
     */
    public Lock session() {
        return new Lock(client, keys, lease, token, shared, limit, true, replicas, unattended);
    }

    /**
     * The lock with a grant that counts only when so many replicas have it, within a second; else it is released: {@link NotReplicatedException}.
     *
     * @param count from 1 on
     * @return the description
     */
    public Lock replicas(int count) {
        return new Lock(client, keys, lease, token, shared, limit, session, (int) Check.whole("the number of replicas", count, 1), unattended);
    }

    /**
     * The lock for a holder with this name, instead of a random one for each hold. One token for all locks of a task lets the server see when two tasks
     * wait for each other: {@link DeadlockException}. A token is one holder, so it has a lock, or asks for it, only once at a time.
     *
     * @param token from 1 to 512 bytes
     * @return the description
     */
    public Lock token(String token) {
        return new Lock(client, keys, lease, Check.name("a token", token), shared, limit, session, replicas, unattended);
    }

    /**
     * The lock with a hold that is not extended but by {@link Hold#extend()}.
     *
     * @return the description
     */
    public Lock unattended() {
        return new Lock(client, keys, lease, token, shared, limit, session, replicas, true);
    }

    /**
     * Takes the lock, and stands in line for it as long as it takes.
     *
     * @return the hold
     * @throws InterruptedException if the thread is interrupted; the request is withdrawn in the background
     * @throws LockstockException if the server refuses, or the thread has the lock already
     */
    public Hold acquire() throws InterruptedException {
        return acquire(Check.CENTURY);
    }

    /**
     * Takes the lock, and stands in line for it at most that long. It asks again when a connection breaks or a server is replaced, and keeps its place.
     * Whatever the server does, it ends at most two seconds after that time.
     *
     * @param wait from zero on; zero does not wait
     * @return the hold
     * @throws InterruptedException if the thread is interrupted; the request is withdrawn in the background
     * @throws NotAcquiredException if others had the lock all the time
     * @throws UnreachableException if no server answered
     * @throws LockstockException if the server refuses, or the thread has the lock already
     */
    public Hold acquire(Duration wait) throws InterruptedException {
        return acquire(Check.wait(wait), Thread.currentThread());
    }

    /**
     * Takes the lock if it is free now.
     *
     * @return the hold, or nothing if others have the lock
     * @throws InterruptedException as {@link #acquire(Duration)}
     * @throws LockstockException as {@link #acquire(Duration)}
     */
    public Optional<Hold> tryAcquire() throws InterruptedException {
        return tryAcquire(Duration.ZERO);
    }

    /**
     * Takes the lock, and stands in line for it at most that long.
     *
     * @param wait from zero on; zero does not wait
     * @return the hold, or nothing if others had the lock all the time
     * @throws InterruptedException as {@link #acquire(Duration)}
     * @throws LockstockException as {@link #acquire(Duration)}
     */
    public Optional<Hold> tryAcquire(Duration wait) throws InterruptedException {
        try {
            return Optional.of(acquire(wait));
        } catch (NotReplicatedException granted) {
            throw granted;
        } catch (NotAcquiredException taken) {
            return Optional.empty();
        }
    }

    /**
     * Takes the lock as {@link #acquire(Duration)} does, on a thread in the background. The hold belongs to no thread. To cancel the future, or to
     * complete it in any other way, withdraws the request.
     *
     * @param wait from zero on; zero does not wait
     * @return the hold, when it is granted
     */
    public CompletableFuture<Hold> acquireAsync(Duration wait) {
        Check.wait(wait);
        CompletableFuture<Hold> hold = new CompletableFuture<>();
        AtomicBoolean over = new AtomicBoolean();
        Future<?> task = Background.POOL.submit(() -> {
            try {
                Hold granted = acquire(wait, null);
                over.set(true);
                // Nobody wants it any more.
                if (!hold.complete(granted)) granted.releaseAsync();
            } catch (Throwable error) {
                over.set(true);
                hold.completeExceptionally(error);
            }
        });
        hold.whenComplete((granted, error) -> {
            if (!over.get()) task.cancel(true);
        });
        return hold;
    }

    private Hold acquire(Duration wait, Thread thread) throws InterruptedException {
        if (Thread.interrupted()) throw new InterruptedException(this + ": interrupted before it was asked for");
        Request request = new Request(this, token == null ? Tokens.random() : token);
        long nanos = wait.compareTo(Check.CENTURY) < 0 ? wait.toNanos() : Long.MAX_VALUE;
        Claims.Claim claim = new Claims.Claim(request, thread, nanos > 0);
        long begun = Clock.now();
        client.claims.enter(claim, Request.hard(begun, nanos));
        try {
            Tenure tenure = request.stand(begun, nanos);
            tenure.claim(claim);
            return new Hold(tenure);
        } finally {
            if (claim.tenure == null) client.claims.leave(claim, request.withdrawal);
        }
    }

    /**
     * Asks whether anybody holds the lock, of each key.
     *
     * @return true if one of the keys is locked
     * @throws LockstockException if the server refuses or cannot be reached
     */
    public boolean isLocked() {
        for (String key : keys) {
            Object info = client.get("the lock " + key, client.servers.ask(Command.of(key, "LOCK.INFO", key), Servers.PATIENCE, true));
            if (info != null && !"free".equals(Answers.fields(info).get("mode"))) return true;
        }
        return false;
    }

    /**
     * What is locked.
     *
     * @return the keys
     */
    public List<String> keys() {
        return keys;
    }

    @Override
    public String toString() {
        return "the lock " + String.join(", ", keys);
    }

    Duration lease() {
        return lease;
    }

    boolean isNamed() {
        return token != null;
    }

    boolean isShared() {
        return shared;
    }

    boolean isLimited() {
        return limit > 0;
    }

    long limit() {
        return limit;
    }

    boolean isSession() {
        return session;
    }

    boolean isUnattended() {
        return unattended;
    }

    int replicas() {
        return replicas;
    }
}
