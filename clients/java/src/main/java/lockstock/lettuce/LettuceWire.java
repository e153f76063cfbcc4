package lockstock.lettuce;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionStateAdapter;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import lockstock.Library.Wire;
import lockstock.ServerException;
import lockstock.UnsentException;

/** A connection of Lettuce. */
final class LettuceWire implements Wire {
    /** The name of a command that Lettuce need not know. */
    private record Name(byte[] bytes) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return bytes;
        }

        @Override
        public String toString() {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    private final StatefulRedisConnection<byte[], byte[]> connection;
    private final Consumer<LettuceWire> gone;
    private volatile boolean ended;
    private CompletableFuture<Void> closed;

    LettuceWire(StatefulRedisConnection<byte[], byte[]> connection, Consumer<LettuceWire> gone) {
        this.connection = connection;
        this.gone = gone;
        connection.addListener(new RedisConnectionStateAdapter() {
            @Override
            public void onRedisDisconnected(RedisChannelHandler<?, ?> handler) {
                ended = true;
            }
        });
    }

    @Override
    public CompletableFuture<Object> send(List<byte[]> words) {
        if (!isOpen()) return CompletableFuture.failedFuture(new UnsentException(new RedisException("the connection has ended")));
        CommandArgs<byte[], byte[]> arguments = new CommandArgs<>(ByteArrayCodec.INSTANCE);
        for (byte[] word : words.subList(1, words.size())) arguments.add(word);
        try {
            return connection.async().dispatch(new Name(words.get(0)), new Reply(), arguments).toCompletableFuture().handle((reply, error) -> {
                if (error == null) return reply;
                Throwable cause = error instanceof CompletionException ? error.getCause() : error;
                if (cause instanceof RedisCommandExecutionException) throw new ServerException(String.valueOf(cause.getMessage()), cause);
                throw new CompletionException(cause);
            });
        } catch (RuntimeException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    @Override
    public boolean isOpen() {
        return !ended && connection.isOpen();
    }

    @Override
    public void close() {
        end();
    }

    /** Closes the connection, and tells when that is done. Lettuce warns of one that is closed twice. */
    synchronized CompletableFuture<Void> end() {
        ended = true;
        if (closed == null) {
            closed = connection.closeAsync();
            closed.whenComplete((done, error) -> gone.accept(this));
        }
        return closed;
    }
}
