package lockstock;

/** What a {@link Library} fails the future of a command with that was not sent: the connection had ended before. */
public final class UnsentException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * A command was not sent.
     *
     * @param cause the library's exception
     */
    public UnsentException(Throwable cause) {
        super("not sent: " + cause, cause);
    }
}
