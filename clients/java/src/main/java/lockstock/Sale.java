package lockstock;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * The known state of a sale. The total is what remains, what is held and what is sold together.
 *
 * @param total how many units there are
 * @param remaining how many may be sold
 * @param held how many are reserved
 * @param sold how many are paid
 * @param orders how many orders are known
 * @param buyers how many buyers are known
 * @param waiting how many orders are on the waitlist
 * @param limit how many a buyer may have; 0: any number
 * @param start of its window
 * @param end of its window
 * @param rebuy whether an id whose order lapsed or was cancelled may buy again
 * @param stream the stream that has its changes, or an empty name
 * @param deadlines whether the stream has all that is needed to rebuild the orders
 * @param changes how many there were
 * @param counters how often this server has given each answer since it loaded the sale
 */
public record Sale(long total, long remaining, long held, long sold, long orders, long buyers, long waiting, long limit, Optional<Instant> start,
        Optional<Instant> end, boolean rebuy, String stream, boolean deadlines, long changes, Map<String, Long> counters) {}
