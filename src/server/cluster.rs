//! Which keys a cluster node serves.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::args::{Arg, Name};
use super::call::{self, How};
use super::ctx::Ctx;
use super::key;
use super::origin;
use super::server_facts;
use super::timer;
use super::write_check;
use crate::core::slot::Slot;

/// Whether this node serves the requested keys now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The requested keys.
    These,
    /// Not these keys, perhaps others.
    Others,
    /// No keys at all: the cluster is down, or takes no writes.
    Nothing,
}

impl Serves {
    /// Asks the server about all of `keys`.
    ///
    /// A running command need not ask for the keys that it names, because the server has checked them; but see [`refusal`].
    fn ask(ctx: &mut Ctx<'_>, keys: &[&[u8]]) -> Self {
        match write_check::check(ctx, keys) {
            Ok(()) => Self::These,
            Err(ErrorKind::NetworkDown | ErrorKind::ReadOnlyFilesystem) => Self::Nothing,
            Err(_) => Self::Others,
        }
    }
}

/// Whether this server is a node of a cluster. It is one from its start to its end, or never.
static IS_NODE: AtomicBool = AtomicBool::new(false);

/// Whether this server is a node of a cluster.
pub fn is_node() -> bool {
    IS_NODE.load(Ordering::Relaxed)
}

/// Finds out whether this server is a node. Called once, at load.
pub fn learn(ctx: &Ctx<'_>) {
    IS_NODE.store(ctx.flags().is_cluster(), Ordering::Relaxed);
}

/// Whether this node serves the key `name` now: it owns the slot and the cluster is up. Also false for a key that has already moved while
/// its slot is being migrated. The `ASKING` of a running command speaks for the keys that the command names, not for this one; so the
/// question is asked without a client, in the database of `ctx`: Valkey has several in a cluster.
pub fn serves(ctx: &mut Ctx<'_>, name: &Name<'_>) -> Serves {
    let db = ctx.db();
    let asked = timer::with_detached(|detached| {
        let serves = if detached.select(db) { Serves::ask(detached, &[name.bytes()]) } else { Serves::Others };
        // The timer starts in the database that is selected when it is armed.
        detached.select(0);
        serves
    });
    asked.unwrap_or(Serves::Others)
}

/// Whether this node may work on both keys now. Both are of one slot. Like [`serves`]; also false during a migration of their slot, in
/// either direction, when only one of the keys is here.
pub fn serves_both(ctx: &mut Ctx<'_>, one: &[u8], other: &[u8]) -> bool {
    Serves::ask(ctx, &[one, other]) == Serves::These
}

/// The server's own refusal of a command with these keys, if they are of more than one slot or not all here. For commands of which the server
/// has checked the first key only.
pub fn refusal(ctx: &mut Ctx<'_>, keys: &[Arg<'_>]) -> Option<&'static str> {
    let [first, others @ ..] = keys else { return None };
    if others.is_empty() || origin::is_record(ctx) {
        return None;
    }
    let slot = Slot::of(first.bytes());
    if others.iter().any(|key| Slot::of(key.bytes()) != slot) {
        // Valkey 9.1 is not asked about keys of two slots: it would refuse every later call of the module, too.
        Some("CROSSSLOT Keys in request don't hash to the same slot")
    } else if keys.iter().all(|key| key::exists(ctx, &Name::of(*key))) {
        // The server serves them even if their slot moves.
        None
    } else {
        let names: SmallVec<[&[u8]; 4]> = keys.iter().map(|key| key.bytes()).collect();
        let is_refused = Serves::ask(ctx, &names) != Serves::These;
        is_refused.then_some("TRYAGAIN Multiple keys request during rehashing of slot")
    }
}

/// The nodes of the cluster and their slots, as this node knows them.
#[derive(PartialEq, Eq)]
pub struct Nodes(Vec<Node>);

#[derive(PartialEq, Eq)]
struct Node {
    /// Its host and port, as the server's own redirections name them.
    address: String,
    is_this: bool,
    slots: Vec<(u16, u16)>,
    /// Slots that are on their way to this node. Only the node itself says so.
    importing: Vec<u16>,
}

impl Nodes {
    /// Asks the server; `None` if it does not answer. Costs some microseconds for each node, so ask rarely.
    pub fn known(ctx: &mut Ctx<'_>) -> Option<Self> {
        let endpoints = server_facts::setting(ctx, c"cluster-preferred-endpoint-type");
        let reply = call::call(ctx, c"CLUSTER", How::Quietly, &[b"NODES"])?;
        Some(Self::read(&String::from_utf8_lossy(&reply.text()), endpoints.as_deref().unwrap_or_default()))
    }

    /// Parses the reply to `CLUSTER NODES`: `id ip:port@bus,hostname,… flags primary ping pong epoch link slot…`, with slots as `5`, `5-9` or,
    /// while they move, in brackets. `endpoints` is the setting that says how redirections name a node.
    fn read(text: &str, endpoints: &str) -> Self {
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let importing = |word: &str| word.strip_prefix('[')?.split_once("-<-")?.0.parse().ok();
        let node = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (address, rest) = words.nth(1)?.split_once('@')?;
            let (ip, port) = address.rsplit_once(':')?;
            let host = match endpoints {
                "hostname" => rest.split(',').nth(1).filter(|name| !name.is_empty()).unwrap_or("?"),
                "unknown-endpoint" => "",
                _ => ip,
            };
            let is_this = words.next()?.split(',').any(|flag| flag == "myself");
            let words: Vec<&str> = words.skip(5).collect();
            Some(Node {
                address: format!("{host}:{port}"),
                is_this,
                slots: words.iter().filter_map(|word| range(word)).collect(),
                importing: words.iter().filter_map(|word| importing(word)).collect(),
            })
        };
        Self(text.lines().filter_map(node).collect())
    }

    /// Whether this node owns `slot`.
    pub fn owns(&self, slot: Slot) -> bool {
        self.owner(slot).is_some_and(|node| node.is_this)
    }

    /// Whether any node owns `slot`.
    pub fn is_owned(&self, slot: Slot) -> bool {
        self.owner(slot).is_some()
    }

    /// The address of the other node that serves `slot`; `None` while this node takes the slot over.
    pub fn elsewhere(&self, slot: Slot) -> Option<&str> {
        let owner = self.owner(slot).filter(|node| !node.is_this && !self.takes_over(slot));
        owner.map(|node| &*node.address)
    }

    /// Whether `slot` is on its way to this node.
    pub fn takes_over(&self, slot: Slot) -> bool {
        self.0.iter().any(|node| node.is_this && node.importing.contains(&slot.number()))
    }

    fn owner(&self, slot: Slot) -> Option<&Node> {
        let owns = |node: &&Node| node.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot.number()));
        self.0.iter().find(owns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_and_their_slots() {
        let text = "07c3 127.0.0.1:30004@31004,host slave e7d1 0 1426238317239 4 connected\n\
                    67ed ::1:30002@31002,,shard-id=x master - 0 1426238316232 2 connected 5461-5799 12182 [93-<-e7d1]\n\
                    e7d1 :30001@31001 myself,master - 0 0 1 connected 0-5460 [77->-67ed]\n";
        let nodes = Nodes::read(text, "ip");
        // 12182, 5061 and 15495.
        assert_eq!(nodes.elsewhere(Slot::of(b"foo")), Some("::1:30002"));
        assert_eq!((nodes.elsewhere(Slot::of(b"bar")), nodes.elsewhere(Slot::of(b"a"))), (None, None));
        let [foo, bar, a] = [b"foo".as_slice(), b"bar", b"a"].map(Slot::of);
        assert_eq!(
            [foo, bar, a].map(|slot| (nodes.owns(slot), nodes.is_owned(slot))),
            [(false, true), (true, true), (false, false)]
        );
        let nodes = Nodes::read(&text.replace("[77->-67ed]", "[12182-<-67ed]"), "ip");
        assert_eq!((nodes.elsewhere(foo), nodes.owns(foo)), (None, false), "it is on its way to this node");
        assert!(Nodes::read("", "ip").0.is_empty() && Nodes::read("nonsense\n\n", "ip").0.is_empty());
        let named = text.replace("@31002,,", "@31002,two.example,");
        for (text, endpoints, address) in [
            (text, "hostname", "?:30002"),
            (&named, "hostname", "two.example:30002"),
            (&named, "ip", "::1:30002"),
            (&named, "unknown-endpoint", ":30002"),
        ] {
            assert_eq!(Nodes::read(text, endpoints).elsewhere(foo), Some(address), "{endpoints}");
        }
    }
}
