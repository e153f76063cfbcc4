/** Has lockstock speak over Jedis. */
package lockstock.jedis;
