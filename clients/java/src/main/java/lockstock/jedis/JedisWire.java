package lockstock.jedis;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import lockstock.Library.Wire;
import lockstock.ServerException;
import lockstock.UnsentException;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;

/**
 * A connection of Jedis that any number of threads share: what they send goes in batches, by one thread at a time, which is there while something is
 * unanswered.
 */
final class JedisWire implements Wire {
    private static final int BATCH = 128;
    /** After how long without an answer the connection may have ended, which Jedis does not notice by itself. */
    private static final long IDLE = TimeUnit.SECONDS.toNanos(1);
    private static final List<byte[]> PING = List.of("PING".getBytes(StandardCharsets.UTF_8));

    private record Sent(List<byte[]> words, CompletableFuture<Object> reply) {}

    private final Connection connection;
    private final Queue<Sent> queue = new ArrayDeque<>();
    private boolean busy, closed;
    /** Of the thread that works. */
    private volatile long answered = System.nanoTime();

    JedisWire(Connection connection) {
        this.connection = connection;
    }

    @Override
    public CompletableFuture<Object> send(List<byte[]> words) {
        CompletableFuture<Object> reply = new CompletableFuture<>();
        Throwable why = null;
        synchronized (this) {
            if (!closed) {
                queue.add(new Sent(words, reply));
                if (busy) return reply;
                try {
                    OverJedis.POOL.execute(this::work);
                    busy = true;
                    return reply;
                } catch (RuntimeException | OutOfMemoryError noThread) {
                    queue.clear();
                    why = noThread;
                }
            }
        }
        reply.completeExceptionally(new UnsentException(why == null ? ended(null) : why));
        return reply;
    }

    private static JedisConnectionException ended(Throwable why) {
        return new JedisConnectionException("the connection has ended", why);
    }

    @Override
    public synchronized boolean isOpen() {
        return !closed && !connection.isBroken();
    }

    @Override
    public void close() {
        // Whatever is written to a server that does not read would be waited for by an orderly end.
        close(null);
    }

    private void close(Throwable why) {
        List<Sent> unanswered;
        synchronized (this) {
            if (closed) return;
            closed = true;
            unanswered = new ArrayList<>(queue);
            queue.clear();
        }
        try {
            connection.forceDisconnect();
        } catch (IOException | RuntimeException gone) {
            // It is gone.
        }
        for (Sent one : unanswered) one.reply.completeExceptionally(new UnsentException(ended(why)));
    }

    private void work() {
        List<Sent> batch = new ArrayList<>();
        while (take(batch)) {
            int done = 0;
            boolean sent = false;
            try {
                if (System.nanoTime() - answered > IDLE) {
                    connection.sendCommand(arguments(PING));
                    try {
                        read();
                    } catch (ServerException alive) {
                        // The commands are told as much.
                    }
                }
                sent = true;
                for (Sent one : batch) connection.sendCommand(arguments(one.words));
                for (; done < batch.size(); done++) {
                    CompletableFuture<Object> reply = batch.get(done).reply;
                    try {
                        reply.complete(read());
                    } catch (ServerException said) {
                        reply.completeExceptionally(said);
                    }
                }
            } catch (RuntimeException | LinkageError error) {
                close(error);
                RuntimeException end = sent ? ended(error) : new UnsentException(error);
                for (Sent one : batch.subList(done, batch.size())) one.reply.completeExceptionally(end);
            }
        }
    }

    private Object read() {
        try {
            return plain(connection.getOne());
        } catch (JedisDataException said) {
            throw new ServerException(String.valueOf(said.getMessage()), said);
        } finally {
            answered = System.nanoTime();
        }
    }

    private synchronized boolean take(List<Sent> batch) {
        batch.clear();
        while (batch.size() < BATCH && !queue.isEmpty()) batch.add(queue.remove());
        if (batch.isEmpty()) busy = false;
        return busy;
    }

    private static CommandArguments arguments(List<byte[]> words) {
        byte[] name = words.get(0);
        CommandArguments arguments = new CommandArguments(() -> name);
        for (byte[] word : words.subList(1, words.size())) arguments.add(word);
        return arguments;
    }

    /** A map of RESP3 is a list of pairs in Jedis; a simple string comes as bytes, too. */
    private static Object plain(Object reply) {
        if (!(reply instanceof List<?> list)) return reply;
        List<Object> plain = new ArrayList<>(list.size());
        for (Object one : list) {
            if (one instanceof KeyValue<?, ?> pair) {
                plain.add(plain(pair.getKey()));
                plain.add(plain(pair.getValue()));
            } else {
                plain.add(plain(one));
            }
        }
        return plain;
    }
}
