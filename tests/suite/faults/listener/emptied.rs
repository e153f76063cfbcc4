//! Another module empties the databases, or has two change places, in the middle of a request for several locks: as soon as it hears that the
//! time of one of the keys is over. What is granted after that ends by itself, like any hold.

use harness::{INT, OK, Server, eventually};

#[test]
fn what_is_granted_after_a_flush_or_a_swap_in_its_middle_ends_by_itself() {
    for reaction in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        let server = Server::builder().config(&harness::listener::line()).start();
        let mut client = server.client();
        client.expect("DEBUG SET-ACTIVE-EXPIRE 0", OK);
        client.expect("SET k text PX 1", OK);
        client.expect("DEBUG SLEEP 0.01", OK);
        client.expect(format!("LISTENER.ON k SERVER 1 {reaction}"), OK);
        client.expect("LOCK.MACQUIRE 3 j k l TOKEN a PX 200", ("a", INT, 200));
        client.expect("DBSIZE", 3);
        // No command looks at the locks themselves, because a look would end them.
        eventually("all have ended", || client.cmd("DBSIZE").int() == 0);
    }
}
