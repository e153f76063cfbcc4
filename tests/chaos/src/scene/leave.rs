//! Two primaries, and a slot with very many locks that goes from one to the other as a whole, or nearly does: what is left behind?

use harness::{Cluster, OK, Reply, Server, eventually, patiently};

use super::crowds::pour;
use super::edge::{Edge, at_rest};
use super::{Nemesis, Scene, ask, ready};
use crate::work::{Crew, Trade};

/// How many locks are in the slot.
const LOCKS: usize = 60_000;
/// How many holds of a sale lapse meanwhile.
const HOLDS: usize = 300;

struct Leave {
    cluster: Cluster,
    owner: usize,
    turn: usize,
    /// Of each node, a key that stays there.
    stays: [String; 2],
}

/// Sets it up, if the server can move slots as a whole.
pub fn leave() -> Result<Box<dyn Scene>, String> {
    let cluster = Cluster::start(2);
    let node = cluster.node(0);
    let words = if node.is_valkey() { "CLUSTER GETSLOTMIGRATIONS" } else { "CLUSTER MIGRATION STATUS ALL" };
    if node.cmd(words).is_error() {
        return Err("this server moves slots key by key only".into());
    }
    let owner = cluster.owner("{left}");
    let stays = [0, 1].map(|node| {
        let key = (0..1_000).map(|n| format!("edge-{n}")).find(|key| cluster.owner(key) == node);
        key.expect("a key in one of half of all slots")
    });
    ready(Leave { cluster, owner, turn: 0, stays })
}

impl Scene for Leave {
    fn servers(&mut self) -> &mut [Server] {
        self.cluster.nodes_mut()
    }

    fn crew(&self) -> Crew {
        &[(Trade::Mutex, 2), (Trade::Pulse, 1)]
    }

    fn strike(&mut self, nemesis: &mut Nemesis<'_>) {
        self.turn += 1;
        let (from, to) = (self.owner, 1 - self.owner);
        let (source, turn) = (self.cluster.node(from), self.turn);
        let sale = format!("{{left}}sale-{turn}");
        let mut client = source.client();
        pour(&mut client, (0..LOCKS).map(|n| format!("LOCK.ACQUIRE {{left}}-{n} TOKEN t PX {}", 600_000 + n)));
        client.expect(format!("STOCK.CREATE {sale} {HOLDS} STREAM {sale}:events"), OK);
        pour(&mut client, (0..HOLDS).map(|n| format!("STOCK.DECR_ONCE {sale} {n} HOLD {}", 1 + n * 10)));
        let begun = nemesis.now();
        let moved = self.cluster.move_whole_slot("{left}", from, to).expect("this server can");
        assert!(!moved.is_error(), "{moved:?}");
        // Every other time the client thinks better of it.
        let cancelled = turn.is_multiple_of(2) && self.cancel();
        let here = |node: &Server| ask(node, &format!("TTL {sale}")).is_some_and(|reply| !reply.is_error());
        if cancelled {
            eventually("the slot is somebody's", || here(self.cluster.node(from)) || here(self.cluster.node(to)));
        } else {
            eventually("the slot has moved", || here(self.cluster.node(to)));
        }
        if here(self.cluster.node(to)) {
            self.owner = to;
        }
        let (owner, other) = (self.owner, 1 - self.owner);
        nemesis.did(if cancelled { "move of a slot called off" } else { "slot moved as a whole" }, begun);
        self.nothing_is_left(nemesis, other);
        at_rest(self.cluster.node(other), nemesis, "of a node that a slot has left", 10);
        Edge::set(self.cluster.node(other), &self.stays[other], 200).pass(
            self.cluster.node(other),
            nemesis,
            "a slot gone",
        );
        self.books(nemesis, owner, &sale);
        let mut admin = self.cluster.node(owner).client();
        let keys: Vec<String> = (0..LOCKS).map(|n| format!("{{left}}-{n}")).collect();
        pour(&mut admin, keys.chunks(500).map(|keys| format!("DEL {}", keys.join(" "))));
        admin.expect(format!("DEL {sale} {sale}:events"), 2);
    }
}

impl Leave {
    /// Calls the move off; whether it still could be.
    fn cancel(&self) -> bool {
        let (node, words) = if self.cluster.node(0).is_valkey() {
            (self.owner, "CLUSTER CANCELSLOTMIGRATIONS")
        } else {
            (1 - self.owner, "CLUSTER MIGRATION CANCEL ALL")
        };
        ask(self.cluster.node(node), words).is_some_and(|reply| !reply.is_error())
    }

    /// A node does not count locks that it has not got. What comes and goes meanwhile is little.
    fn nothing_is_left(&self, nemesis: &mut Nemesis<'_>, node: usize) {
        let server = self.cluster.node(node);
        let excess = || {
            let held = server.info_int("lockstock", "lockstock_locks_held");
            u64::try_from(held - server.cmd("DBSIZE").int()).unwrap_or(0)
        };
        // The keys go first, in the server's own time.
        let gone = patiently(|| (server.cmd("DBSIZE").int() < 100).then_some(()));
        nemesis.measured("nodes that keep the keys of a slot that left", u64::from(gone.is_none()), 0);
        let deadline = nemesis.now() + 3_000_000;
        let mut left = excess();
        while left > 5 && nemesis.now() < deadline {
            nemesis.rest(20, 50);
            left = excess();
        }
        nemesis.measured("locks counted by a node that a slot has left", left, 5);
    }

    /// Every hold of the sale has lapsed once, on whichever node had it then, and its stream says so.
    fn books(&self, nemesis: &mut Nemesis<'_>, owner: usize, sale: &str) {
        let server = self.cluster.node(owner);
        let all = i64::try_from(HOLDS).expect("a few");
        let lapsed = patiently(|| {
            let info = server.cmd(["STOCK.INFO", sale]);
            let (seq, remaining) = (info.field("seq").int(), info.field("remaining").int());
            (seq == 2 * all && remaining == all).then_some(())
        });
        let events = match server.cmd(format!("XLEN {sale}:events")) {
            Reply::Int(events) => events,
            _ => 0,
        };
        nemesis.measured("sales whose holds did not all lapse after a move", u64::from(lapsed.is_none()), 0);
        nemesis.measured("events too few or too many after a move", events.abs_diff(2 * all), 0);
    }
}
