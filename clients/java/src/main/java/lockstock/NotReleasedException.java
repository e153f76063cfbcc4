package lockstock;

/**
 * It is not known whether the release has ended the hold: no server answered it in time, or its first answer was lost and the hold had ended when it
 * was sent again. The lock is free at the latest when its lease ends.
 */
public final class NotReleasedException extends UnreachableException {
    private static final long serialVersionUID = 1;

    NotReleasedException(String message, Throwable cause) {
        super(message, cause);
    }
}
