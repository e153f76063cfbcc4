/**
 * Distributed locks and flash-sale stock, kept by the Redis and Valkey module lockstock, over Jedis or Lettuce.
 *
 * <pre>{@code
 * try (Client client = OverJedis.of(jedis)) {                       // or OverLettuce; one for the whole process
 *     Lock lock = client.lock("job:42");                            // a description; threads may share it
 *     try (Hold hold = lock.acquire(Duration.ofSeconds(10))) {      // else NotAcquiredException
 *         hold.lost().thenRun(work::stop);                          // extended until the block ends, or lost
 *         work.run(hold.fence());
 *     }
 * }
 * }</pre>
 */
package lockstock;
