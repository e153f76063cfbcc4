package lockstock;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads replies. */
final class Answers {
    private Answers() {}

    /** The reply with text for bytes, also within. */
    static Object plain(Object reply) {
        if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        if (reply instanceof List<?> list) {
            List<Object> plain = new ArrayList<>(list.size());
            for (Object one : list) plain.add(plain(one));
            return plain;
        }
        if (reply instanceof Map<?, ?> map) {
            Map<Object, Object> plain = new LinkedHashMap<>();
            map.forEach((name, value) -> plain.put(plain(name), plain(value)));
            return plain;
        }
        return reply;
    }

    static RefusedException unexpected(Object reply) {
        return new RefusedException("unexpected reply " + reply, null);
    }

    /** The row of so many values, at least. */
    static List<?> row(Object reply, int values) {
        if (reply instanceof List<?> row && row.size() >= values) return row;
        throw unexpected(reply);
    }

    /** The values of an answer that is a map with RESP3 and a flat list with RESP2. */
    static Map<?, ?> fields(Object reply) {
        if (reply instanceof Map<?, ?> map) return map;
        Map<Object, Object> map = new LinkedHashMap<>();
        List<?> pairs = row(reply, 0);
        for (int at = 0; at + 1 < pairs.size(); at += 2) map.put(pairs.get(at), pairs.get(at + 1));
        return map;
    }

    static long number(Object value) {
        if (value instanceof Long number) return number;
        throw unexpected(value);
    }

    static String text(Object value) {
        if (value instanceof String text) return text;
        throw unexpected(value);
    }

    static Optional<Instant> moment(Object value) {
        long at = number(value);
        return at <= 0 ? Optional.empty() : Optional.of(Instant.ofEpochMilli(at));
    }

    /** The fence of a grant; 0: others have the lock. */
    static long fence(Object reply) {
        return reply == null ? 0 : number(row(reply, 3).get(1));
    }

    static Outcome outcome(Object reply) {
        List<?> row = row(reply, 5);
        return new Outcome(Status.of(text(row.get(0))), number(row.get(1)), number(row.get(2)), moment(row.get(3)), text(row.get(4)));
    }

    static Cart cart(Object reply) {
        List<?> row = row(reply, 2);
        List<Outcome> legs = new ArrayList<>();
        for (Object leg : row.subList(1, row.size())) legs.add(outcome(leg));
        return new Cart(Status.of(text(row.get(0))), List.copyOf(legs));
    }

    static Placed placed(String id, Object reply) {
        Map<?, ?> found = fields(reply);
        long place = found.get("place") instanceof Long at ? at : 0;
        return new Placed(id, State.of(text(found.get("state"))), number(found.get("units")), text(found.get("buyer")), text(found.get("ref")),
            moment(found.get("deadline")), place);
    }

    static Placed placed(Object reply) {
        List<?> row = row(reply, 6);
        return new Placed(text(row.get(0)), State.of(text(row.get(1))), number(row.get(2)), text(row.get(3)), text(row.get(4)),
            moment(row.get(5)), 0);
    }

    static Sale sale(Object reply) {
        Map<?, ?> found = fields(reply);
        Map<String, Long> counters = new LinkedHashMap<>();
        for (String name : List.of("ok", "duplicate", "soldout", "limited", "expired", "cancelled", "confirmed")) {
            counters.put(name, number(found.get(name)));
        }
        return new Sale(number(found.get("total")), number(found.get("remaining")), number(found.get("held")), number(found.get("sold")),
            number(found.get("orders")), number(found.get("buyers")), number(found.get("waiting")), number(found.get("limit")),
            moment(found.get("start")), moment(found.get("end")), "yes".equals(found.get("rebuy")), text(found.get("stream")),
            "yes".equals(found.get("deadlines")), number(found.get("seq")), Map.copyOf(counters));
    }
}
