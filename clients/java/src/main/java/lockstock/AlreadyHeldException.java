package lockstock;

/** This thread has the lock already, or another request has it by the same token. A lock is not reentrant. */
public final class AlreadyHeldException extends LockstockException {
    private static final long serialVersionUID = 1;

    AlreadyHeldException(String message, Throwable cause) {
        super(message, cause);
    }
}
