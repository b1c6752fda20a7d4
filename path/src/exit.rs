//! The end of a link: what happens to packets that have used it.

use gallop_network::Invalid;
use gallop_network::impairment::{Fate, GivenLoss, Impairment, Outage, RandomLoss};
use gallop_network::packet::Packet;
use gallop_network::random::Random;
use gallop_network::time::Time;

use crate::damage::{damage, is_version_negotiation};
use crate::ip::Headers;
use crate::settings::{Blackhole, Direction, Errors};

/// Loses and damages packets.
#[derive(Debug)]
pub(crate) struct Exit {
    blackhole: Vec<Outage>,
    given: GivenLoss,
    loss: Option<Chance>,
    corruption: Option<(Chance, Random)>,
    counts: ExitCounts,
}

/// Counts of packets by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitCounts {
    pub(crate) blackholed: u64,
    pub(crate) lost: u64,
    pub(crate) corrupted: u64,
}

/// Hits packets at random, but not too many in a row.
#[derive(Debug)]
struct Chance {
    errors: RandomLoss,
    burst: Option<u32>,
    in_a_row: u32,
}

impl Chance {
    fn new(place: &str, errors: Errors, random: Random) -> Result<Chance, Invalid> {
        let probability = RandomLoss::new(errors.probability, random);
        Ok(Chance {
            errors: probability.map_err(|error| Invalid::new(place, error.to_string()))?,
            burst: errors.burst,
            in_a_row: 0,
        })
    }

    fn hits(&mut self, packet: &mut Packet, now: Time) -> bool {
        let hit = self.errors.decide(packet, now) == Fate::Lose
            && self.burst.is_none_or(|burst| self.in_a_row < burst);
        self.in_a_row = if hit { self.in_a_row + 1 } else { 0 };
        hit
    }
}

impl Exit {
    /// The end of a link of this kind.
    pub(crate) fn new(
        settings: &Direction,
        mut random: impl FnMut() -> Random,
    ) -> Result<Exit, Invalid> {
        let loss = settings.loss;
        let loss = loss.map(|loss| Chance::new("loss", loss, random()));
        let corruption = settings.corruption.map(|corruption| {
            let chance = Chance::new("corruption", corruption, random())?;
            Ok((chance, random()))
        });
        Ok(Exit {
            blackhole: settings.blackhole.map_or_else(Vec::new, outages),
            given: GivenLoss::new(
                settings
                    .lost
                    .iter()
                    .map(|number| number.saturating_sub(1))
                    .collect(),
            ),
            loss: loss.transpose()?,
            corruption: corruption.transpose()?,
            counts: ExitCounts::default(),
        })
    }

    /// Decides about `packet`, which leaves the link when so much time has `elapsed` since the
    /// client's first packet; says whether it goes on.
    pub(crate) fn pass(&mut self, headers: &Headers, packet: &mut Packet, elapsed: Time) -> bool {
        let mut holes = self.blackhole.iter_mut();
        if holes.any(|hole| hole.decide(packet, elapsed) == Fate::Lose) {
            self.counts.blackholed += 1;
            return false;
        }
        if self.given.decide(packet, elapsed) == Fate::Lose {
            self.counts.lost += 1;
            return false;
        }
        if let Some(loss) = &mut self.loss
            && loss.hits(packet, elapsed)
        {
            self.counts.lost += 1;
            return false;
        }
        if let Some((chance, random)) = &mut self.corruption
            && headers
                .udp_payload(packet.payload())
                .is_some_and(|payload| !is_version_negotiation(payload))
            && chance.hits(packet, elapsed)
        {
            self.counts.corrupted += 1;
            damage(headers, packet.payload_mut(), random);
        }
        true
    }

    pub(crate) fn counts(&self) -> ExitCounts {
        self.counts
    }
}

/// The times in which all is lost.
fn outages(blackhole: Blackhole) -> Vec<Outage> {
    let period = blackhole.on.saturating_add(blackhole.off);
    let starts =
        (0..blackhole.times).map(|time| blackhole.on.saturating_add(period.saturating_mul(time)));
    starts
        .map(|start| Outage::new(start, start.saturating_add(blackhole.off)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gallop_network::Side;
    use gallop_network::random::stream;

    use super::*;
    use crate::ip::tests::{datagram, is_sound};

    /// Sends `count` datagrams, one per millisecond; returns those that pass.
    fn passed(settings: &Direction, payload: &[u8], count: u64) -> (Vec<Packet>, ExitCounts) {
        let mut part = 0;
        let mut exit = Exit::new(settings, || {
            part += 1;
            stream(1, part)
        })
        .expect("an exit");
        let wire = datagram("10.0.0.1:1", "10.0.1.1:2", payload);
        let headers = Headers::parse(&wire).expect("an IP packet");
        let packets = (0..count).filter_map(|number| {
            let mut packet = Packet::whole(0, Side::Server, number, wire.clone());
            let elapsed = Time::from(Duration::from_millis(number));
            exit.pass(&headers, &mut packet, elapsed).then_some(packet)
        });
        (packets.collect(), exit.counts())
    }

    fn numbers(packets: &[Packet]) -> Vec<u64> {
        packets.iter().map(|packet| packet.sequence()).collect()
    }

    #[test]
    fn given_packets_are_lost() {
        let settings = Direction {
            lost: vec![2, 3, 5],
            ..Direction::default()
        };
        let (packets, counts) = passed(&settings, b"payload", 6);
        assert_eq!(numbers(&packets), [0, 3, 5]);
        assert_eq!(counts.lost, 3);
    }

    #[test]
    fn nothing_happens_unless_asked_for() {
        let (packets, counts) = passed(&Direction::default(), b"payload", 100);
        assert_eq!((packets.len(), counts), (100, ExitCounts::default()));
    }

    #[test]
    fn a_black_hole_opens_as_often_as_asked() {
        let blackhole = "on=5ms,off=2ms,times=2".parse().ok();
        let settings = Direction {
            blackhole,
            ..Direction::default()
        };
        let (packets, counts) = passed(&settings, b"payload", 20);
        let expected: Vec<_> = (0..5).chain(7..12).chain(14..20).collect();
        assert_eq!(numbers(&packets), expected);
        assert_eq!(counts.blackholed, 4);
    }

    #[test]
    fn losses_in_a_row_are_limited() {
        for (loss, longest) in [("100%,burst=3", 3), ("30%,burst=2", 2), ("0%,burst=2", 0)] {
            let loss = loss.parse().ok();
            let settings = Direction {
                loss,
                ..Direction::default()
            };
            let (packets, counts) = passed(&settings, b"payload", 10_000);
            let numbers = numbers(&packets);
            let gaps = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1);
            assert_eq!(gaps.max(), Some(longest));
            assert_eq!(packets.len() as u64 + counts.lost, 10_000);
        }
    }

    #[test]
    fn damaged_datagrams_arrive() {
        let corruption = "30%".parse().ok();
        let settings = Direction {
            corruption,
            ..Direction::default()
        };
        let (packets, counts) = passed(&settings, b"payload", 10_000);
        assert_eq!(packets.len(), 10_000);
        assert!(packets.iter().all(|packet| is_sound(packet.payload())));
        let damaged = packets
            .iter()
            .filter(|packet| !packet.payload().ends_with(b"payload"));
        assert_eq!(damaged.count() as u64, counts.corrupted);
        assert!((2_700..=3_300).contains(&counts.corrupted), "{counts:?}");

        let negotiation = [0x80, 0, 0, 0, 0, 1, 2];
        let (_, counts) = passed(&settings, &negotiation, 1000);
        assert_eq!(counts.corrupted, 0);
    }
}
