package lockstock;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** The requests and holds of a client, by key: so that no thread waits for itself, and no two are taken for one. */
final class Claims {
    private final Map<String, Set<Claim>> claims = new HashMap<>();
    /** By key and token: the requests of those that are over, where some may arrive late. */
    private final Map<List<String>, Late> late = new HashMap<>();

    /** One request, and the hold that it gets. A hold of an asynchronous request belongs to no thread. */
    static final class Claim {
        private final Lock lock;
        private final String token;
        private final Late late;
        private final Thread thread;
        private final boolean waits;
        /** The hold, when there is one. */
        volatile Tenure tenure;
        /** The withdrawal of the request, or of what is left of it when its hold has ended, if there is one. */
        volatile CompletableFuture<?> withdrawal;

        Claim(Request request, Thread thread, boolean waits) {
            lock = request.lock;
            token = request.token;
            late = request.late;
            this.thread = thread;
            this.waits = waits;
        }

        private boolean over() {
            return tenure != null && leaving() == null && tenure.left() == 0;
        }

        /** Is completed when the server knows that it ends; null: it does not end. */
        private CompletableFuture<?> leaving() {
            return tenure == null || withdrawal != null && !withdrawal.isDone() ? withdrawal : tenure.releasing();
        }
    }

    /** Notes a request, or refuses it. It waits for one of the same token that is being withdrawn or released. */
    void enter(Claim claim, long end) throws InterruptedException {
        for (CompletableFuture<?> leaving = enter(claim); leaving != null; leaving = enter(claim)) {
            try {
                Servers.await(leaving, end);
            } catch (Servers.TimeoutError late) {
                throw new UnreachableException(claim.lock + ": the token " + claim.token + " is still leaving it", late);
            }
        }
    }

    private synchronized CompletableFuture<?> enter(Claim claim) {
        for (String key : claim.lock.keys()) {
            // How many of its permits the thread may have, and wait for another one.
            long spare = claim.lock.isLimited() && !claim.waits ? Long.MAX_VALUE : claim.lock.limit();
            for (Claim other : claims.getOrDefault(key, Set.of())) {
                if (other.over()) continue;
                CompletableFuture<?> leaving = other.leaving();
                if (leaving == null && other.thread == claim.thread && other.lock.isLimited()) spare--;
                if (leaving == null) refuse(key, claim, other, spare);
                else if (other.token.equals(claim.token)) return leaving;
            }
        }
        for (String key : claim.lock.keys()) {
            for (Claim over : claims.getOrDefault(key, Set.of())) if (over.token.equals(claim.token)) claim.late.join(over.late);
            Late earlier = late.get(List.of(key, claim.token));
            if (earlier != null) claim.late.join(earlier);
        }
        note(claim);
        return null;
    }

    private void note(Claim claim) {
        for (String key : claim.lock.keys()) claims.computeIfAbsent(key, name -> new HashSet<>()).add(claim);
    }

    private static void refuse(String key, Claim claim, Claim other, long spare) {
        String why = null;
        if (other.token.equals(claim.token)) {
            why = "the token " + claim.token + " has it or asks for it already, so both would be one holder: give each a token of its own, or none";
        } else if (claim.thread != null && other.thread == claim.thread && (!other.lock.isLimited() || spare <= 0)) {
            why = "this thread has it already, and a lock is not reentrant: hand the hold on to what needs it, or release it before"
                + " (a hold of acquireAsync belongs to no thread)";
        }
        if (why == null) return;
        throw new AlreadyHeldException(key + ": " + why, null);
    }

    /** Whether the server may be told that a hold ends: not if a later one of its token has taken its place. */
    synchronized boolean ends(Claim claim) {
        for (String key : claim.lock.keys()) {
            for (Claim other : claims.getOrDefault(key, Set.of())) if (other != claim && other.token.equals(claim.token)) return false;
        }
        note(claim);
        return true;
    }

    /** Ends a claim, when it has been withdrawn if it is. */
    void leave(Claim claim, CompletableFuture<?> withdrawal) {
        claim.withdrawal = withdrawal;
        if (withdrawal == null) leave(claim);
        else withdrawal.whenComplete((left, error) -> leave(claim));
    }

    private synchronized void leave(Claim claim) {
        for (String key : claim.lock.keys()) {
            claims.computeIfPresent(key, (name, all) -> {
                all.remove(claim);
                return all.isEmpty() ? null : all;
            });
        }
        // With no other token anything is asked for again.
        if (!claim.lock.isNamed() || !claim.late.isSome()) return;
        for (String key : claim.lock.keys()) late.put(List.of(key, claim.token), claim.late);
        Background.after(Late.LATE, () -> forget(claim.late));
    }

    private synchronized void forget(Late one) {
        late.values().removeIf(other -> other == one);
    }
}
