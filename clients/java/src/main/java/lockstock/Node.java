package lockstock;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import lockstock.Library.Wire;

/** One server: the connection over which all send what does not wait, and those that are kept for the next waits. */
final class Node {
    /** How many idle connections for waits are kept. */
    private static final int SPARE = 64;
    /** After how long of no use a connection is not used any more: a gate between may have forgotten it. */
    private static final long IDLE = TimeUnit.SECONDS.toNanos(30);

    final String address;
    private final Library library;
    private final Deque<Idle> idle = new ArrayDeque<>();
    private CompletableFuture<Wire> shared;
    private boolean closed;
    /** When the shared connection was used last. */
    private long used = Clock.now();

    private record Idle(Wire wire, long since) {}

    Node(Library library, String address) {
        this.library = library;
        this.address = address;
    }

    /** The connection that all share, opened anew where it is gone. */
    synchronized CompletableFuture<Wire> shared() {
        long now = Clock.now();
        if (shared != null && now - used > IDLE) retire(shared);
        used = now;
        if (shared == null || shared.isCompletedExceptionally() || shared.isDone() && !shared.join().isOpen()) shared = open();
        return shared;
    }

    /** A connection that no other caller uses. One that comes too late for whoever wants it is to be closed there. */
    synchronized CompletableFuture<Wire> open() {
        CompletableFuture<Wire> opened = new CompletableFuture<>();
        if (closed) {
            opened.completeExceptionally(new Servers.Closed());
            return opened;
        }
        try {
            library.open(address).whenComplete((wire, error) -> {
                if (error != null) opened.completeExceptionally(error);
                else opened.complete(wire);
                synchronized (this) {
                    if (closed && wire != null) wire.close();
                }
            });
        } catch (RuntimeException | OutOfMemoryError error) {
            opened.completeExceptionally(error);
        }
        return opened;
    }

    /** Gives up a connection that says nothing: nobody sends over it any more. What others have sent may be answered yet. */
    void retire(CompletableFuture<Wire> silent) {
        synchronized (this) {
            if (shared == silent) shared = null;
        }
        Background.after(Servers.PATIENCE, () -> silent.thenAccept(Wire::close));
    }

    /** Gives up what leads to a server that must not be asked any more. */
    void retire() {
        CompletableFuture<Wire> old;
        synchronized (this) {
            old = shared;
            shared = null;
        }
        if (old != null) old.thenAccept(Wire::close);
        forget();
    }

    /** Gives up those that are kept. */
    void forget() {
        List<Idle> wires;
        synchronized (this) {
            wires = new ArrayList<>(idle);
            idle.clear();
        }
        wires.forEach(one -> one.wire.close());
    }

    /** An idle connection, or null. */
    synchronized Wire take() {
        while (!idle.isEmpty()) {
            Idle last = idle.removeLast();
            if (last.wire.isOpen() && Clock.now() - last.since < IDLE) return last.wire;
            last.wire.close();
        }
        return null;
    }

    /** Keeps a connection, over which nothing is unanswered, for the next. */
    void give(Wire wire) {
        synchronized (this) {
            if (!closed && wire.isOpen() && idle.size() < SPARE) {
                idle.addLast(new Idle(wire, Clock.now()));
                return;
            }
        }
        wire.close();
    }

    void close() {
        synchronized (this) {
            closed = true;
        }
        retire();
    }
}
