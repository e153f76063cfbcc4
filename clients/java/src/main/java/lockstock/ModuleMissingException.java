package lockstock;

/** The server has not loaded the module. */
public final class ModuleMissingException extends RefusedException {
    private static final long serialVersionUID = 1;

    ModuleMissingException(String message, Throwable cause) {
        super(message, cause);
    }
}
