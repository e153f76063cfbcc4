import static java.time.Duration.ofMinutes;
import static java.time.Duration.ofSeconds;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import lockstock.Client;
import lockstock.Hold;
import lockstock.NotAcquiredException;
import lockstock.Order;
import lockstock.Outcome;
import lockstock.Stock;
import lockstock.lettuce.OverLettuce;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;

/**
 * Beans for Spring: one {@link Client} for the application, which Spring closes, and a service that uses it. In Spring Boot,
 * {@code @Configuration(proxyBeanMethods = false)} stands over the class, and nothing else changes.
 *
 * <pre>java -cp 'lockstock.jar:jars/*' WithSpring redis://127.0.0.1:6379</pre>
 */
public class WithSpring {
    @Bean
    public RedisURI lockstockUri(@Value("${spring.data.redis.url:redis://127.0.0.1:6379}") String url) {
        return RedisURI.create(url);
    }

    @Bean(destroyMethod = "shutdown")
    public RedisClient lockstockLettuce(RedisURI uri) {
        return RedisClient.create(uri);
    }

    @Bean
    public Client lockstock(RedisClient lettuce, RedisURI uri) {
        return OverLettuce.of(lettuce, uri);
    }

    @Bean
    public Shop shop(Client lockstock) {
        return new Shop(lockstock);
    }

    /** A service of the application. */
    public static class Shop {
        private final Client locks;
        private final Stock teapot;

        public Shop(Client locks) {
            this.locks = locks;
            this.teapot = locks.stock("teapot");
        }

        /** Only one instance of the application reports at a time; the others do nothing. For {@code @Scheduled}. */
        public boolean report() throws InterruptedException {
            try (Hold hold = locks.lock("job:report").acquire(ofSeconds(1))) {
                hold.guard("SET", "report", "done");
                return true;
            } catch (NotAcquiredException elsewhere) {
                return false;
            }
        }

        /** A request that is sent again has the same number, and reserves once. */
        public Outcome reserve(String number, String buyer) {
            return teapot.order(number, Order.one().buyer(buyer).hold(ofMinutes(10)));
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) System.setProperty("spring.data.redis.url", args[0]);
        try (AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(WithSpring.class)) {
            Shop shop = context.getBean(Shop.class);
            System.out.println("reported: " + shop.report());
            System.out.println("reserved: " + shop.reserve("order:1", "ann").status());
        }
    }
}
