import static java.time.Duration.ofHours;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import lockstock.Client;
import lockstock.Hold;
import lockstock.LostException;
import lockstock.RefusedException;

/** What locks do when the server answers, but refuses. */
final class RefusalTests {
    private static final String LONG_SCRIPT = "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end "
        + "local e = now() + 1500 repeat until now() > e";

    private RefusalTests() {}

    public static void aServerThatRunsALongScriptIsAskedAgain(Server server, Client client) throws Exception {
        server.ask("CONFIG", "SET", "busy-reply-threshold", 50);
        Hold hold = client.lock("job").acquire();
        CompletableFuture<Object> runs = busy(server);
        client.lock("other").acquire(ofSeconds(10)).release();
        Expect.value(runs);
        runs = busy(server);
        hold.release();
        Expect.value(runs);
        Expect.same(server.locks(), 0L);
    }

    private static CompletableFuture<Object> busy(Server server) throws Exception {
        CompletableFuture<Object> runs = CompletableFuture.supplyAsync(() -> String.valueOf(server.ask("EVAL", LONG_SCRIPT, 0)));
        Thread.sleep(300);
        return runs;
    }

    public static void aReleaseIsSentAgainWhileTheServerMayNotWrite(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").acquire();
        server.ask("CONFIG", "SET", "min-replicas-to-write", 1);
        CompletableFuture<Void> released = hold.releaseAsync();
        Thread.sleep(1_000);
        server.ask("CONFIG", "SET", "min-replicas-to-write", 0);
        Expect.value(released);
    }

    public static void aRefusalDoesNotHideAGrantThatWasNotHeard() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            relay.cut = true;
            CompletableFuture<Hold> asked = client.lock("job").lease(ofHours(1)).acquireAsync(ofMinutes(1));
            Server.until("it is granted", () -> server.locks() == 1);
            server.ask("CONFIG", "SET", "maxmemory", 1);
            relay.cut = false;
            Expect.fails(RefusedException.class, () -> Expect.value(asked));
            Server.until("the grant is given back", () -> server.locks() == 0);
        });
    }

    public static void aGrantThatWasNotHeardIsGivenBackWhenTheServerMayWriteAgain() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            relay.cut = true;
            CompletableFuture<Hold> asked = client.lock("job").lease(ofHours(1)).acquireAsync(ofMinutes(1));
            Server.until("it is granted", () -> server.locks() == 1);
            server.ask("CONFIG", "SET", "min-replicas-to-write", 1);
            relay.cut = false;
            Expect.fails(RefusedException.class, () -> Expect.value(asked));
            Thread.sleep(1_000);
            Expect.same(server.locks(), 1L);
            server.ask("CONFIG", "SET", "min-replicas-to-write", 0);
            Server.until("the grant is given back", () -> server.locks() == 0);
        });
    }

    public static void aHoldWhoseKeyHasAnotherValueIsLost(Server server, Client client) throws Exception {
        for (boolean asks : new boolean[] {false, true}) {
            Hold hold = client.lock("job").lease(ofSeconds(12)).acquire();
            server.ask("SET", "job", "text");
            if (asks) Expect.that(!hold.isOwned(), hold);
            Expect.takes(0, asks ? 1_000 : 8_000, () -> hold.lost().get(20, TimeUnit.SECONDS));
            Expect.fails(LostException.class, hold::extend);
            Expect.fails(LostException.class, hold::release);
            server.ask("DEL", "job");
            Hold other = client.lock("job").acquire();
            server.ask("SET", "job", "text");
            Expect.fails(LostException.class, other::release);
            server.ask("DEL", "job");
        }
    }

    public static void theOtherKeysOfAHoldAreReleasedThoughOneHasAnotherValue(Server server, Client client) throws Exception {
        Hold hold = client.lock("a", "b", "c").acquire();
        server.ask("SET", "b", "text");
        Expect.fails(LostException.class, hold::release);
        Expect.same(server.locks(), 0L);
    }

    public static void aGrantThatWasNotHeardIsGivenBackThoughOneOfItsKeysHasAnotherValue() throws Exception {
        NetworkTests.through((server, relay, client) -> {
            relay.cut = true;
            CompletableFuture<Hold> asked = client.lock("a", "b").lease(ofHours(1)).acquireAsync(ofMinutes(1));
            Server.until("it is granted", () -> server.exists("b"));
            server.ask("SET", "b", "text");
            relay.cut = false;
            Expect.fails(RefusedException.class, () -> Expect.value(asked));
            Server.until("the other key is given back", () -> server.locks() == 0);
        });
    }

    public static void aLostHoldOfSeveralKeysDoesNotEndALaterOneOfItsToken(Server server, Client client) throws Exception {
        Hold first = client.lock("a", "b").token("me").acquire();
        server.ask("DEL", "b");
        Expect.fails(LostException.class, first::extend);
        Hold second = client.lock("a").token("me").acquire();
        Expect.same(second.fence(), first.fence());
        Expect.fails(LostException.class, first::release);
        Expect.that(second.isHeld() && second.isOwned(), second);
        second.release();
    }
}
