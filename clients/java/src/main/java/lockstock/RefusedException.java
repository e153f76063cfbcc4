package lockstock;

/** The server has answered with an error. Its words are {@link #answer()}. */
public sealed class RefusedException extends LockstockException
    permits DeadlockException, ModuleMissingException, NoSaleException, SaleExistsException {
    private static final long serialVersionUID = 1;

    RefusedException(String message, Throwable cause) {
        super(message, cause);
    }

    /**
     * The words of the server's error, which begin with its code.
     *
     * @return the text, or an empty one if the server's answer was none that is known
     */
    public String answer() {
        return getCause() instanceof ServerException said ? said.getMessage() : "";
    }
}
