package lockstock;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The requests and holds of a client, by key: so that nobody waits for himself, and no two are taken for one. */
final class Claims {
    private final Map<String, Set<Claim>> claims = new ConcurrentHashMap<>();

    /** One request, and the hold that comes of it. A hold of an asynchronous request belongs to no thread. */
    static final class Claim {
        private final Lock lock;
        private final String token;
        private final Thread thread;
        /** The hold, when there is one. */
        volatile Tenure tenure;

        Claim(Lock lock, String token, Thread thread) {
            this.lock = lock;
            this.token = token;
            this.thread = thread;
        }

        private boolean over() {
            return tenure != null && tenure.left() == 0;
        }
    }

    /** Notes a request, or refuses it. */
    void enter(Claim claim) {
        for (String key : claim.lock.keys()) {
            claims.compute(key, (name, all) -> {
                Set<Claim> noted = all == null ? new HashSet<>() : all;
                noted.removeIf(Claim::over);
                for (Claim other : noted) if (other != claim) refuse(key, claim, other);
                noted.add(claim);
                return noted;
            });
        }
    }

    private void refuse(String key, Claim claim, Claim other) {
        String why = null;
        if (other.token.equals(claim.token)) {
            why = "the token " + claim.token + " has it or asks for it already, so both would be one holder: give each a token of its own, or none";
        } else if (claim.thread != null && other.thread == claim.thread && !(claim.lock.isLimited() && other.lock.isLimited())) {
            why = "this thread has it already, and a lock is not reentrant: hand the hold on to what needs it, or release it before"
                + " (a hold of acquireAsync belongs to no thread)";
        }
        if (why == null) return;
        throw new AlreadyHeldException(key + ": " + why, null);
    }

    void leave(Claim claim) {
        for (String key : claim.lock.keys()) {
            claims.computeIfPresent(key, (name, all) -> {
                all.remove(claim);
                return all.isEmpty() ? null : all;
            });
        }
    }
}
