package lockstock;

/**
 * The hold had ended before it was released: another holder may have had the lock since. What was to be done under it was not
 * done.
 */
public final class LostException extends LockstockException {
    private static final long serialVersionUID = 1;

    LostException(String message, Throwable cause) {
        super(message, cause);
    }
}
