import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** The page works as it is printed, in an empty folder. */
final class PageTests {
    private static final Path PACKAGE = Path.of(System.getProperty("lockstock.package", "clients/java")).toAbsolutePath();

    private PageTests() {}

    private static String block(String page, String language) {
        String rest = page.substring(page.indexOf("```" + language + "\n") + language.length() + 4);
        return rest.substring(0, rest.indexOf("```"));
    }

    public static void itsProgramRuns() throws Exception {
        Path folder = Files.createTempDirectory("lockstock-page-");
        try (Server server = Server.start()) {
            String page = Files.readString(PACKAGE.resolve("README.md"));
            Files.writeString(folder.resolve("Main.java"), block(page, "java").replace("127.0.0.1:6379", server.address().toString()));
            Path jars = Files.createDirectory(folder.resolve("jars"));
            for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
                if (entry.endsWith(".jar")) Files.createSymbolicLink(jars.resolve(Path.of(entry).getFileName()), Path.of(entry).toAbsolutePath());
            }
            String steps = block(page, "sh").replace("../lockstock/clients/java", PACKAGE.toString());
            Path said = folder.resolve("said"), complained = folder.resolve("complained");
            Process shell = new ProcessBuilder("sh", "-ec", steps).directory(folder.toFile()).redirectOutput(said.toFile())
                .redirectError(complained.toFile()).start();
            Expect.that(shell.waitFor() == 0, Files.readString(complained));
            Expect.same(Files.readString(said), "job:42 is ours: true\nOK\nDUPLICATE\nOK\n");
            Expect.same(server.ask("GET", "report"), "done");
            Expect.that(!server.exists("job:42"), "it is released");
        } finally {
            clear(folder);
        }
    }

    /** The example for Spring, in a container of Spring. */
    public static void theBeansOfSpringWork() throws Exception {
        try (Server server = Server.start()) {
            server.ask("STOCK.CREATE", "teapot", 1);
            List<String> words = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                System.getProperty("java.class.path"), "WithSpring", server.url()));
            Process program = new ProcessBuilder(words).redirectErrorStream(true).start();
            String said = new String(program.getInputStream().readAllBytes());
            Expect.that(program.waitFor() == 0 && said.contains("reported: true\nreserved: OK\n"), said);
            Expect.same(server.ask("GET", "report"), "done");
            Expect.that(!server.exists("job:report"), "it is released");
        }
    }

    private static void clear(Path folder) throws Exception {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
        }
    }
}
