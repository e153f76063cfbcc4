//! Hosts of their own for servers: network namespaces with two links each, one to the clients and one to the other servers.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use harness::{Builder, Server};

use super::janitor::Janitor;

/// Which of a host's links.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// To the clients, 198.18.1.0/24.
    Clients,
    /// To the other servers, 198.18.2.0/24.
    Servers,
}

impl Link {
    /// Its name within the host.
    fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Servers => "servers",
        }
    }

    /// The bridge that it leads to.
    fn bridge(self) -> String {
        format!("ls{}{}", &self.name()[..1], std::process::id())
    }

    /// The address of a host; this program is host 254 for its clients.
    pub fn address(self, host: u8) -> Ipv4Addr {
        match self {
            Self::Clients => Ipv4Addr::new(198, 18, 1, host),
            Self::Servers => Ipv4Addr::new(198, 18, 2, host),
        }
    }
}

/// Hosts 1 to n and what connects them, gone when this value is dropped.
pub struct Network {
    _janitor: Janitor,
}

impl Network {
    /// Sets it up, or says what the system does not permit.
    pub fn of(hosts: u8) -> Result<Self, String> {
        // These addresses are set apart for such tests (RFC 2544); a machine that uses them all the same is left alone.
        let taken = ip("-4 route show to root 198.18.0.0/15")?;
        if !taken.is_empty() {
            return Err(format!("this machine has a network at 198.18.0.0/15: {taken}"));
        }
        let network = Self { _janitor: Janitor::hire(&clean(hosts)) };
        for link in [Link::Clients, Link::Servers] {
            ip(&format!("link add {} type bridge", link.bridge()))?;
            ip(&format!("link set {} up", link.bridge()))?;
        }
        ip(&format!("address add {}/24 dev {}", Link::Clients.address(254), Link::Clients.bridge()))?;
        for host in 1..=hosts {
            let space = space(host);
            ip(&format!("netns add {space}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            for link in [Link::Clients, Link::Servers] {
                let (name, bridge) = (link.name(), link.bridge());
                let end = format!("{bridge}-{host}");
                ip(&format!("link add {end} type veth peer name {name} netns {space}"))?;
                ip(&format!("link set {end} master {bridge} up"))?;
                ip(&format!("-n {space} address add {}/24 dev {name}", link.address(host)))?;
                ip(&format!("-n {space} link set {name} up"))?;
            }
        }
        Ok(network)
    }

    /// A server on a host, which listens on both of its links.
    pub fn place(host: u8, builder: Builder) -> Builder {
        let (clients, servers) = (Link::Clients.address(host), Link::Servers.address(host));
        let builder = builder.host(IpAddr::V4(clients)).config(&format!("bind {clients} {servers}"));
        builder.under(&["ip", "netns", "exec", &space(host)])
    }

    /// Cuts a link, or joins it again.
    pub fn cut(host: u8, link: Link, cut: bool) {
        let state = if cut { "down" } else { "up" };
        ip(&format!("-n {} link set {} {state}", space(host), link.name())).expect("a link of ours");
    }
}

/// How to take away all that there may be.
fn clean(hosts: u8) -> String {
    let bridges = [Link::Clients, Link::Servers].map(Link::bridge);
    let ends = bridges.iter().flat_map(|bridge| (1..=hosts).map(move |host| format!("ip link del {bridge}-{host}")));
    let bridges = bridges.iter().map(|bridge| format!("ip link del {bridge}"));
    let spaces = (1..=hosts).map(|host| format!("ip netns del {}", space(host)));
    ends.chain(bridges).chain(spaces).collect::<Vec<_>>().join("\n")
}

/// The name of a host's namespace.
fn space(host: u8) -> String {
    format!("lockstock-{}-{host}", std::process::id())
}

/// One command of iproute2, and what it printed.
fn ip(words: &str) -> Result<String, String> {
    let output =
        Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("no ip command: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Where this server is for the other servers.
pub fn inside(host: u8, server: &Server) -> String {
    format!("{} {}", Link::Servers.address(host), server.port())
}
