import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A network to a server. */
final class Relay implements AutoCloseable {
    /** How long what goes through it takes, in each direction. */
    volatile long delayMs;
    /** Whether a connection ends in place of its next answer. */
    volatile boolean cut;
    /** How many connections there were. */
    final AtomicInteger made = new AtomicInteger();
    /** How many of them, the first ones, are dead without a word. */
    volatile int dead;
    /** How many of them, the first ones, are late with what is asked, and by how much. What is under way is gone when one is reset. */
    volatile int late;
    volatile long lateMs;
    /** What overtakes the next request of a kind, or null. */
    volatile Overtakes overtakes;
    private final ServerSocket door;
    private final Server server;

    /**
     * Has the connection of the next request with this word cut, the network be dead from then on if it says so, and the request come to the server so
     * much later.
     */
    record Overtakes(String word, long ms, boolean dead) {}

    private record Parcel(byte[] bytes, long due) implements Delayed {
        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(due, ((Parcel) other).due);
        }
    }

    Relay(Server server) throws IOException {
        this.server = server;
        door = new ServerSocket(0, 200, InetAddress.getLoopbackAddress());
        begin(this::open);
    }

    int port() {
        return door.getLocalPort();
    }

    private void open() throws Exception {
        while (true) {
            Socket near = door.accept();
            try {
                Socket far = new Socket(InetAddress.getLoopbackAddress(), server.port);
                int number = made.incrementAndGet();
                carry(near, far, number, false);
                carry(far, near, number, true);
            } catch (IOException gone) {
                near.close();
            }
        }
    }

    private void carry(Socket from, Socket to, int number, boolean answers) {
        DelayQueue<Parcel> parcels = new DelayQueue<>();
        begin(() -> {
            try (to) {
                for (Parcel one = parcels.take(); one.bytes.length > 0; one = parcels.take()) to.getOutputStream().write(one.bytes);
            }
        });
        begin(() -> {
            byte[] bytes = new byte[1 << 16];
            boolean lost = false;
            long last = 0;
            try (from) {
                for (int count = from.getInputStream().read(bytes); count > 0 && !(answers && cut); count = from.getInputStream().read(bytes)) {
                    lost = lost || number <= dead;
                    // In order, though the delay is less than it was.
                    long delay = !answers && number <= late ? lateMs : delayMs;
                    last = Math.max(last + 1, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(delay));
                    Overtakes one = answers ? null : overtaken(bytes, count);
                    if (one != null) last = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(one.ms);
                    if (!lost) parcels.add(new Parcel(java.util.Arrays.copyOf(bytes, count), last));
                    if (one != null) break;
                }
            } catch (IOException reset) {
                if (number <= late) parcels.clear();
                last = 0;
            } finally {
                parcels.add(new Parcel(new byte[0], last + 1));
            }
        });
    }

    private synchronized Overtakes overtaken(byte[] bytes, int count) {
        Overtakes one = overtakes;
        if (one == null || !new String(bytes, 0, count, StandardCharsets.ISO_8859_1).contains(one.word)) return null;
        overtakes = null;
        if (one.dead) dead = Integer.MAX_VALUE;
        return one;
    }

    private static void begin(Expect.Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Exception over) {
                // The connection has ended.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        door.close();
    }
}
