package lockstock;

/** Waiting would close a circle of holders that wait for each other. */
public final class DeadlockException extends RefusedException {
    private static final long serialVersionUID = 1;

    DeadlockException(String message, Throwable cause) {
        super(message, cause);
    }
}
