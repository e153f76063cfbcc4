import static java.time.Duration.ofHours;
import static java.time.Duration.ofMinutes;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

import lockstock.Buyer;
import lockstock.Cart;
import lockstock.Change;
import lockstock.Client;
import lockstock.Leg;
import lockstock.NoSaleException;
import lockstock.Order;
import lockstock.Outcome;
import lockstock.Placed;
import lockstock.Sale;
import lockstock.SaleExistsException;
import lockstock.State;
import lockstock.Status;
import lockstock.Stock;
import lockstock.Terms;

/** What sales do. */
final class StockTests {
    private StockTests() {}

    public static void aSaleFromItsCreationToItsEnd(Server server, Client client) throws Exception {
        Stock mug = client.stock("mug");
        Expect.same(mug.order("ann", Order.one()).status(), Status.NOSTOCK);
        Expect.same(mug.info(), Optional.empty());
        Expect.same(mug.buyer("ann"), Optional.empty());
        Expect.same(mug.orders().count(), 0L);
        Expect.fails(NoSaleException.class, () -> mug.adjust(1));
        Expect.fails(NoSaleException.class, () -> mug.alter(Change.none().noLimit()));
        Instant now = Instant.now().truncatedTo(ChronoUnit.MILLIS), start = now.minusSeconds(3_600), end = now.plusSeconds(3_600);
        Terms terms = Terms.none().limit(4).start(start).end(end).rebuy().stream("mug:events").deadlines();
        mug.create(6, terms);
        Expect.fails(SaleExistsException.class, () -> mug.create(6, terms));

        Order order = Order.of(3).buyer("ann").ref("r").hold(ofMinutes(1));
        Outcome taken = mug.order("one", order);
        Expect.same(taken, new Outcome(Status.OK, 3, 3, taken.deadline(), "r"));
        Instant deadline = taken.deadline().orElseThrow();
        Expect.that(taken.isDone() && deadline.isAfter(now.plusSeconds(50)) && deadline.isBefore(Instant.now().plusSeconds(61)), deadline);
        Expect.same(mug.order("one", order).status(), Status.DUPLICATE);
        Expect.same(mug.order("two", Order.of(2).buyer("ann")).status(), Status.LIMIT);
        Expect.same(mug.buyer("ann"), Optional.of(new Buyer(3, 4)));
        Expect.that(mug.extend("one", ofHours(1)).deadline().orElseThrow().isAfter(deadline), "it is later");
        Expect.same(mug.confirm("one", 2).units(), 2L);
        Expect.same(mug.cancel("one", 1).remaining(), 5L);
        Expect.same(mug.order("bob", Order.of(4)).status(), Status.OK);
        Expect.same(mug.order("cid", Order.of(2).waitlist()).status(), Status.QUEUED);
        Placed waits = mug.look("cid").orElseThrow();
        Expect.same(waits, new Placed("cid", State.WAITING, 0, "cid", "", Optional.empty(), 1));
        Expect.same(mug.adjust(2, "restock"), 1L);
        Expect.same(mug.adjust(2, "restock"), 1L);
        Expect.same(mug.adjust(1), 2L);
        Expect.same(mug.look("cid"), Optional.of(new Placed("cid", State.SOLD, 2, "cid", "", Optional.empty(), 0)));
        Expect.same(mug.look("nobody"), Optional.empty());
        Expect.same(mug.confirm("nobody").status(), Status.NOORDER);

        Sale info = mug.info().orElseThrow();
        Expect.that(info.total() == 9 && info.remaining() + info.held() + info.sold() == 9, info);
        Expect.that(info.start().equals(Optional.of(start)) && info.end().equals(Optional.of(end)) && info.rebuy(), info);
        Expect.that(info.stream().equals("mug:events") && info.deadlines() && info.limit() == 4 && info.orders() == 3 && info.counters().get("ok") > 0, info);
        mug.alter(Change.none().noLimit().noStart().noEnd().rebuy(false));
        info = mug.info().orElseThrow();
        Expect.that(info.limit() == 0 && info.start().isEmpty() && info.end().isEmpty() && !info.rebuy(), info);
        mug.alter(Change.none().limit(1).limit(7).start(end).end(end.plusSeconds(1)).rebuy(true));
        info = mug.info().orElseThrow();
        Expect.that(info.limit() == 7 && info.start().equals(Optional.of(end)) && info.rebuy(), info);
        Outcome early = mug.order("dan", Order.one());
        Expect.that(early.status() == Status.NOTSTARTED && early.deadline().equals(Optional.of(end)), early);
        Expect.same(mug.cancel("bob").status(), Status.OK);
        Expect.same(mug.look("bob").orElseThrow().state(), State.CANCELLED);
    }

    public static void allOrdersOfASale(Server server, Client client) throws Exception {
        Stock mug = client.stock("mug");
        mug.create(2_000);
        LockTests.crowd(8, () -> {
            for (int number = 0; number < 1_200; number++) mug.order("" + number, Order.one().hold(ofHours(1)));
        });
        mug.confirm("7");
        Set<String> found = new HashSet<>();
        mug.orders().forEach(order -> {
            Expect.same(order.units(), 1L);
            found.add(order.id());
        });
        Expect.same(found.size(), 1_200);
        Expect.same(mug.orders(State.SOLD).map(Placed::id).toList(), List.of("7"));
        Expect.that(mug.orders(State.HELD).findFirst().orElseThrow().deadline().isPresent(), "it goes back");
    }

    public static void aCartIsTakenAsAWholeOrNotAtAll(Server server, Client client) throws Exception {
        client.stock("there").create(1);
        client.stock("back").create(1);
        List<Leg> trip = List.of(new Leg("there"), new Leg("back", 1));
        Order order = Order.one().buyer("ann").ref("r").hold(ofMinutes(1));
        Cart cart = client.orderAll("1", trip, order);
        Expect.that(cart.isDone() && cart.legs().size() == 2 && cart.legs().get(1).units() == 1, cart);
        Placed back = client.stock("back").look("1").orElseThrow();
        Expect.same(back, new Placed("1", State.HELD, 1, "ann", "r", back.deadline(), 0));
        Expect.that(back.deadline().orElseThrow().isAfter(Instant.now().plusSeconds(50)), back);
        Expect.same(client.orderAll("1", trip, order).status(), Status.DUPLICATE);
        Expect.same(client.confirmAll("1", List.of("there", "back")).status(), Status.OK);
        Expect.same(client.cancelAll("1", List.of("back")).status(), Status.OK);
        Cart refused = client.orderAll("2", trip, order);
        Expect.that(refused.status() == Status.SOLDOUT && refused.legs().get(1).status() == Status.SKIPPED && !refused.isDone(), refused);
    }

    public static void aHundredThreadsBuyNoMoreThanThereIs(Server server, Client client) throws Exception {
        Stock mug = client.stock("mug");
        mug.create(50);
        AtomicInteger sold = new AtomicInteger(), number = new AtomicInteger();
        LockTests.crowd(100, () -> {
            String id = "" + number.incrementAndGet();
            for (int time = 0; time < 3; time++) {
                if (mug.order(id, Order.one()).status() == Status.OK) sold.incrementAndGet();
            }
        });
        Expect.same(sold.get(), 50);
        Expect.that(server.ask("CLIENT", "LIST").toString().lines().count() < 10, "they share a connection");
    }
}
