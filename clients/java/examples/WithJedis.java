import java.net.URI;

import lockstock.Client;
import lockstock.jedis.OverJedis;
import redis.clients.jedis.RedisClient;

/**
 * Locks and orders over Jedis. Its client goes on being used for everything else.
 *
 * <pre>java -cp 'lockstock.jar:jars/*' WithJedis redis://127.0.0.1:6379</pre>
 */
public final class WithJedis {
    private WithJedis() {}

    public static void main(String[] args) throws Exception {
        URI url = URI.create(args.length > 0 ? args[0] : "redis://127.0.0.1:6379");
        try (RedisClient jedis = RedisClient.create(url); Client client = OverJedis.of(jedis)) {
            Story.tell(client);
        }
    }
}
