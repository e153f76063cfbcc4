import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import io.lettuce.core.RedisURI;
import lockstock.Client;
import lockstock.UnreachableException;
import lockstock.jedis.OverJedis;
import lockstock.lettuce.OverLettuce;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;

/**
 * Runs the tests: those that take a server and a client over each library, with a server of their own, and those that take nothing once.
 *
 * <pre>java -cp … Run [a part of a name …]</pre>
 */
public final class Run {
    private static final int AT_A_TIME = 2;

    /** A client of a library, and how to end that. */
    record Connected(Client client, AutoCloseable library) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            client.close();
            library.close();
        }
    }

    interface Connect {
        Connected to(int port) throws Exception;
    }

    static final Connect JEDIS = port -> {
        // A pool that is exhausted by one user must not hold anything up.
        ConnectionPoolConfig one = new ConnectionPoolConfig();
        one.setMaxTotal(1);
        RedisClient jedis = RedisClient.builder().hostAndPort(new HostAndPort("127.0.0.1", port)).poolConfig(one).build();
        return new Connected(OverJedis.of(jedis), jedis);
    };

    static final Connect LETTUCE = port -> {
        RedisURI uri = RedisURI.create("redis://127.0.0.1:" + port);
        var lettuce = io.lettuce.core.RedisClient.create(uri);
        return new Connected(OverLettuce.of(lettuce, uri), lettuce);
    };

    private record Case(String name, Expect.Step step) {}

    public static void main(String[] args) throws Exception {
        warm();
        List<Case> cases = new ArrayList<>();
        for (Class<?> tests : List.of(ClockTests.class, LockTests.class, ArgumentTests.class, TroubleTests.class, NetworkTests.class, LateTests.class, RefusalTests.class, StockTests.class,
                ClusterTests.class, SentinelTests.class, PageTests.class, StormTests.class)) {
            Method[] methods = tests.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (!Modifier.isPublic(method.getModifiers())) continue;
                String name = tests.getSimpleName() + "." + method.getName();
                if (method.getParameterCount() == 0) {
                    cases.add(new Case(name, () -> call(method)));
                } else {
                    cases.add(new Case(name + " over Jedis", () -> play(method, JEDIS)));
                    cases.add(new Case(name + " over Lettuce", () -> play(method, LETTUCE)));
                }
            }
        }
        if (args.length > 0) cases.removeIf(one -> Arrays.stream(args).noneMatch(one.name::contains));
        ExecutorService workers = Executors.newFixedThreadPool(AT_A_TIME);
        List<Future<Boolean>> results = new ArrayList<>();
        for (Case one : cases) results.add(workers.submit(() -> passes(one)));
        int failed = 0;
        for (Future<Boolean> result : results) if (!result.get()) failed++;
        System.out.printf("%d passed, %d failed%n", cases.size() - failed, failed);
        System.exit(failed == 0 && !cases.isEmpty() ? 0 : 1);
    }

    /** What a process does for the first time takes seconds on a machine that is busy. */
    private static void warm() throws Exception {
        for (Connect connect : List.of(JEDIS, LETTUCE)) {
            try (Server server = Server.start(); Connected connected = connect.to(server.port)) {
                Server.until("the first request is answered", () -> {
                    try {
                        return !connected.client().lock("first").isLocked();
                    } catch (UnreachableException busy) {
                        return false;
                    }
                });
            }
        }
    }

    private static boolean passes(Case one) {
        long begun = System.nanoTime();
        try {
            one.step.run();
            System.out.printf("ok: %s (%.1f s)%n", one.name, (System.nanoTime() - begun) / 1e9);
            return true;
        } catch (Throwable error) {
            synchronized (System.out) {
                System.out.println("FAILED: " + one.name);
                error.printStackTrace(System.out);
            }
            return false;
        }
    }

    private static void play(Method method, Connect connect) throws Exception {
        try (Server server = Server.start(); Connected connected = connect.to(server.port)) {
            call(method, server, connected.client());
        }
    }

    private static void call(Method method, Object... arguments) throws Exception {
        try {
            method.invoke(null, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Error cause) throw cause;
            throw (Exception) error.getCause();
        }
    }
}
