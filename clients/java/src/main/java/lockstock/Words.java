package lockstock;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The words of a command on sales, as they are put together. */
final class Words {
    private final List<Object> words = new ArrayList<>();
    private final String sale;

    /** A command on one sale. */
    Words(String verb, String sale) {
        this.sale = sale;
        add("STOCK." + verb, sale);
    }

    /** A command on an order over several sales, which are added later. */
    Words(String verb, String id, List<String> sales) {
        sale = sales.get(0);
        add("STOCK." + verb, Check.name("an id", id), sales.size());
    }

    Words add(Object... more) {
        words.addAll(Arrays.asList(more));
        return this;
    }

    Words id(String id) {
        return add(Check.name("an id", id));
    }

    Words moment(String option, Instant at) {
        return at == null ? this : add(option, Check.moment("the " + option.toLowerCase(java.util.Locale.ROOT) + " of a sale", at));
    }

    Words span(String option, Duration hold) {
        return hold == null ? this : add(option, Check.ms(Check.span("a hold", hold).toNanos()));
    }

    Words order(Order order) {
        if (order.buyer() != null) add("BUYER", order.buyer());
        span("HOLD", order.hold());
        if (order.ref() != null) add("REF", order.ref());
        return this;
    }

    Object ask(Client client, boolean repeatable) {
        return client.get("the sale " + sale, client.servers.ask(Command.of(sale, words), Servers.PATIENCE, repeatable));
    }
}
