package lockstock;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import lockstock.Servers.Line;
import lockstock.Servers.TimeoutError;

/** One acquisition: what is asked for, by which token, and what is still under way of it. */
final class Request {
    /** How much later than its time a wait ends at most. */
    private static final long OVERTIME = TimeUnit.MILLISECONDS.toNanos(1_500);
    /** How often a wait looks whether its server is still there. */
    private static final long PROBE = TimeUnit.SECONDS.toNanos(15);
    private static final long GRACE = TimeUnit.SECONDS.toNanos(1);
    /** How long a release or the withdrawal of a wait is tried. */
    static final long FAREWELL = TimeUnit.SECONDS.toNanos(5);
    private static final String REPLICATION_MS = "1000";

    final Lock lock;
    final String token;
    private final Servers servers;
    /** What was sent and may arrive yet, even after what is sent later over another connection. */
    private final Set<CompletableFuture<?>> pending = ConcurrentHashMap.newKeySet();
    final Late late = new Late();
    /** Whether the server may know of it, though nobody has its answer. */
    private boolean doubted;
    /** Is completed when the server has been told that it has ended, as far as possible; null: it need not be told. */
    volatile CompletableFuture<Void> withdrawal;

    Request(Lock lock, String token) {
        this.lock = lock;
        this.token = token;
        this.servers = lock.client.servers;
    }

    String key() {
        return lock.keys().get(0);
    }

    /** The number of different keys. */
    long count() {
        return new HashSet<>(lock.keys()).size();
    }

    /** When a wait ends at the latest. */
    static long hard(long begun, long wait) {
        return wait == Long.MAX_VALUE ? Long.MAX_VALUE : begun + wait + OVERTIME;
    }

    /** Asks until the lock is granted or the time is over. */
    Tenure stand(long begun, long wait) throws InterruptedException {
        long hard = hard(begun, wait), end = wait == Long.MAX_VALUE ? Long.MAX_VALUE : begun + wait;
        boolean sure = false;
        try {
            // Without a wait at first: most locks are free, and this needs no connection of its own.
            for (boolean waits = false;; waits = Clock.now() < end) {
                RuntimeException silence = null;
                try {
                    Tenure tenure = attempt(waits, end, hard);
                    if (tenure != null) {
                        sure = true;
                        return tenure;
                    }
                    if (waits) end = begun;
                } catch (Ended ended) {
                    // It was granted and has ended since: nobody was told in time.
                } catch (RuntimeException error) {
                    RuntimeException meant = LockstockException.of(lock.toString(), error);
                    if (!(meant instanceof UnreachableException)) {
                        sure = !doubted && error instanceof ServerException;
                        throw meant;
                    }
                    silence = meant;
                    doubted |= !Servers.isNothingDone(error);
                }
                // Whether others have the lock is to be known, though the time may be over.
                if (silence != null ? Clock.now() + Servers.PAUSE >= hard : Clock.now() >= end) {
                    sure = !doubted;
                    throw silence != null ? silence : new NotAcquiredException(lock + ": not acquired, others had it", null);
                }
                if (silence != null) TimeUnit.NANOSECONDS.sleep(Servers.PAUSE);
            }
        } catch (NotReplicatedException granted) {
            try {
                Servers.await(withdrawal = withdrawn(), hard);
            } catch (TimeoutError goesOn) {
                // In the background.
            }
            throw granted;
        } finally {
            if (!sure && withdrawal == null) withdrawal = withdrawn();
        }
    }

    /** The hold of a grant whose lease counts from {@code since}. */
    private Tenure begin(long fence, long since, Line line) {
        if (Clock.now() - since < late.counts(lock.lease().toNanos(), since)) return new Tenure(this, fence, since, line);
        throw new UnreachableException(lock + ": granted, but the answer came after the lease", null);
    }

    /** Asks once; null if others have the lock. */
    private Tenure attempt(boolean waits, long end, long hard) throws InterruptedException {
        long since = Clock.now();
        if (!waits && !lock.isSession() && lock.replicas() == 0) {
            long until = Math.min(since + Servers.PATIENCE, hard);
            long fence = Answers.fence(Answers.plain(Servers.await(servers.send(acquisition(null), until), until)));
            return fence == 0 ? null : begin(fence, since, null);
        }
        Line line = servers.dedicate(key(), hard);
        boolean kept = false, whole = false;
        try {
            long left = end == Long.MAX_VALUE ? 0 : Check.ms(end - Clock.now());
            Object reply = waits ? acquire(line, acquisition(left), hard, true) : acquire(line, acquisition(null), soon(hard), false);
            long fence = Answers.fence(Answers.plain(reply));
            if (fence == 0) {
                whole = true;
                return null;
            }
            // Until there is a hold that may be released.
            doubted = true;
            // After a wait nobody knows how long the answer took: the lease counts from this extension. WAIT counts what this connection has
            // written, so for replicas it is needed, too.
            if (waits || lock.replicas() > 0) {
                since = Clock.now();
                if (!Long.valueOf(1).equals(quick(line, extension(fence, lock.lease().toNanos()), hard))) {
                    whole = true;
                    throw new Ended();
                }
            }
            if (lock.replicas() > 0) replicate(line, hard);
            whole = true;
            Tenure tenure = begin(fence, since, lock.isSession() ? line : null);
            kept = lock.isSession();
            return tenure;
        } finally {
            if (!kept) line.close(whole);
        }
    }

    private static long soon(long hard) {
        return Math.min(hard, Clock.now() + Servers.PATIENCE);
    }

    /** Sends over the line what does not wait, and does not lead elsewhere. */
    private Object quick(Line line, Command command, long hard) throws InterruptedException {
        return Servers.await(line.send(command), soon(hard));
    }

    /**
     * Sends an acquisition over the line, which goes where ASK says. In a long wait it looks whether the request still stands in line at the server of
     * its key: one that is gone without a word, and perhaps has a successor, would be listened to for as long.
     */
    private Object acquire(Line line, Command command, long hard, boolean probes) throws InterruptedException {
        for (boolean again = true;; again = false) {
            CompletableFuture<Object> answer = line.send(command);
            try {
                while (probes) {
                    long look = Clock.now() + PROBE;
                    if (look >= hard) break;
                    try {
                        return Servers.await(answer, look);
                    } catch (TimeoutError silent) {
                        // It may have left the line just now, and the answer be on its way.
                        if (!stands(hard)) return Servers.await(answer, Math.min(hard, Clock.now() + GRACE));
                    }
                }
                return Servers.await(answer, hard);
            } catch (ServerException said) {
                if (!again || !line.follow(command, said, hard)) throw said;
            }
        }
    }

    /** Whether the request is known to stand in line, or may. */
    private boolean stands(long hard) throws InterruptedException {
        long within = Math.min(Servers.PATIENCE, hard - Clock.now());
        Object reply;
        try {
            reply = Answers.plain(Servers.await(servers.ask(Command.of(key(), "LOCK.INFO", key()), within, true), Clock.now() + within));
        } catch (ServerException said) {
            return !said.passes();
        } catch (TimeoutError silent) {
            return false;
        }
        if (reply == null) return false;
        Map<?, ?> info = Answers.fields(reply);
        List<?> waiters = Answers.row(info.get("waiters"), 0);
        // The first ones of the line are told, and how many there are.
        if (Answers.number(info.get("waiting")) > waiters.size()) return true;
        for (Object waiter : waiters) if (token.equals(Answers.fields(waiter).get("token"))) return true;
        return false;
    }

    /** Waits until the replicas have the grant. */
    private void replicate(Line line, long hard) throws InterruptedException {
        Object reply = quick(line, Command.of(key(), "WAIT", lock.replicas(), REPLICATION_MS), hard);
        if (Answers.number(reply) >= lock.replicas()) return;
        throw new NotReplicatedException(lock + ": " + reply + " of " + lock.replicas() + " replicas took the grant, so it was released", null);
    }

    /** Withdraws what was given up, if it may arrive yet: it would be granted to nobody, or end what the token gets next. Null: there is nothing. */
    synchronized CompletableFuture<Void> leftovers() {
        if (!pending.isEmpty() && (withdrawal == null || withdrawal.isDone())) withdrawal = withdrawn();
        return withdrawal;
    }

    private CompletableFuture<Void> withdrawn() {
        return CompletableFuture.runAsync(this::withdraw, Background.POOL);
    }

    /** Leaves the line, and whatever was granted, as far as a server can be told within some seconds; else the lease ends it. */
    private void withdraw() {
        tell(FAREWELL);
        try {
            TimeUnit.NANOSECONDS.sleep(Servers.PAUSE);
        } catch (InterruptedException goesOn) {
            // Nobody has to hurry here.
        }
        // What was sent and given up may have arrived after the first of them.
        tell(Servers.PATIENCE);
    }

    /** Sends a release until it is answered, and waits until nothing can arrive any more: a connection that was given up is closed soon. */
    private void tell(long within) {
        try {
            Servers.await(servers.ask(release(), within, Servers.PATIENCE, Servers::passesForRelease), Clock.now() + within);
        } catch (RuntimeException | InterruptedException unsure) {
            // The lease ends it.
            if (unsure instanceof ServerException said && said.ends()) releaseApart();
        }
        try {
            Servers.await(Command.settled(pending), Clock.now() + FAREWELL);
        } catch (RuntimeException | InterruptedException goesOn) {
            // Nobody waits for these answers.
        }
    }

    /** Asks for the lock; {@code wait} is the time of the option WAIT in milliseconds, 0 without limit, or null. */
    private Command acquisition(Long wait) {
        List<Object> words = new ArrayList<>();
        if (lock.keys().size() > 1) words.addAll(List.of("LOCK.MACQUIRE", lock.keys().size()));
        else words.add("LOCK.ACQUIRE");
        words.addAll(lock.keys());
        words.addAll(List.of("TOKEN", token, "PX", Check.ms(lock.lease().toNanos())));
        if (lock.isShared()) words.add("SHARED");
        if (lock.isLimited()) words.addAll(List.of("LIMIT", lock.limit()));
        if (lock.isSession()) words.add("SESSION");
        if (wait != null) words.addAll(List.of("WAIT", wait));
        return Command.of(key(), words).notedIn(pending).setting(late, lock.lease().toNanos());
    }

    /** RELEASE or EXTEND, or their forms for several keys, then more. */
    private Command words(String verb, Object... more) {
        List<Object> words = new ArrayList<>();
        if (lock.keys().size() > 1) {
            words.addAll(List.of("LOCK.M" + verb, token, lock.keys().size()));
            words.addAll(lock.keys());
        } else {
            words.addAll(List.of("LOCK." + verb, key(), token));
        }
        words.addAll(List.of(more));
        return Command.of(key(), words);
    }

    Command release(Object... fence) {
        return ending(words("RELEASE", fence), fence);
    }

    /** Without a fence, one that comes late may end the next hold of the token. */
    private Command ending(Command release, Object... fence) {
        return fence.length > 0 ? release.notedIn(pending) : release.notedIn(pending).setting(late, Tenure.BRIEF);
    }

    /** Releases each of several locks by itself: if one of the keys has another value, nothing was released together. */
    CompletableFuture<Void> releaseApart(Object... fence) {
        if (count() == 1) return CompletableFuture.completedFuture(null);
        return CompletableFuture.allOf(lock.keys().stream().map(key -> {
            List<Object> words = new ArrayList<>(List.of("LOCK.RELEASE", key, token));
            words.addAll(List.of(fence));
            return servers.ask(ending(Command.of(key, words), fence), Servers.PATIENCE, true);
        }).toArray(CompletableFuture[]::new));
    }

    Command extension(long fence, long lease) {
        return words("EXTEND", "PX", Check.ms(lease), "FENCE", fence).setting(late, lease);
    }

    /** The grant has ended. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
    }
}
