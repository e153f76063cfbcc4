package lockstock;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Predicate;

import lockstock.Library.Wire;

/** Sends commands to the servers of their keys. */
final class Servers {
    static final int SLOTS = 16_384;
    /** How long a request that does not wait may take. */
    static final long PATIENCE = TimeUnit.SECONDS.toNanos(2);
    /** How long to wait before asking a server again that could not answer. */
    static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final int REDIRECTIONS = 5;
    /** For how long a server that did not answer is asked last. */
    private static final long SHUNNED = TimeUnit.SECONDS.toNanos(5);
    private static final List<byte[]> PING = Command.of("", "PING").words(), ASKING = Command.of("", "ASKING").words();

    private final Library library;
    private final Map<String, Node> nodes = new ConcurrentHashMap<>();
    private final Map<String, Long> failed = new ConcurrentHashMap<>();
    private final AtomicReferenceArray<String> slots = new AtomicReferenceArray<>(SLOTS);
    private final Set<Line> lines = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean mapping = new AtomicBoolean();
    private volatile boolean closed;

    Servers(Library library) {
        this.library = library;
    }

    /** The client is closed: asking again does not help. */
    static final class Closed extends IllegalStateException {
        private static final long serialVersionUID = 1;

        Closed() {
            super("the client of lockstock is closed");
        }
    }

    /** Begins to connect, for the first connection of a process takes its time. */
    void warm() {
        place(new Command(List.of(), "")).thenAccept(address -> node(address).shared());
    }

    void close() {
        closed = true;
        lines.forEach(line -> line.close(false));
        nodes.values().forEach(Node::close);
        library.close();
    }

    /** Sends a command until it is answered. One that must not be repeated is sent again only if it is known that nothing was done. */
    CompletableFuture<Object> ask(Command command, long within, boolean repeatable) {
        return ask(command, within, within, error -> passes(error) && (repeatable || isNothingDone(error)));
    }

    /** Sends a command again after each of these errors, and waits for each answer for so long. */
    CompletableFuture<Object> ask(Command command, long within, long each, Predicate<Throwable> again) {
        CompletableFuture<Object> answer = new CompletableFuture<>();
        attempt(answer, command, Clock.now() + within, each, again);
        return answer;
    }

    private void attempt(CompletableFuture<Object> answer, Command command, long end, long each, Predicate<Throwable> again) {
        // Nobody listens any more.
        if (answer.isDone()) return;
        send(command, Math.min(end, Clock.now() + each)).whenComplete((reply, failure) -> {
            Throwable error = cause(failure);
            if (error == null) {
                answer.complete(reply);
            } else if (again.test(error) && Clock.now() + PAUSE < end) {
                Background.after(PAUSE, () -> attempt(answer, command, end, each, again));
            } else {
                answer.completeExceptionally(error);
            }
        });
    }

    static boolean isNothingDone(Throwable error) {
        return error instanceof ServerException || error instanceof UnsentException;
    }

    static boolean passes(Throwable error) {
        return error instanceof ServerException said ? said.passes() : !(error instanceof Closed);
    }

    static boolean passesForRelease(Throwable error) {
        return passes(error) || error instanceof ServerException said && said.passesForRelease();
    }

    /** Sends a command once, to the server of its key, wherever that is. The future ends at {@code end}. */
    CompletableFuture<Object> send(Command command, long end) {
        CompletableFuture<Object> answer = new CompletableFuture<>();
        place(command).whenComplete((address, error) -> {
            if (error != null) answer.completeExceptionally(cause(error));
            else send(answer, address, command, end, REDIRECTIONS);
        });
        return limit(answer, end);
    }

    private void send(CompletableFuture<Object> answer, String address, Command command, long end, int redirections) {
        Node node = node(address);
        CompletableFuture<Wire> wire = node.shared();
        CompletableFuture<Object> reply = new CompletableFuture<>();
        wire.whenComplete((open, error) -> {
            if (error != null) reply.completeExceptionally(unsent(cause(error)));
            else if (!reply.isDone()) relay(command.over(open), reply);
        });
        limit(reply, end).whenComplete((value, failure) -> {
            Throwable error = cause(failure);
            // It says nothing, or has ended.
            if (error != null && !(error instanceof ServerException)) node.retire(wire);
            String word = blame(node, command, error);
            if (word == null) {
                settle(answer, value, error);
            } else if (redirections == 0) {
                answer.completeExceptionally(error);
            } else if (error.getMessage().startsWith("ASK ")) {
                relay(asking(word, command, end), answer);
            } else {
                send(answer, word, command, end, redirections - 1);
            }
        });
    }

    /** A server that could not be reached was not sent anything. */
    private static Throwable unsent(Throwable error) {
        return error instanceof ServerException || error instanceof Closed ? error : new UnsentException(error);
    }

    /** Sends a command where a slot is on its way to. */
    private CompletableFuture<Object> asking(String address, Command command, long end) {
        Node node = node(address);
        CompletableFuture<Object> answer = new CompletableFuture<>();
        node.open().whenComplete((wire, error) -> {
            if (error != null) {
                answer.completeExceptionally(cause(error));
            } else if (answer.isDone()) {
                wire.close();
            } else {
                wire.send(ASKING);
                relay(command.over(wire), answer);
                answer.whenComplete((reply, failure) -> wire.close());
            }
        });
        return limit(answer, end);
    }

    /** Learns from an error. Where it is a redirection, that is where to. */
    private String blame(Node node, Command command, Throwable error) {
        if (error == null) {
            return null;
        }
        if (!(error instanceof ServerException)) {
            failed.put(node.address, Clock.now());
            if (library.cluster()) {
                for (int slot = 0; slot < SLOTS; slot++) slots.updateAndGet(slot, known -> node.address.equals(known) ? null : known);
            }
            return null;
        }
        String[] words = error.getMessage().split(" ");
        if (words[0].equals("READONLY")) node.retire();
        if (!library.cluster() || words.length != 3 || !words[0].equals("MOVED") && !words[0].equals("ASK")) return null;
        // Without a host it is that of the server which answers.
        String address = words[2].startsWith(":") ? node.address.substring(0, node.address.lastIndexOf(':')) + words[2] : words[2];
        if (words[0].equals("MOVED")) {
            slots.set(command.slot(), address);
            map(address);
        }
        return address;
    }

    /** Asks a server for the places of all slots. */
    private void map(String address) {
        if (!mapping.compareAndSet(false, true)) return;
        CompletableFuture<Object> reply = new CompletableFuture<>();
        node(address).shared().whenComplete((wire, error) -> {
            if (error != null) reply.completeExceptionally(error);
            else relay(wire.send(Command.of("", "CLUSTER", "SLOTS").words()), reply);
        });
        limit(reply, Clock.now() + PATIENCE).whenComplete((value, error) -> {
            try {
                if (error == null) for (Object range : (List<?>) Answers.plain(value)) enter(address, (List<?>) range);
            } catch (RuntimeException strange) {
                // Then each slot is found when it is asked for.
            } finally {
                mapping.set(false);
            }
        });
    }

    private void enter(String said, List<?> range) {
        List<?> primary = (List<?>) range.get(2);
        Object host = primary.get(0);
        if (host == null || host.equals("") || host.equals("?")) host = said.substring(0, said.lastIndexOf(':'));
        for (long slot = (Long) range.get(0); slot <= (Long) range.get(1); slot++) slots.set((int) slot, host + ":" + primary.get(1));
    }

    /** The address of the server that has a command's key. */
    private CompletableFuture<String> place(Command command) {
        if (closed) return CompletableFuture.failedFuture(new Closed());
        if (!library.cluster()) return CompletableFuture.completedFuture("");
        String known = slots.get(command.slot());
        if (known != null) return CompletableFuture.completedFuture(known);
        return CompletableFuture.supplyAsync(() -> {
            // The library may know the first nodes only, though all of them have been replaced since.
            Set<String> all = new HashSet<>(library.nodes());
            for (int slot = 0; slot < SLOTS; slot++) all.add(slots.get(slot));
            all.remove(null);
            List<String> some = new ArrayList<>(all);
            some.removeIf(address -> Clock.now() - failed.getOrDefault(address, Long.MIN_VALUE / 2) < SHUNNED);
            if (some.isEmpty()) some.addAll(all);
            if (some.isEmpty()) throw new IllegalStateException("the client knows no server of the cluster");
            return some.get(ThreadLocalRandom.current().nextInt(some.size()));
        }, Background.POOL);
    }

    private Node node(String address) {
        Node node = nodes.computeIfAbsent(address, name -> new Node(library, name));
        if (closed) node.close();
        return node;
    }

    /** A connection that no other caller uses to the server of this key. */
    Line dedicate(String key, long end) throws InterruptedException {
        long limit = Math.min(end, Clock.now() + PATIENCE);
        Node node = node(await(place(new Command(List.of(), key)), limit));
        return connect(node, limit);
    }

    private Line connect(Node node, long end) throws InterruptedException {
        for (Wire used = node.take(); used != null; used = node.take()) {
            boolean good = false;
            try {
                await(used.send(PING), end);
                good = true;
                return new Line(node, used);
            } catch (ServerException alive) {
                // The request itself is told as much.
                good = true;
                return new Line(node, used);
            } catch (TimeoutError silent) {
                // The others say as little, perhaps.
                node.forget();
                blame(node, null, silent);
                throw silent;
            } catch (RuntimeException ended) {
                // Another may be better.
            } finally {
                if (!good) used.close();
            }
        }
        CompletableFuture<Wire> opened = node.open();
        boolean good = false;
        try {
            Line line = new Line(node, await(opened, end));
            good = true;
            return line;
        } catch (RuntimeException error) {
            blame(node, null, error);
            throw error;
        } finally {
            // Of many that are made at once some come late, and may be the next one's.
            if (!good) opened.thenAccept(node::give);
        }
    }

    /** One connection, for what waits and for what lasts as long as its connection. */
    final class Line {
        private Node node;
        private Wire wire;
        private boolean closed;
        /** Whether ASK has led here: the server may not have the slot yet. */
        private boolean asks;

        Line(Node node, Wire wire) {
            this.node = node;
            this.wire = wire;
            lines.add(this);
            if (Servers.this.closed) close(false);
        }

        /** Sends a command. Its future ends in an error when the line is closed. */
        synchronized CompletableFuture<Object> send(Command command) {
            if (closed) return CompletableFuture.failedFuture(new Closed());
            if (asks) wire.send(ASKING);
            return command.over(wire);
        }

        /** Goes where an answer says. False if it does not say so. */
        boolean follow(Command command, ServerException said, long end) throws InterruptedException {
            String address = blame(node, command, said);
            if (address == null || !said.getMessage().startsWith("ASK ")) return false;
            Line there = connect(node(address), Math.min(end, Clock.now() + PATIENCE));
            synchronized (this) {
                if (closed) {
                    there.close(true);
                    return false;
                }
                node.give(wire);
                lines.remove(there);
                node = there.node;
                wire = there.wire;
                asks = true;
            }
            return true;
        }

        /** Closes the connection, or keeps it for the next if nothing is unanswered on it. */
        void close(boolean reuse) {
            synchronized (this) {
                if (closed) return;
                closed = true;
            }
            lines.remove(this);
            // Outside of its turn, for what is unanswered hears of it here. Neither changes any more.
            if (reuse) node.give(wire);
            else wire.close();
        }
    }

    /** No answer came in time. */
    static final class TimeoutError extends RuntimeException {
        private static final long serialVersionUID = 1;

        TimeoutError() {
            super("no answer in time");
        }
    }

    /** Waits for a future until {@code end}, and throws what it failed with. */
    static <T> T await(CompletableFuture<T> future, long end) throws InterruptedException {
        try {
            return future.get(Math.max(end - Clock.now(), 0), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            throw new TimeoutError();
        } catch (ExecutionException failure) {
            Throwable error = cause(failure);
            if (error instanceof Error fatal && !(error instanceof LinkageError)) throw fatal;
            throw error instanceof RuntimeException one ? one : new CompletionException(error);
        }
    }

    /** Has the future end at that time. */
    static <T> CompletableFuture<T> limit(CompletableFuture<T> future, long end) {
        if (!future.isDone()) {
            var timer = Background.KEEPER.schedule(() -> future.completeExceptionally(new TimeoutException("no answer in time")),
                Math.max(end - Clock.now(), 0), TimeUnit.NANOSECONDS);
            future.whenComplete((value, error) -> timer.cancel(false));
        }
        return future;
    }

    private static void relay(CompletableFuture<Object> from, CompletableFuture<Object> to) {
        from.whenComplete((value, error) -> settle(to, value, cause(error)));
    }

    private static void settle(CompletableFuture<Object> future, Object value, Throwable error) {
        if (error == null) future.complete(value);
        else future.completeExceptionally(error);
    }

    static Throwable cause(Throwable error) {
        while ((error instanceof CompletionException || error instanceof ExecutionException) && error.getCause() != null) error = error.getCause();
        return error instanceof CancellationException ? new CompletionException("the client library has given the request up", error) : error;
    }
}
