import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import lockstock.Client;
import lockstock.lettuce.OverLettuce;

/**
 * Locks and orders over Lettuce. Its client goes on being used for everything else.
 *
 * <pre>java -cp 'lockstock.jar:jars/*' WithLettuce redis://127.0.0.1:6379</pre>
 */
public final class WithLettuce {
    private WithLettuce() {}

    public static void main(String[] args) throws Exception {
        RedisURI uri = RedisURI.create(args.length > 0 ? args[0] : "redis://127.0.0.1:6379");
        try (RedisClient lettuce = RedisClient.create(uri); Client client = OverLettuce.of(lettuce, uri)) {
            Story.tell(client);
        }
    }
}
