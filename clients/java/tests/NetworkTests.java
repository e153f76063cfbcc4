import static java.time.Duration.ofMillis;
import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

import lockstock.Client;
import lockstock.Hold;
import lockstock.Lock;
import lockstock.LostException;
import lockstock.NotAcquiredException;
import lockstock.NotReleasedException;
import lockstock.Order;
import lockstock.Outcome;
import lockstock.SaleExistsException;
import lockstock.Stock;
import lockstock.UnreachableException;

/** What a network does to locks and orders. */
final class NetworkTests {
    private NetworkTests() {}

    interface Play {
        void on(Server server, Relay relay, Client client) throws Exception;
    }

    static void through(Play play) throws Exception {
        for (Run.Connect connect : List.of(Run.JEDIS, Run.LETTUCE)) {
            try (Server server = Server.start(); Relay relay = new Relay(server); Run.Connected connected = connect.to(relay.port())) {
                Client client = connected.client();
                Server.until("the server is reached", () -> reaches(client));
                play.on(server, relay, client);
            }
        }
    }

    private static boolean reaches(Client client) {
        try {
            return !client.lock("any").isLocked();
        } catch (UnreachableException busy) {
            return false;
        }
    }

    public static void aHoldGoesOnThoughAnswersTakeAFifthOfItsLease() throws Exception {
        through((server, relay, client) -> {
            Hold hold = client.lock("job").lease(ofSeconds(9)).acquire();
            relay.delayMs = 900;
            Thread.sleep(13_000);
            Expect.that(!hold.lost().isDone() && hold.isHeld(), hold);
            relay.delayMs = 0;
            hold.release();
        });
    }

    /** The server may have it, though nobody heard of that. */
    public static void aLeaseThatMayBeShorterIsNotBelievedLonger() throws Exception {
        through((server, relay, client) -> {
            Hold hold = client.lock("job").acquire();
            hold.extend(ofMinutes(1));
            relay.cut = true;
            Expect.fails(UnreachableException.class, () -> hold.extend(ofSeconds(1)));
            Expect.that(!hold.isHeld() || server.exists("job"), hold);
            relay.cut = false;
        });
    }

    /** The server does not hear either that the connection of the session is dead. */
    public static void aSessionGoesOnThoughItsConnectionIsDeadWithoutAWord() throws Exception {
        through((server, relay, client) -> {
            Hold hold = client.lock("job").session().lease(ofSeconds(9)).acquire();
            relay.delayMs = 100;
            relay.dead = relay.made.get();
            // Over the connection that all share, and that is another one then.
            Server.until("the server is reached", () -> reaches(client));
            Thread.sleep(11_000);
            Expect.that(!hold.lost().isDone() && hold.isHeld() && server.locks() == 1, hold);
            relay.delayMs = 0;
            hold.release();
        });
    }

    /** It is under way over a dead connection, and a longer one counts only as it does. */
    public static void aSessionGoesOnThoughAShorterLeaseMayArrive() throws Exception {
        through((server, relay, client) -> {
            Hold hold = client.lock("job").session().lease(ofSeconds(9)).acquire();
            relay.delayMs = 100;
            relay.dead = relay.made.get();
            Server.until("the server is reached", () -> reaches(client));
            // The keeper has asked over the connection of the session.
            Thread.sleep(5_000);
            extend(hold);
            Expect.that(hold.left().compareTo(ofSeconds(9)) <= 0, hold.left());
            Thread.sleep(11_000);
            Expect.that(!hold.lost().isDone() && hold.isHeld() && server.locks() == 1, hold);
            relay.delayMs = 0;
            hold.release();
        });
    }

    public static void aGrantThatComesAfterItsLeaseIsNone() throws Exception {
        through((server, relay, client) -> {
            relay.delayMs = 400;
            Expect.fails(UnreachableException.class, () -> client.lock("job").lease(ofMillis(500)).tryAcquire());
            relay.delayMs = 0;
            Server.until("nothing is left", () -> server.locks() == 0);
        });
    }

    public static void aSaleWhoseCreationWasNotAnsweredIsNotSaidToBeAnothers() throws Exception {
        through((server, relay, client) -> {
            relay.cut = true;
            // A library may find the connection cut before it sends anything.
            Server.until("it is made", () -> {
                Expect.fails(UnreachableException.class, () -> client.stock("mug").create(5));
                return server.exists("mug");
            });
            relay.cut = false;
            Expect.fails(SaleExistsException.class, () -> client.stock("mug").create(5));
        });
    }

    public static void anOrderWhoseAnswersWereLostIsTakenOnce() throws Exception {
        through((server, relay, client) -> {
            Stock mug = client.stock("mug");
            mug.create(100);
            AtomicBoolean over = new AtomicBoolean();
            Thread cuts = new Thread(() -> {
                for (boolean cut = true; !over.get(); cut = !cut) {
                    relay.cut = cut;
                    Expect.quietly(() -> {
                        Thread.sleep(2);
                        return null;
                    });
                }
                relay.cut = false;
            });
            cuts.start();
            for (int number = 0; number < 50; number++) {
                String id = "order:" + number;
                Server.until("it is answered", () -> {
                    try {
                        Outcome outcome = mug.order(id, Order.of(2).ref(id));
                        Expect.that(outcome.isDone() && outcome.units() == 2 && outcome.ref().equals(id), outcome);
                        return true;
                    } catch (UnreachableException lost) {
                        return false;
                    }
                });
            }
            over.set(true);
            cuts.join();
            Expect.same(mug.info().orElseThrow().sold(), 100L);
        });
    }

    /** Its answers come too late for it, not for others that share the connection. */
    public static void aHoldWithAShortLeaseCutsNobodyOff() throws Exception {
        through((server, relay, client) -> {
            Stock mug = client.stock("mug");
            mug.create(0);
            relay.delayMs = 60;
            for (int number = 1; number <= 20; number++) {
                if (number % 5 == 1) client.lock("job" + number).lease(ofMillis(200)).acquire();
                Expect.same(mug.adjust(1), (long) number);
            }
        });
    }

    /** A host that is gone, or a gate that has forgotten its connections, says nothing. */
    public static void connectionsThatAreDeadWithoutAWordAreGivenUpTogether() throws Exception {
        through((server, relay, client) -> {
            Hold held = client.lock("held").acquire();
            server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
            List<CompletableFuture<Hold>> waits = new ArrayList<>();
            for (int number = 0; number < 60; number++) waits.add(client.lock("job").acquireAsync(ofSeconds(2)));
            for (CompletableFuture<Hold> one : waits) Expect.fails(NotAcquiredException.class, () -> Expect.value(one));
            server.ask("LOCK.RELEASE", "job", "other");
            relay.dead = relay.made.get();
            Expect.takes(0, 7_000, () -> {
                Hold hold = client.lock("job").session().acquire(ofMinutes(1));
                Server.until("it is released", () -> {
                    try {
                        hold.release();
                        return true;
                    } catch (NotReleasedException unsure) {
                        return server.locks() == 1;
                    }
                });
            });
            held.extend();
            held.release();
        });
    }

    /** A gate forgets a connection over which nothing goes. */
    public static void aConnectionThatWasForgottenWhileItWasIdleIsNotUsed() throws Exception {
        through((server, relay, client) -> {
            client.lock("job").session().acquire().release();
            Thread.sleep(31_000);
            relay.dead = relay.made.get();
            Expect.takes(0, 1_000, () -> {
                client.lock("job").acquire().release();
                client.lock("job").session().acquire().release();
            });
        });
    }

    public static void extensionsOfAServerThatIsFrozenEndInTime(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").acquire();
        try (AutoCloseable thaw = server.freeze()) {
            LockTests.crowd(4, () -> Expect.takes(1_000, 2_600, () -> Expect.fails(UnreachableException.class, hold::extend)));
        }
        Server.until("it goes on", () -> {
            try {
                hold.extend();
                return true;
            } catch (UnreachableException busy) {
                return false;
            }
        });
        hold.release();
    }

    public static void aServerThatHasNoRoomIsAskedAgain(Server server, Client client) throws Exception {
        Hold hold = client.lock("job").acquire();
        fill(server);
        client.lock("other").acquire(ofSeconds(10)).release();
        fill(server);
        hold.release();
        Expect.same(server.locks(), 0L);
    }

    private static void fill(Server server) {
        server.ask("CONFIG", "SET", "maxclients", "1");
        server.cut();
        CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(() -> server.ask("CONFIG", "SET", "maxclients", "1000"));
    }

    public static void aGrantThatCannotBeKeptIsGivenBack(Server server, Client client) throws Exception {
        server.ask("ACL", "SETUSER", "default", "-lock.extend");
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        CompletableFuture<Hold> asked = client.lock("job").acquireAsync(ofMinutes(1));
        Server.until("it waits", () -> server.waiters() == 1);
        server.ask("LOCK.RELEASE", "job", "other");
        Expect.fails(lockstock.RefusedException.class, () -> Expect.value(asked));
        Expect.takes(0, 10_000, () -> Server.until("the lock is free", () -> server.locks() == 0));
    }

    public static void aWithdrawalDoesNotEndALaterHoldOfItsToken(Server server, Client client) throws Exception {
        Lock lock = client.lock("job").token("me");
        for (int time = 0; time < 10; time++) {
            server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
            CompletableFuture<Hold> asked = lock.acquireAsync(ofMinutes(1));
            Server.until("it waits", () -> server.waiters() == 1);
            asked.cancel(true);
            server.ask("LOCK.RELEASE", "job", "other");
            Hold hold = later(lock);
            Thread.sleep(100);
            Expect.that(hold.isOwned(), hold);
            hold.release();
        }
    }

    /** As its release would be that comes over a connection that was given up. */
    public static void aWithdrawalThatIsLateDoesNotEndTheNextHoldOfItsToken() throws Exception {
        through((server, relay, client) -> {
            Lock lock = client.lock("job").token("me").lease(ofMinutes(1));
            withdrawLate(server, relay, lock);
            server.ask("LOCK.RELEASE", "job", "other");
            Hold hold = later(lock);
            Thread.sleep(7_000);
            Expect.that(hold.isOwned(), hold);
            hold.release();
        });
    }

    public static void aWithdrawalThatIsNotAnsweredIsSentOverAnotherConnectionSoon() throws Exception {
        through((server, relay, client) -> {
            withdrawLate(server, relay, client.lock("job").token("me"));
            Expect.takes(0, 4_000, () -> {
                Server.until("it is withdrawn", () -> server.ask("INFO", "commandstats").toString().contains("lock.release:calls=1,"));
            });
        });
    }

    /** Cancels a wait when nothing goes through for a while. */
    private static void withdrawLate(Server server, Relay relay, Lock lock) throws Exception {
        server.ask("LOCK.ACQUIRE", "job", "TOKEN", "other", "PX", 60_000);
        CompletableFuture<Hold> asked = lock.acquireAsync(ofMinutes(1));
        Server.until("it waits", () -> server.waiters() == 1);
        relay.lateMs = 6_000;
        relay.late = relay.made.get();
        asked.cancel(true);
    }

    public static void aShorterLeaseThatIsLateDoesNotCutALongerOneShort() throws Exception {
        for (Duration before : List.of(ofMinutes(1), ofSeconds(8))) {
            through((server, relay, client) -> {
                Hold hold = client.lock("job").lease(before).acquire();
                relay.lateMs = 3_000;
                relay.late = relay.made.get();
                Expect.fails(UnreachableException.class, () -> hold.extend(ofSeconds(8)));
                isLong(hold);
            });
        }
    }

    /** The request that was not answered renews the hold when it comes. */
    public static void aRequestThatIsLateDoesNotCutALongerLeaseShort() throws Exception {
        through((server, relay, client) -> {
            relay.lateMs = 3_000;
            relay.late = relay.made.get();
            isLong(client.lock("job").lease(ofSeconds(8)).acquire(ofSeconds(20)));
        });
    }

    /** Extends the hold, and sees that it lasts. */
    private static void isLong(Hold hold) throws Exception {
        extend(hold);
        Thread.sleep(10_000);
        Expect.that(hold.isHeld() && hold.isOwned(), hold);
        hold.release();
    }

    static void extend(Hold hold) throws Exception {
        Server.until("it is extended", () -> {
            try {
                hold.extend(ofMinutes(1));
                return true;
            } catch (UnreachableException silent) {
                return false;
            }
        });
    }

    /** It was released before another one asked for it to be ended, or after that: nobody knows. */
    public static void aReleaseWhoseAnswerWasLostIsSureOnlyIfItDidIt() throws Exception {
        through((server, relay, client) -> {
            Hold hold = client.lock("job").acquire();
            relay.lateMs = 60_000;
            relay.late = relay.made.get();
            CompletableFuture<Void> released = hold.releaseAsync();
            server.ask("DEL", "job");
            Expect.fails(NotReleasedException.class, () -> Expect.value(released));
            // It is sure if something of it is there.
            relay.late = 0;
            Hold both = client.lock("one", "two").acquire(ofSeconds(10));
            relay.late = relay.made.get();
            CompletableFuture<Void> part = both.releaseAsync();
            server.ask("DEL", "two");
            Expect.fails(LostException.class, () -> Expect.value(part));
            relay.late = 0;
            Hold again = client.lock("job").acquire(ofSeconds(10));
            relay.late = relay.made.get();
            again.release();
            Expect.same(server.locks(), 0L);
        });
    }

    /** Nobody would know of the hold. */
    public static void aRequestThatIsLateLeavesNoHold() throws Exception {
        through((server, relay, client) -> {
            relay.lateMs = 3_000;
            relay.late = relay.made.get();
            client.lock("job").lease(ofMinutes(1)).acquire(ofSeconds(20)).release();
            Thread.sleep(4_000);
            Expect.same(server.locks(), 0L);
        });
    }

    /** The thread of a cancelled future hears of it a moment later. */
    static Hold later(Lock lock) throws Exception {
        List<Hold> granted = new ArrayList<>();
        Server.until("the token has left", () -> {
            try {
                return granted.add(lock.acquire(ofSeconds(10)));
            } catch (lockstock.AlreadyHeldException stillAsks) {
                return false;
            }
        });
        return granted.get(0);
    }

    /** The server has extended the first hold, though it did not hear of it; asked again, it gives the same hold. */
    public static void aReleaseOfALostHoldDoesNotEndALaterOneWithItsFence() throws Exception {
        through((server, relay, client) -> {
            Lock lock = client.lock("job").token("me").lease(ofSeconds(4));
            Hold first = lock.acquire();
            relay.dead = Integer.MAX_VALUE;
            server.ask("LOCK.EXTEND", "job", "me", "PX", 60_000);
            first.lost().get(10, TimeUnit.SECONDS);
            relay.dead = relay.made.get();
            Hold second = lock.acquire(ofSeconds(10));
            Expect.same(second.fence(), first.fence());
            Expect.fails(LostException.class, first::release);
            Expect.same(server.locks(), 1L);
            second.release();
        });
    }
}
