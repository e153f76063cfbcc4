package lockstock;

/** The key of the sale is in use. */
public final class SaleExistsException extends RefusedException {
    private static final long serialVersionUID = 1;

    SaleExistsException(String message, Throwable cause) {
        super(message, cause);
    }
}
