import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;

/** A real server, which the test owns: LOCKSTOCK_SERVER names it, LOCKSTOCK_MODULE the module. */
final class Server implements AutoCloseable {
    private static final String PROGRAM = env("LOCKSTOCK_SERVER", "redis-server");
    private static final String MODULE = Path.of(env("LOCKSTOCK_MODULE", "target/release/liblockstock.so")).toAbsolutePath().toString();

    final int port;
    private final Path folder;
    private final Process process;
    private final List<Server> beside = new ArrayList<>();
    /** Looks at the server, by a way of its own. */
    private Connection eye;

    private static String env(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    static Server start(String... options) throws Exception {
        return new Server(true, null, options);
    }

    static Server plain(String... options) throws Exception {
        return new Server(false, null, options);
    }

    /** Watches over the primary at this port. */
    static Server sentinel(int primary) throws Exception {
        return new Server(false, "sentinel monitor main 127.0.0.1 " + primary + " 1\nsentinel down-after-milliseconds main 1000\n", "--sentinel");
    }

    private Server(boolean module, String file, String... options) throws Exception {
        folder = Files.createTempDirectory("lockstock-java-");
        port = free();
        List<String> words = new ArrayList<>(List.of(PROGRAM));
        if (file != null) {
            Path settings = folder.resolve("settings");
            Files.writeString(settings, file);
            words.add(settings.toString());
        }
        words.addAll(List.of("--port", "" + port, "--bind", "127.0.0.1", "--dir", folder.toString()));
        if (file == null) words.addAll(List.of("--save", ""));
        if (module) words.addAll(List.of("--loadmodule", MODULE));
        words.addAll(List.of(options));
        File log = folder.resolve("log").toFile();
        process = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log).start();
        until("the server answers", () -> {
            try {
                return "PONG".equals(ask("PING"));
            } catch (JedisException notYet) {
                if (!process.isAlive()) throw new AssertionError(Files.readString(log.toPath()));
                return false;
            }
        });
    }

    /** A port of which the one 10,000 above is free, too, for the bus of a cluster. */
    private static int free() {
        for (int attempt = 0; attempt < 200; attempt++) {
            int port = ThreadLocalRandom.current().nextInt(12_000, 22_000);
            try (ServerSocket one = new ServerSocket(port, 1, InetAddress.getLoopbackAddress());
                    ServerSocket two = new ServerSocket(port + 10_000, 1, InetAddress.getLoopbackAddress())) {
                return one.getLocalPort();
            } catch (IOException taken) {
                // Another one.
            }
        }
        throw new AssertionError("no port is free");
    }

    HostAndPort address() {
        return new HostAndPort("127.0.0.1", port);
    }

    String url() {
        return "redis://127.0.0.1:" + port;
    }

    /** Starts another server that ends with this one. */
    Server replica() throws Exception {
        Server replica = start("--replicaof", "127.0.0.1 " + port, "--repl-diskless-sync-delay", "0");
        beside.add(replica);
        until("it follows", () -> ((String) replica.ask("INFO", "replication")).contains("master_link_status:up"));
        return replica;
    }

    synchronized Object ask(Object... words) {
        try {
            return tell(words);
        } catch (JedisConnectionException cut) {
            return tell(words);
        }
    }

    /** Asks for a key of a slot that is on its way here. */
    synchronized void asking(Object... words) {
        tell("ASKING");
        tell(words);
    }

    private Object tell(Object... words) {
        if (eye == null) eye = new Connection(address(), DefaultJedisClientConfig.builder().socketTimeoutMillis(10_000).build());
        String name = words[0].toString();
        CommandArguments command = new CommandArguments(() -> name.getBytes(StandardCharsets.UTF_8));
        for (int at = 1; at < words.length; at++) command.add(words[at].toString());
        try {
            return text(eye.executeCommand(command));
        } finally {
            if (eye.isBroken()) {
                eye.close();
                eye = null;
            }
        }
    }

    private static Object text(Object reply) {
        if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        return reply instanceof List<?> list ? list.stream().map(Server::text).toList() : reply;
    }

    boolean exists(String key) {
        return ask("EXISTS", key).equals(1L);
    }

    long waiters() {
        return field("lockstock_lock_waiters");
    }

    long locks() {
        return field("lockstock_locks_held");
    }

    private long field(String name) {
        return ((String) ask("INFO", "lockstock")).lines().filter(line -> line.startsWith(name + ":")).map(line -> line.substring(name.length() + 1))
            .mapToLong(Long::parseLong).findFirst().orElseThrow();
    }

    void cut() {
        ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    }

    /** Stops the process, so that its connections stand and no answer comes. */
    AutoCloseable freeze() throws Exception {
        signal("STOP");
        return () -> signal("CONT");
    }

    private void signal(String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).inheritIO().start().waitFor();
    }

    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    @Override
    public void close() throws Exception {
        for (Server one : beside) one.close();
        kill();
        if (eye != null) eye.close();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
        }
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); !condition.call(); Thread.sleep(5)) {
            if (System.nanoTime() - end > 0) throw new AssertionError("never: " + what);
        }
    }
}
