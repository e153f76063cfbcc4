package lockstock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import lockstock.Library.Wire;

/**
 * One command: its words, its (first) key, by which the server of a cluster is found, and where it is noted as long as it may arrive; and where, if it
 * sets the lease of a token, and to what.
 */
record Command(List<byte[]> words, String key, Set<CompletableFuture<?>> pending, Late late, long lease) {
    Command(List<byte[]> words, String key) {
        this(words, key, null, null, 0);
    }

    static Command of(String key, Object... words) {
        return of(key, Arrays.asList(words));
    }

    static Command of(String key, List<?> words) {
        List<byte[]> bytes = new ArrayList<>(words.size());
        for (Object word : words) bytes.add(bytes(word));
        return new Command(bytes, key);
    }

    /** The command, noted from when it is sent until it is answered or its connection is closed. */
    Command notedIn(Set<CompletableFuture<?>> pending) {
        return new Command(words, key, pending, late, lease);
    }

    /** The command, noted as one that sets the lease. */
    Command setting(Late late, long lease) {
        return new Command(words, key, pending, late, lease);
    }

    /** Is completed when none of these can arrive any more. */
    static CompletableFuture<Void> settled(Set<CompletableFuture<?>> pending) {
        return CompletableFuture.allOf(pending.toArray(CompletableFuture[]::new)).handle((all, error) -> null);
    }

    /** Sends it. */
    CompletableFuture<Object> over(Wire wire) {
        if (late != null) late.begin(lease);
        CompletableFuture<Object> sent = wire.send(words);
        if (pending != null) pending.add(sent);
        return sent.whenComplete((reply, error) -> {
            if (late != null) late.end(lease, error);
            if (pending != null) pending.remove(sent);
        });
    }

    static byte[] bytes(Object word) {
        if (word instanceof byte[] bytes) return bytes;
        if (word instanceof CharSequence || word instanceof Number) return word.toString().getBytes(StandardCharsets.UTF_8);
        throw new IllegalArgumentException("an argument of a command is a String, a byte[] or a number, not "
            + (word == null ? "null" : word.getClass().getName()));
    }

    /** The slot of the key in a cluster. */
    int slot() {
        byte[] bytes = bytes(key);
        int from = 0, to = bytes.length, open = key.indexOf('{');
        if (open >= 0) {
            int close = key.indexOf('}', open);
            if (close > open + 1) {
                from = bytes(key.substring(0, open + 1)).length;
                to = bytes(key.substring(0, close)).length;
            }
        }
        int crc = 0;
        for (int at = from; at < to; at++) {
            crc ^= (bytes[at] & 0xff) << 8;
            for (int bit = 0; bit < 8; bit++) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
        }
        return (crc & 0xffff) % Servers.SLOTS;
    }
}
