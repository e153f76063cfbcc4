package lockstock;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import lockstock.Servers.Line;

/** What the keeper knows of a hold. It does not know the {@link Hold} itself, which may be dropped. */
final class Tenure {
    /** The longest look away from the clock, which goes on while the machine sleeps though timers do not. So often a session is looked after, too. */
    private static final long GLANCE = TimeUnit.SECONDS.toNanos(1);
    /** The lease of a hold that a late release may end: it is extended, and so looked after, each second. */
    static final long BRIEF = 3 * GLANCE;
    private static final long LEAST = TimeUnit.MILLISECONDS.toNanos(200);
    private static final System.Logger LOG = System.getLogger("lockstock");

    /** How a hold ended. */
    enum End {
        /** By its release. */
        RELEASED,
        /** Before its release. */
        LOST,
        /** It is not known whether by its release. */
        UNSURE
    }

    final Request request;
    final long fence;
    /** Is completed when the hold is lost, for users. */
    final CompletableFuture<Void> lost = new CompletableFuture<>();
    /** Is completed when the hold has ended in any way. */
    final CompletableFuture<End> ended = new CompletableFuture<>();
    private final Servers servers;
    /** The connection that a session lasts as long as. */
    private final Line line;
    private long lease, until, next;
    private boolean over, asking, dropped;
    private Claims.Claim claim;
    private CompletableFuture<End> release;
    private Throwable reason;
    /** Extensions go one after another, so that the last one counts. */
    private CompletableFuture<Boolean> turn = CompletableFuture.completedFuture(true);

    /** The lease counts from {@code since}. */
    Tenure(Request request, long fence, long since, Line line) {
        this.request = request;
        this.fence = fence;
        this.line = line;
        servers = request.lock.client.servers;
        lease = request.lock.lease().toNanos();
        until = since + request.late.counts(lease, since);
        next = since + interval();
        Background.after(0, this::keep);
    }

    /** Has the hold keep its place among the requests of its client until it has ended. */
    void claim(Claims.Claim claim) {
        synchronized (this) {
            this.claim = claim;
            claim.tenure = this;
        }
        ended.whenComplete((end, error) -> leave());
    }

    private void leave() {
        request.lock.client.claims.leave(claim, request.leftovers());
    }

    /** Is completed when the release is over; null: it has not begun. */
    synchronized CompletableFuture<?> releasing() {
        return release;
    }

    synchronized long left() {
        return over || release != null ? 0 : Math.max(until - Clock.now(), 0);
    }

    synchronized long lease() {
        return lease;
    }

    /** Why nobody knows whether the hold was released. */
    synchronized Throwable reason() {
        return reason;
    }

    private long interval() {
        long part = counts() / 3;
        return line != null ? Math.min(GLANCE, part) : part;
    }

    /** How much of the lease counts. */
    private synchronized long counts() {
        return request.late.counts(lease, Clock.now());
    }

    /** Extends the hold in time, and tells when it is over. */
    private void keep() {
        long left = left(), now = Clock.now(), span = Math.min(left, GLANCE);
        boolean looks = false;
        synchronized (this) {
            if (over || release != null) return;
            if (!dropped && (line != null || !request.lock.isUnattended()) && !asking) {
                looks = asking = left > 0 && now >= next;
                span = Math.min(span, Math.max(next - now, 1_000_000));
            }
        }
        if (left == 0) {
            lose();
            return;
        }
        Background.after(span, this::keep);
        if (looks) look(now, left);
    }

    private void look(long now, long left) {
        long within = Math.min(Math.min(Math.max(lease() / 2, Servers.PAUSE), Request.FAREWELL), left);
        CompletableFuture<Boolean> looked = request.lock.isUnattended() ? guarded(within) : extend(0, within);
        looked.whenComplete((held, error) -> {
            synchronized (this) {
                // No answer says nothing; the clock does.
                next = error == null ? now + interval() : Clock.now() + Math.min(counts() / 20, GLANCE);
                asking = false;
            }
            if (error == null && !held) lose();
        });
    }

    /** Whether the session lasts. */
    private CompletableFuture<Boolean> guarded(long within) {
        return ask(guard(request.key(), "PING"), within).handle((reply, error) -> {
            if (error == null) return true;
            return over(error);
        });
    }

    /** False where an error says that the hold is over; else it is thrown. */
    private boolean over(Throwable error) {
        Throwable cause = Servers.cause(error);
        // A client that was closed has closed the connection of the session.
        if (ends(cause) || line != null && cause instanceof Servers.Closed) return false;
        throw new CompletionException(cause);
    }

    static boolean ends(Throwable error) {
        return error instanceof ServerException said && said.ends();
    }

    /** Has the hold last for a lease (0: as long as before) from now on, and for every extension after it. False if it has ended. */
    synchronized CompletableFuture<Boolean> extend(long nanos, long within) {
        long end = Clock.now() + within;
        turn = turn.handle((before, error) -> null).thenCompose(free -> {
            // What was told to be lost stays so, though the server may have it still.
            if (left() == 0) return CompletableFuture.completedFuture(false);
            long since = Clock.now(), span = nanos == 0 ? lease() : nanos;
            if (since >= end) return CompletableFuture.failedFuture(new TimeoutException("no answer in time"));
            synchronized (this) {
                // A shorter lease counts from now on, for its answer may be lost.
                until = Math.min(until, since + span);
                next = Math.min(next, since + span / 3);
            }
            return ask(request.extension(fence, span), end - since).handle((reply, error) -> {
                if (error != null) return over(error);
                synchronized (this) {
                    if (over || !Long.valueOf(1).equals(reply)) return false;
                    lease = span;
                    until = since + request.late.counts(span, since);
                    next = since + interval();
                    return true;
                }
            });
        });
        return Servers.limit(turn.copy(), end);
    }

    /** Asks over the client; or over the line, if there is one, and over the client if no answer comes there in half of the time. */
    private CompletableFuture<Object> ask(Command command, long within) {
        if (line == null) return servers.ask(command, within, true);
        long end = Clock.now() + within;
        return Servers.limit(line.send(command).copy(), end - within / 2).handle((reply, error) -> {
            if (error == null) return CompletableFuture.completedFuture(reply);
            Throwable cause = Servers.cause(error);
            if (!Servers.passes(cause)) return CompletableFuture.<Object>failedFuture(cause);
            return servers.ask(command, end - Clock.now(), true);
        }).thenCompose(reply -> reply);
    }

    Command guard(String key, Object... words) {
        List<Object> all = new ArrayList<>(List.of("LOCK.GUARD", key, request.token, "FENCE", fence));
        all.addAll(Arrays.asList(words));
        return Command.of(key, all);
    }

    /** Ends the hold. */
    CompletableFuture<End> release() {
        long left = left();
        CompletableFuture<End> begun;
        synchronized (this) {
            if (release != null) return release;
            begun = release = new CompletableFuture<>();
        }
        if (!request.lock.client.claims.ends(claim)) {
            end(End.LOST, null);
            return begun;
        }
        // With the fence, a repeated release cannot end a later hold of the token.
        release(request.release("FENCE", fence), Clock.now() + Math.min(Math.max(left, LEAST), Request.FAREWELL), null);
        return begun;
    }

    /** {@code doubt} is why an attempt was not answered, if there was one. */
    private void release(Command command, long end, Throwable doubt) {
        servers.send(command, Math.min(end, Clock.now() + Servers.PATIENCE)).whenComplete((reply, failure) -> {
            Throwable error = Servers.cause(failure);
            if (Long.valueOf(request.count()).equals(reply)) {
                end(End.RELEASED, null);
            } else if (error == null || ends(error)) {
                // An attempt that was not answered may have done it, but not in part, and not for a hold that was lost before.
                boolean nothing = error != null || Long.valueOf(0).equals(reply);
                CompletableFuture<?> apart = error == null ? CompletableFuture.completedFuture(null) : request.releaseApart("FENCE", fence);
                apart.whenComplete((all, unsure) -> end(nothing && doubt != null && !ended.isDone() ? End.UNSURE : End.LOST, doubt));
            } else if (!Servers.passesForRelease(error) || Clock.now() + Servers.PAUSE >= end) {
                if (doubt != null || !Servers.isNothingDone(error)) {
                    // It may come late. If the token has asked again by then, it has the same hold, with this fence.
                    request.late.doubt(BRIEF);
                }
                end(End.UNSURE, error);
            } else {
                Background.after(Servers.PAUSE, () -> release(command, end, Servers.isNothingDone(error) ? doubt : error));
            }
        });
    }

    private void end(End how, Throwable why) {
        synchronized (this) {
            reason = why;
            over = true;
        }
        if (line != null) line.close(how == End.RELEASED);
        // If it was lost before, its claim was made anew.
        if (!ended.complete(how)) leave();
        release.completeAsync(() -> how, Background.POOL);
    }

    /** Notes that the hold is over, unless it was released. */
    void lose() {
        synchronized (this) {
            if (over || release != null) return;
            over = true;
        }
        if (line != null) line.close(false);
        ended.complete(End.LOST);
        lost.completeAsync(() -> null, Background.POOL);
    }

    /** The hold was dropped without a release: its lease ends it. */
    void drop() {
        synchronized (this) {
            if (over || release != null) return;
            dropped = true;
        }
        if (request.lock.isUnattended()) return;
        LOG.log(System.Logger.Level.WARNING, "a hold of {0} was dropped without a release: it is not extended any more, and ends with its lease",
            request.lock);
    }
}
