package lockstock;

/** Others had the lock during the whole wait. */
public sealed class NotAcquiredException extends LockstockException
    permits NotReplicatedException {
    private static final long serialVersionUID = 1;

    NotAcquiredException(String message, Throwable cause) {
        super(message, cause);
    }
}
