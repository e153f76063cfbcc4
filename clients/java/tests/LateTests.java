import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import lockstock.Hold;
import lockstock.Lock;
import lockstock.NotReleasedException;

/** What requests do whose connection was cut, and that come to the server after their repetition, and after what was sent then. */
final class LateTests {
    private static final long LATE_MS = 5_000;

    private LateTests() {}

    public static void aRequestThatComesLateDoesNotCutALongerLeaseShort() throws Exception {
        for (String word : List.of("ACQUIRE", "EXTEND")) {
            NetworkTests.through((server, relay, client) -> {
                Lock lock = word.equals("ACQUIRE") ? client.lock("one", "two") : client.lock("job");
                relay.overtakes = new Relay.Overtakes(word, LATE_MS, false);
                Hold hold = lock.lease(ofSeconds(3)).unattended().acquire(ofSeconds(20));
                if (word.equals("EXTEND")) hold.extend();
                Expect.same(relay.overtakes, null);
                hold.extend(ofMinutes(1));
                Thread.sleep(LATE_MS + 4_000);
                Expect.same(server.locks(), 0L);
                Expect.that(!hold.isHeld(), hold);
            });
        }
    }

    public static void aHoldThatIsExtendedOutlastsARequestThatComesLate() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            Hold hold = client.lock("job").lease(ofSeconds(3)).acquire();
            relay.overtakes = new Relay.Overtakes("EXTEND", LATE_MS, false);
            Server.until("it is overtaken", () -> relay.overtakes == null);
            NetworkTests.extend(hold);
            Thread.sleep(LATE_MS + 4_000);
            Expect.that(hold.isHeld() && hold.isOwned(), hold);
            hold.release();
        });
    }

    public static void aRequestForAnEarlierHoldOfTheTokenThatComesLateDoesNotCutALongerLeaseShort() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            Lock lock = client.lock("job").token("me").unattended();
            relay.overtakes = new Relay.Overtakes("ACQUIRE", LATE_MS, false);
            lock.lease(ofSeconds(3)).acquire(ofSeconds(20)).release();
            Expect.same(relay.overtakes, null);
            Hold hold = lock.lease(ofMinutes(1)).acquire(ofSeconds(20));
            Thread.sleep(LATE_MS + 4_000);
            Expect.same(server.locks(), 0L);
            Expect.that(!hold.isHeld(), hold);
        });
    }

    /** It has no fence, so nothing keeps it from the next hold of the token. */
    public static void aHoldThatAWithdrawalEndsThatComesLateIsSoonLost() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            Lock lock = client.lock("job").token("me").lease(ofMinutes(1));
            server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
            CompletableFuture<Hold> asked = lock.acquireAsync(ofMinutes(1));
            Server.until("it waits", () -> server.waiters() == 1);
            relay.overtakes = new Relay.Overtakes("RELEASE", LATE_MS, false);
            asked.cancel(true);
            Server.until("it is overtaken", () -> relay.overtakes == null);
            server.ask("LOCK.RELEASE", "job", "other");
            isSoonLost(server, NetworkTests.later(lock));
        });
    }

    /** No attempt to release it was answered, so its token has it again. */
    public static void aHoldThatAReleaseEndsThatComesLateIsSoonLost() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            Lock lock = client.lock("job").token("me").lease(ofMinutes(4));
            Hold hold = lock.acquire();
            relay.overtakes = new Relay.Overtakes("RELEASE", 4 * LATE_MS, true);
            Expect.fails(NotReleasedException.class, hold::release);
            relay.dead = relay.made.get();
            Hold again = lock.acquire(ofMinutes(1));
            Expect.same(again.fence(), hold.fence());
            isSoonLost(server, again);
        });
    }

    private static void isSoonLost(Server server, Hold hold) throws Exception {
        Expect.that(hold.isHeld(), hold);
        Server.until("it is ended", () -> server.locks() == 0);
        Expect.takes(0, 5_000, () -> hold.lost().get(30, TimeUnit.SECONDS));
    }
}
