package lockstock;

import java.util.regex.Pattern;

/** An error that a server has answered: what a {@link Library} fails the future of a command with then, and with nothing else. */
public final class ServerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private static final Pattern PASSING =
        Pattern.compile("(?s)((ERR )?max number of clients|UNBLOCKED (force|this server)|(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|READONLY|LOADING|MASTERDOWN|BUSY)\\b).*");

    private static final Pattern UNWRITABLE = Pattern.compile("(?s)(NOREPLICAS|MISCONF)\\b.*");

    /**
     * An error of a server.
     *
     * @param text the server's words
     * @param cause the library's exception
     */
    public ServerException(String text, Throwable cause) {
        super(text, cause);
    }

    /** Whether asking again, of the same server or another, may help. */
    boolean passes() {
        return PASSING.matcher(getMessage()).matches();
    }

    /** Whether asking for a release again may help: also a server that may not write now. */
    boolean passesForRelease() {
        return passes() || UNWRITABLE.matcher(getMessage()).matches();
    }

    /** Whether this answer to a request about a hold says that it is over: the lock is another's, or the key has another value. */
    boolean ends() {
        return getMessage().startsWith("NOTHELD ") || getMessage().startsWith("WRONGTYPE ");
    }
}
