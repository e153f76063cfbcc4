package lockstock;

import java.util.List;
import java.util.concurrent.CompletableFuture;

/** What a {@link Client} needs of a client library. {@code OverJedis} and {@code OverLettuce} have it of theirs. */
public interface Library {
    /**
     * Whether the servers are a cluster. Then a command goes to the server of its key, else to the only one, or to the primary that Sentinel
     * names.
     *
     * @return true for a cluster
     */
    boolean cluster();

    /**
     * Some servers of the cluster, to begin with and for when one is gone. It may block for a while.
     *
     * @return addresses like {@code 127.0.0.1:6379}; of the server that stands alone, {@code [""]}
     */
    List<String> nodes();

    /**
     * Opens a connection that no other caller uses. When it breaks, it is not opened anew, and nothing is sent again. Must not block. It
     * ends by itself if a server does not answer.
     *
     * @param address one of {@link #nodes}, or one that a server of the cluster has named
     * @return the connection
     */
    CompletableFuture<? extends Wire> open(String address);

    /** Ends the library's own resources for this. */
    default void close() {}

    /** One connection. Any number of threads may send; answers come in the same order. */
    interface Wire {
        /**
         * Sends a command. Must not block.
         *
         * @param words its words
         * @return the reply: null, a {@code Long}, {@code Double}, {@code Boolean}, {@code String} or {@code byte[]}, a {@code List} of such, or a
         *     {@code Map}; or a {@link ServerException}; or an {@link UnsentException}; or any other error: then nobody knows what became of the
         *     command
         */
        CompletableFuture<Object> send(List<byte[]> words);

        /**
         * Whether it may be sent over.
         *
         * @return false once the connection is known to have ended
         */
        boolean isOpen();

        /** Closes it, at any time. What is not answered fails. Must not block. */
        void close();
    }
}
