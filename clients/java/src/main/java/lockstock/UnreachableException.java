package lockstock;

/** No server answered in time. What was asked for may have been done. */
public sealed class UnreachableException extends LockstockException
    permits NotReleasedException {
    private static final long serialVersionUID = 1;

    UnreachableException(String message, Throwable cause) {
        super(message, cause);
    }
}
