import java.util.ArrayList;
import java.util.List;

/** A cluster of three, which the test owns. */
final class Cluster implements AutoCloseable {
    final List<Server> nodes = new ArrayList<>();

    Cluster() throws Exception {
        for (int number = 0; number < 3; number++) nodes.add(Server.start("--cluster-enabled", "yes", "--cluster-node-timeout", "60000"));
        for (int number = 0; number < 3; number++) {
            int from = number * 16_384 / 3, to = (number + 1) * 16_384 / 3 - 1;
            nodes.get(number).ask("CLUSTER", "ADDSLOTSRANGE", from, to);
            nodes.get(number).ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1);
            if (number > 0) nodes.get(number).ask("CLUSTER", "MEET", "127.0.0.1", nodes.get(0).port);
        }
        for (Server node : nodes) {
            Server.until("the cluster is whole", () -> {
                String info = (String) node.ask("CLUSTER", "INFO");
                return info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384") && info.contains("cluster_known_nodes:3");
            });
        }
    }

    @Override
    public void close() throws Exception {
        for (Server node : nodes) node.close();
    }
}
