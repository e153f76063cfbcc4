/** Has lockstock speak over Lettuce. */
package lockstock.lettuce;
