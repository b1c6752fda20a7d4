//! A NAT before the client that forgets its bindings.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gallop_network::random::Random;
use gallop_network::time::Time;
use rand::RngExt;

use crate::ip::{Ends, Headers};
use crate::settings::{Rebinding, Rebound};

/// Translates the client's ends of UDP datagrams.
#[derive(Debug)]
pub(crate) struct Nat {
    settings: Rebinding,
    random: Random,
    /// The number of times that it has forgotten its bindings.
    rebindings: u64,
    /// The last byte of the client's address outside, if it is not its own.
    host: Option<u8>,
    /// The end outside of each end of the client.
    outside: HashMap<SocketAddr, SocketAddr>,
    /// The end of the client of each end outside.
    inside: HashMap<SocketAddr, SocketAddr>,
    /// Ports that have been in use outside; none is used again.
    used: HashSet<u16>,
}

impl Nat {
    pub(crate) fn new(settings: Rebinding, random: Random) -> Nat {
        Nat {
            settings,
            random,
            rebindings: 0,
            host: None,
            outside: HashMap::new(),
            inside: HashMap::new(),
            used: HashSet::new(),
        }
    }

    /// The number of times that it has forgotten its bindings.
    pub(crate) fn rebindings(&self) -> u64 {
        self.rebindings
    }

    /// Translates a packet of the client.
    pub(crate) fn outgoing(&mut self, headers: &Headers, packet: &mut [u8], elapsed: Time) {
        self.forget_by(elapsed);
        let Some(ends) = headers.udp_ends(packet) else {
            return;
        };
        let outside = match self.outside.get(&ends.source) {
            Some(outside) => *outside,
            None => self.bind(ends.source),
        };
        let source = outside;
        headers.set_udp_ends(packet, Ends { source, ..ends });
    }

    /// Translates a packet of the server; true if it passes.
    pub(crate) fn incoming(&mut self, headers: &Headers, packet: &mut [u8], elapsed: Time) -> bool {
        self.forget_by(elapsed);
        let Some(ends) = headers.udp_ends(packet) else {
            return true;
        };
        let Some(&destination) = self.inside.get(&ends.destination) else {
            return false;
        };
        headers.set_udp_ends(
            packet,
            Ends {
                destination,
                ..ends
            },
        );
        true
    }

    /// The time at which it forgets next, after having forgotten `count` times.
    fn due(&self, count: u64) -> Option<Time> {
        let count = u32::try_from(count).ok()?;
        let again = match count {
            0 => Duration::ZERO,
            _ => self.settings.every?.checked_mul(count)?,
        };
        Some(Time::from(self.settings.first) + again)
    }

    fn forget_by(&mut self, elapsed: Time) {
        while self.due(self.rebindings).is_some_and(|due| due <= elapsed) {
            self.rebindings += 1;
            self.outside.clear();
            self.inside.clear();
            if self.settings.what == Rebound::Address {
                let old = self.host;
                while self.host == old {
                    self.host = Some(self.random.random_range(1..255));
                }
            }
        }
    }

    /// A new binding for an end of the client. The first one of a port is the port itself.
    fn bind(&mut self, client: SocketAddr) -> SocketAddr {
        let mut port = client.port();
        // With all ports used up, any is as good.
        for _ in 0..u16::MAX {
            if self.used.insert(port) {
                break;
            }
            port = self.random.random_range(1..=u16::MAX);
        }
        let address = self
            .host
            .map_or(client.ip(), |host| with_host(client.ip(), host));
        let outside = SocketAddr::new(address, port);
        self.outside.insert(client, outside);
        self.inside.insert(outside, client);
        outside
    }
}

/// `address` with another last byte.
fn with_host(address: IpAddr, host: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::from([a, b, c, host])
        }
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[15] = host;
            IpAddr::from(octets)
        }
    }
}

#[cfg(test)]
mod tests {
    use gallop_network::random;

    use super::*;
    use crate::ip::tests::{datagram, is_sound};

    const CLIENT: &str = "10.18.0.100:4000";
    const SERVER: &str = "10.18.100.100:443";

    fn nat(what: Rebound) -> Nat {
        let settings = Rebinding {
            what,
            first: Duration::from_secs(1),
            every: Some(Duration::from_secs(5)),
        };
        Nat::new(settings, random::stream(1, 1))
    }

    fn at(seconds: u64) -> Time {
        Duration::from_secs(seconds).into()
    }

    fn out(nat: &mut Nat, elapsed: Time) -> SocketAddr {
        let mut packet = datagram(CLIENT, SERVER, b"request");
        let headers = Headers::parse(&packet).expect("an IP packet");
        nat.outgoing(&headers, &mut packet, elapsed);
        assert!(is_sound(&packet));
        let headers = Headers::parse(&packet).expect("an IP packet");
        headers.udp_ends(&packet).expect("a datagram").source
    }

    fn back(nat: &mut Nat, to: SocketAddr, elapsed: Time) -> Option<SocketAddr> {
        let mut packet = datagram(SERVER, &to.to_string(), b"response");
        let headers = Headers::parse(&packet).expect("an IP packet");
        if !nat.incoming(&headers, &mut packet, elapsed) {
            return None;
        }
        assert!(is_sound(&packet));
        let headers = Headers::parse(&packet).expect("an IP packet");
        Some(headers.udp_ends(&packet).expect("a datagram").destination)
    }

    #[test]
    fn bindings_hold_until_they_are_forgotten() {
        for what in [Rebound::Port, Rebound::Address] {
            let mut nat = nat(what);
            let client: SocketAddr = CLIENT.parse().expect("an end");
            let mut bindings = Vec::new();
            for (start, end) in [(0, 0), (1, 5), (6, 10), (11, 15)] {
                let binding = out(&mut nat, at(start));
                assert_eq!(out(&mut nat, at(end)), binding);
                assert_eq!(back(&mut nat, binding, at(end)), Some(client));
                for &old in &bindings {
                    assert_eq!(back(&mut nat, old, at(end)), None);
                }
                bindings.push(binding);
            }
            assert_eq!((bindings[0], nat.rebindings()), (client, 3));
            let mut ports: Vec<_> = bindings.iter().map(|end| end.port()).collect();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), 4);
            let moved = bindings
                .windows(2)
                .filter(|pair| pair[0].ip() != pair[1].ip());
            assert_eq!(moved.count(), if what == Rebound::Address { 3 } else { 0 });
        }
    }

    #[test]
    fn many_rebindings_at_once_are_made_up_for() {
        let mut nat = nat(Rebound::Port);
        let first = out(&mut nat, at(0));
        assert_ne!(out(&mut nat, at(100)), first);
        assert_eq!(nat.rebindings(), 20);
    }
}
