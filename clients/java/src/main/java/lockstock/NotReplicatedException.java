package lockstock;

/** Fewer replicas than asked for had the grant within a second, so it was released. */
public final class NotReplicatedException extends NotAcquiredException {
    private static final long serialVersionUID = 1;

    NotReplicatedException(String message, Throwable cause) {
        super(message, cause);
    }
}
