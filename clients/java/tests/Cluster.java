import java.util.ArrayList;
import java.util.List;

import redis.clients.jedis.exceptions.JedisDataException;

/** A cluster of three, which the test owns. */
final class Cluster implements AutoCloseable {
    final List<Server> nodes = new ArrayList<>();
    private final String[] options;

    Cluster(int timeoutMs) throws Exception {
        options = new String[] {"--cluster-enabled", "yes", "--cluster-node-timeout", "" + timeoutMs, "--repl-diskless-sync-delay", "0"};
        for (int number = 0; number < 3; number++) nodes.add(Server.start(options));
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

    /** Starts a server without slots, which ends with the cluster, and has it meet another. */
    Server join(Server other) throws Exception {
        Server server = Server.start(options);
        server.ask("CLUSTER", "MEET", "127.0.0.1", other.port);
        nodes.add(server);
        for (Server node : nodes) {
            Server.until("all know it", () -> {
                String info = (String) node.ask("CLUSTER", "INFO");
                return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:" + nodes.size());
            });
        }
        return server;
    }

    /** Starts a replica of a primary, which ends with the cluster. */
    Server replica(Server primary) throws Exception {
        Server replica = Server.start(options);
        replica.ask("CLUSTER", "MEET", "127.0.0.1", primary.port);
        Object id = primary.ask("CLUSTER", "MYID");
        Server.until("it is a replica", () -> {
            try {
                return "OK".equals(replica.ask("CLUSTER", "REPLICATE", id));
            } catch (JedisDataException unknownYet) {
                return false;
            }
        });
        Object own = replica.ask("CLUSTER", "MYID");
        for (Server node : nodes) Server.until("all know it", () -> knows(node, own));
        nodes.add(replica);
        // It asks them to be elected.
        Server.until("it knows all", () -> ((String) replica.ask("CLUSTER", "INFO")).contains("cluster_known_nodes:" + nodes.size()));
        return replica;
    }

    private static boolean knows(Server node, Object replica) {
        return ((String) node.ask("CLUSTER", "NODES")).lines().anyMatch(line -> line.startsWith(replica + " ") && line.contains("slave"));
    }

    @Override
    public void close() throws Exception {
        for (Server node : nodes) node.close();
    }
}
