package lockstock;

import java.util.regex.Pattern;

/**
 * The base of every error of this package, except {@link IllegalArgumentException} and {@link NullPointerException} for an argument that means
 * nothing, and {@link IllegalStateException} for a client that is closed. What the client library has thrown is the cause.
 */
public sealed class LockstockException extends RuntimeException
    permits NotAcquiredException, LostException, AlreadyHeldException, UnreachableException, RefusedException {
    private static final long serialVersionUID = 1;

    private static final Pattern UNKNOWN = Pattern.compile("(?s)(ERR )?unknown command .(LOCK|STOCK)\\..*", Pattern.CASE_INSENSITIVE);

    LockstockException(String message, Throwable cause) {
        super(message, cause);
    }

    /** What an error means that a library or a server has answered with; {@code what} is what it is about. */
    static RuntimeException of(String what, Throwable error) {
        if (error instanceof LockstockException || error instanceof Servers.Closed) return (RuntimeException) error;
        if (!(error instanceof ServerException said)) return new UnreachableException(what + ": no server answers: " + error, error);
        String text = said.getMessage(), message = what + ": " + text;
        if (said.passes()) return new UnreachableException(message, said);
        if (UNKNOWN.matcher(text).matches()) {
            return new ModuleMissingException(what + ": the server has not loaded the module lockstock: load it (loadmodule liblockstock.so)", said);
        }
        return switch (text.split(" ", 2)[0]) {
            case "NOTHELD" -> new LostException(message, said);
            case "DEADLOCK" -> new DeadlockException(message, said);
            case "NOSTOCK" -> new NoSaleException(message, said);
            case "BUSYKEY" -> new SaleExistsException(message, said);
            default -> new RefusedException(message, said);
        };
    }
}
