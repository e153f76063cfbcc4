package lockstock.lettuce;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.models.role.RedisNodeDescription;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.NettyCustomizer;
import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.socket.SocketChannel;
import lockstock.Client;
import lockstock.Library;
import lockstock.ServerException;

/**
 * Has lockstock speak over Lettuce: with the resources and options of a client of Lettuce, but over connections of its own. One is shared by all that
 * does not wait; each wait has one for itself, which is kept for the next. They neither connect anew nor send anything again by themselves, which
 * would add to the waits of lockstock.
 *
 * <p>A client of Lettuce does not tell where it connects to, so that is asked for: the {@link RedisURI} that it was made with.
 */
public final class OverLettuce implements Library {
    /** How long it may take to connect. */
    private static final Duration PATIENCE = Duration.ofSeconds(2);

    private final RedisClient own;
    private final RedisURI uri;
    /** The nodes of a cluster, or null. */
    private final Supplier<List<String>> nodes;
    private final Set<LettuceWire> wires = ConcurrentHashMap.newKeySet();

    private OverLettuce(ClientResources resources, ClientOptions options, RedisURI uri, Supplier<List<String>> nodes) {
        this.uri = hasty(Objects.requireNonNull(uri, "where the client connects to, not null"));
        this.nodes = nodes;
        own = RedisClient.create(resetting(resources));
        own.setOptions(options.mutate().autoReconnect(false).disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
            .timeoutOptions(TimeoutOptions.create()).build());
    }

    /** The same resources, but a connection that is closed sends nothing any more: what was given up must not arrive after what is sent next. */
    private static ClientResources resetting(ClientResources shared) {
        NettyCustomizer theirs = shared.nettyCustomizer(), ours = new NettyCustomizer() {
            @Override
            public void afterBootstrapInitialized(Bootstrap bootstrap) {
                theirs.afterBootstrapInitialized(bootstrap);
            }

            @Override
            public void afterChannelInitialized(Channel channel) {
                theirs.afterChannelInitialized(channel);
                if (channel instanceof SocketChannel tcp) tcp.config().setSoLinger(0);
            }
        };
        Class<?>[] resources = {ClientResources.class};
        return (ClientResources) Proxy.newProxyInstance(ClientResources.class.getClassLoader(), resources,
            (proxy, method, arguments) -> method.getName().equals("nettyCustomizer") ? ours : method.invoke(shared, arguments));
    }

    /**
     * A client for one server, or for the primary that Sentinel names.
     *
     * @param client any number of threads may go on using it
     * @param uri what it was made with: {@code redis://…}, {@code rediss://…} or {@code redis-sentinel://…}
     * @return one for the whole process
     */
    public static Client of(RedisClient client, RedisURI uri) {
        return new Client(new OverLettuce(client.getResources(), client.getOptions(), uri, null));
    }

    /**
     * A client for a cluster.
     *
     * @param client it knows the nodes
     * @param uri one of those that it was made with
     * @return one for the whole process
     */
    public static Client of(RedisClusterClient client, RedisURI uri) {
        return new Client(new OverLettuce(client.getResources(), client.getOptions(), uri, () -> addresses(client)));
    }

    /** The same, but a server that does not greet is not waited for. */
    private static RedisURI hasty(RedisURI uri) {
        RedisURI.Builder builder = RedisURI.builder(uri).withTimeout(PATIENCE);
        uri.getSentinels().forEach(builder::withSentinel);
        if (uri.getSentinelMasterId() != null) builder.withSentinelMasterId(uri.getSentinelMasterId());
        return builder.build();
    }

    private static List<String> addresses(RedisClusterClient client) {
        List<String> addresses = new ArrayList<>();
        for (RedisClusterNode node : client.getPartitions()) {
            if (node.getRole() == RedisNodeDescription.Role.UPSTREAM) addresses.add(node.getUri().getHost() + ":" + node.getUri().getPort());
        }
        return addresses;
    }

    @Override
    public boolean cluster() {
        return nodes != null;
    }

    @Override
    public List<String> nodes() {
        return nodes == null ? List.of("") : nodes.get();
    }

    @Override
    public CompletableFuture<Wire> open(String address) {
        RedisURI there = uri;
        if (!address.isEmpty()) {
            int colon = address.lastIndexOf(':');
            there = RedisURI.builder(uri).withHost(address.substring(0, colon)).withPort(Integer.parseInt(address.substring(colon + 1))).build();
        }
        return own.connectAsync(ByteArrayCodec.INSTANCE, there).toCompletableFuture().handle((connection, error) -> {
            if (error == null) {
                LettuceWire wire = new LettuceWire(connection, wires::remove);
                wires.add(wire);
                return wire;
            }
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof RedisCommandExecutionException) throw new ServerException(String.valueOf(cause.getMessage()), error);
            }
            throw new CompletionException(error);
        });
    }

    /** Waits for a while, for the resources are those of another client, which may be shut down next. */
    @Override
    public void close() {
        CompletableFuture<Void> over = CompletableFuture.allOf(wires.stream().map(LettuceWire::end).toArray(CompletableFuture[]::new))
            .handle((all, error) -> own.shutdownAsync(0, PATIENCE.toSeconds(), TimeUnit.SECONDS)).thenCompose(shutdown -> shutdown);
        try {
            over.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException hurry) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException slow) {
            // It goes on in the background.
        }
    }
}
