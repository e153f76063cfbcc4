package lockstock;

/** No server answered the release in time. The lock is free at the latest when its lease ends. */
public final class NotReleasedException extends UnreachableException {
    private static final long serialVersionUID = 1;

    NotReleasedException(String message, Throwable cause) {
        super(message, cause);
    }
}
