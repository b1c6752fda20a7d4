//! Clients that get another address while connected.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use gallop_network::time::Time;

/// A way in which a client gets another address.
///
/// Its packets take the same route as before. If the new path is to be another one, the links
/// change at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It migrates by its own will (RFC 9000 §9). Packets under way to the old address still
    /// arrive.
    Migration,
    /// A NAT on the way gives it another one with the next packet that it sends, and the client
    /// does not learn it. Packets under way to the old address are lost then.
    Rebinding,
}

/// An address of a client, by its number: the first is 0, and every move gives the next one.
pub(crate) type AddressNumber = u16;

/// The addresses of both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The client's first.
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

impl Addresses {
    /// The client's address of that number: another port.
    pub(crate) fn client(&self, number: AddressNumber) -> SocketAddr {
        let mut address = self.client;
        address.set_port(address.port().wrapping_add(number));
        address
    }

    /// The number of one of the client's addresses.
    pub(crate) fn number(&self, address: SocketAddr) -> AddressNumber {
        address.port().wrapping_sub(self.client.port())
    }
}

/// A client's moves, and its addresses as seen from outside.
#[derive(Debug)]
pub(crate) struct Itinerary {
    /// Its moves, in order of time.
    due: VecDeque<(Time, Move)>,
    /// True if the next move was due but could not be made yet.
    waits: bool,
    /// Its addresses that packets reach, as the network and as the client see them. The last is the
    /// one in use.
    reachable: Vec<(AddressNumber, AddressNumber)>,
    last: AddressNumber,
}

impl Itinerary {
    pub(crate) fn new(moves: &[(Duration, Move)]) -> Itinerary {
        let mut due: Vec<_> = moves.iter().map(|&(at, kind)| (at.into(), kind)).collect();
        due.sort_by_key(|&(at, _)| at);
        Itinerary {
            due: due.into(),
            waits: false,
            reachable: vec![(0, 0)],
            last: 0,
        }
    }

    /// True if the client ever moves.
    pub(crate) fn has_moves(&self) -> bool {
        self.last > 0 || !self.due.is_empty()
    }

    /// Time at which the client is to be woken to migrate.
    pub(crate) fn next(&self) -> Option<Time> {
        let (at, kind) = *self.due.front()?;
        Some(at).filter(|_| kind == Move::Migration && !self.waits)
    }

    /// True if a move of that kind is due at `now`.
    pub(crate) fn is_due(&self, wanted: Move, now: Time) -> bool {
        let next = self.due.front();
        next.is_some_and(|&(at, kind)| kind == wanted && at <= now)
    }

    /// Notes that the migration that is due cannot be made yet.
    pub(crate) fn wait(&mut self) {
        self.waits = true;
    }

    /// The number of the address that the next move gives.
    pub(crate) fn next_number(&self) -> AddressNumber {
        self.last.saturating_add(1)
    }

    /// Makes the move that is due.
    pub(crate) fn make(&mut self) {
        let Some((_, kind)) = self.due.pop_front() else {
            return;
        };
        self.waits = false;
        self.last = self.next_number();
        let seen_inside = match kind {
            Move::Migration => self.last,
            Move::Rebinding => self.reachable.pop().map_or(0, |(_, inside)| inside),
        };
        self.reachable.push((self.last, seen_inside));
    }

    /// The address outside the NAT of the client's address `inside`.
    pub(crate) fn outside(&self, inside: AddressNumber) -> AddressNumber {
        let mut all = self.reachable.iter().rev();
        all.find(|(_, own)| *own == inside)
            .map_or(inside, |&(outside, _)| outside)
    }

    /// The client's address that a packet to `outside` reaches, if any.
    pub(crate) fn inside(&self, outside: AddressNumber) -> Option<AddressNumber> {
        let mut all = self.reachable.iter();
        all.find(|(seen, _)| *seen == outside)
            .map(|&(_, inside)| inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_keeps_the_old_address_and_a_rebinding_loses_it() {
        let ms = Duration::from_millis;
        let moves = [(ms(20), Move::Rebinding), (ms(10), Move::Migration)];
        let mut itinerary = Itinerary::new(&moves);
        let at = |milliseconds| Time::from(ms(milliseconds));
        assert_eq!(itinerary.next(), Some(at(10)));
        assert!(!itinerary.is_due(Move::Migration, at(9)));
        assert!(!itinerary.is_due(Move::Rebinding, at(10)));
        assert!(itinerary.is_due(Move::Migration, at(10)));
        itinerary.wait();
        assert_eq!(
            itinerary.next(),
            None,
            "it is tried again when a packet comes"
        );
        assert_eq!(itinerary.next_number(), 1);
        itinerary.make();
        assert_eq!(
            (itinerary.inside(0), itinerary.inside(1)),
            (Some(0), Some(1))
        );
        assert_eq!((itinerary.outside(0), itinerary.outside(1)), (0, 1));

        assert_eq!(itinerary.next(), None, "it is made when a packet is sent");
        assert!(itinerary.is_due(Move::Rebinding, at(30)));
        itinerary.make();
        assert!(!itinerary.is_due(Move::Rebinding, at(30)) && itinerary.has_moves());
        assert_eq!(itinerary.outside(1), 2, "the client sees no change");
        assert_eq!((itinerary.inside(1), itinerary.inside(2)), (None, Some(1)));
        assert_eq!(itinerary.inside(0), Some(0));
    }
}
