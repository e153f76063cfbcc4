package lockstock;

/** There is no such sale. */
public final class NoSaleException extends RefusedException {
    private static final long serialVersionUID = 1;

    NoSaleException(String message, Throwable cause) {
        super(message, cause);
    }
}
