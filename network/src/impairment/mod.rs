//! Impairments: loss, delay, duplication and corruption of packets at the entrance of a link.

mod alteration;
mod delay;
mod loss;
mod medium;
mod order;
mod while_it_lasts;

pub use alteration::{Corruption, Duplication};
pub use delay::{Jittering, Reordering, Times};
pub use loss::{GilbertElliott, GivenLoss, Outage, RandomLoss, SizeLimit};
pub use medium::{Bursts, Slots};
pub use while_it_lasts::WhileItLasts;

use std::fmt::Debug;
use std::time::Duration;

use thiserror::Error;

use crate::packet::Packet;
use crate::time::Time;

/// An impairment's decision about a packet at the entrance of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is lost.
    Lose,
    /// It goes on that much later; those behind it may overtake it.
    Hold(Duration),
    /// It goes on, with a copy right behind it.
    Duplicate,
}

/// Something that loses, holds, duplicates or changes packets.
pub trait Impairment: Debug {
    /// Decides about `packet`, which arrives `now`: at the link, or from the impairment before this
    /// one, which may have held it.
    fn decide(&mut self, packet: &mut Packet, now: Time) -> Fate;
}

/// A probability outside 0 to 1.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("{0} is not a probability: it must lie between 0 and 1")]
pub struct NotAProbability(pub f64);

fn probability(value: f64) -> Result<f64, NotAProbability> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(NotAProbability(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Side;
    use crate::random::stream;
    use crate::stalls::Stalls;

    fn fates(impairment: &mut dyn Impairment, count: u64) -> Vec<Fate> {
        (0..count)
            .map(|number| {
                let mut packet = Packet::new(0, Side::Client, number, vec![0; 100]);
                impairment.decide(&mut packet, Time::from(Duration::from_millis(number)))
            })
            .collect()
    }

    fn count(fates: &[Fate], wanted: Fate) -> usize {
        fates.iter().filter(|&&fate| fate == wanted).count()
    }

    #[test]
    fn random_loss_keeps_its_rate() {
        for (probability, low, high) in [
            (0.0, 0, 0),
            (0.01, 900, 1100),
            (0.5, 49_000, 51_000),
            (1.0, 100_000, 100_000),
        ] {
            let mut loss = RandomLoss::new(probability, stream(1, 0)).expect("a probability");
            let fates = fates(&mut loss, 100_000);
            let lost = count(&fates, Fate::Lose);
            assert!((low..=high).contains(&lost), "{probability}: {lost}");
            assert_eq!(lost + count(&fates, Fate::Pass), 100_000);
        }
    }

    #[test]
    fn losses_are_independent() {
        let mut loss = RandomLoss::new(0.1, stream(2, 0)).expect("a probability");
        let fates = fates(&mut loss, 100_000);
        let twice = fates
            .windows(2)
            .filter(|pair| pair == &[Fate::Lose; 2])
            .count();
        assert!((900..=1100).contains(&twice), "{twice}");
    }

    #[test]
    fn reordering_holds_at_its_rate() {
        let delay = Duration::from_millis(5);
        let mut reordering = Reordering::new(0.02, delay, stream(3, 0)).expect("a probability");
        let held = count(&fates(&mut reordering, 100_000), Fate::Hold(delay));
        assert!((1850..=2150).contains(&held), "{held}");
    }

    #[test]
    fn an_outage_has_sharp_ends() {
        let mut outage = Outage::new(Duration::from_millis(10), Duration::from_millis(20));
        let fates = fates(&mut outage, 30);
        assert!(fates[..10].iter().all(|&fate| fate == Fate::Pass));
        assert!(fates[10..20].iter().all(|&fate| fate == Fate::Lose));
        assert!(fates[20..].iter().all(|&fate| fate == Fate::Pass));
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let mut loss =
            GilbertElliott::new(0.01, 0.25, 0.0, 1.0, stream(4, 0)).expect("probabilities");
        let fates = fates(&mut loss, 200_000);
        let lost = count(&fates, Fate::Lose);
        let bursts = fates
            .windows(2)
            .filter(|pair| pair == &[Fate::Pass, Fate::Lose])
            .count();
        // p / (p + r) of 200 000 packets, in bursts of 1 / r.
        assert!((7_000..=8_400).contains(&lost), "{lost}");
        let mean = lost as f64 / bursts as f64;
        assert!((3.8..=4.2).contains(&mean), "{mean}");
    }

    #[test]
    fn gilbert_elliott_loses_by_the_probability_of_its_state() {
        for (in_good, in_bad, low, high) in [
            (0.0, 0.0, 0, 0),
            (0.1, 0.5, 29_000, 31_000),
            (1.0, 1.0, 100_000, 100_000),
        ] {
            let random = stream(5, 0);
            let mut loss =
                GilbertElliott::new(0.2, 0.2, in_good, in_bad, random).expect("probabilities");
            let lost = count(&fates(&mut loss, 100_000), Fate::Lose);
            assert!((low..=high).contains(&lost), "{in_good}, {in_bad}: {lost}");
        }
    }

    #[test]
    fn given_packets_are_lost_and_no_others() {
        let fates = fates(&mut GivenLoss::new(vec![7, 3, 4, 4]), 10);
        let lost: Vec<_> = (0..10).filter(|&n| fates[n] == Fate::Lose).collect();
        assert_eq!(lost, [3, 4, 7]);
    }

    #[test]
    fn jitter_is_uniform_and_keeps_order_if_asked() {
        let max = Duration::from_micros(2500);
        for in_order in [true, false] {
            let mut jitter = Jittering::new(Times::Uniform(max), in_order, stream(6, 0));
            let held = held(&fates(&mut jitter, 10_000));
            let releases: Vec<Duration> = (0..)
                .zip(&held)
                .map(|(number, held)| Duration::from_millis(number) + *held)
                .collect();
            assert_eq!(releases.is_sorted(), in_order);
            let (least, most) = (held.iter().min(), held.iter().max());
            assert!(least < Some(&(max / 100)));
            assert!(Some(&(max * 99 / 100)) < most && most <= Some(&max));
        }
    }

    #[test]
    fn exponential_jitter_has_its_mean() {
        let mean = Duration::from_millis(2);
        let mut jitter = Jittering::new(Times::Exponential(mean), false, stream(6, 1));
        let held = held(&fates(&mut jitter, 100_000));
        let all: Duration = held.iter().sum();
        let share = all.as_secs_f64() / 200.0;
        assert!((share - 1.0).abs() < 0.02, "{share}");
        assert!(held.iter().all(|held| *held <= 10 * mean));
    }

    #[test]
    fn bursts_hold_for_the_share_of_time_that_is_taken() {
        let stalls = Stalls::new(
            Duration::from_millis(180),
            Duration::from_millis(20),
            stream(6, 2),
        );
        let held = held(&fates(&mut Bursts::new(stalls), 1_000_000));
        let waited = held.iter().filter(|held| !held.is_zero()).count();
        assert!((96_000..104_000).contains(&waited), "{waited}");
        // Mean square over twice the mean of what is left of a stall at its packets: the mean.
        let all: Duration = held.iter().sum();
        let mean_ms = all.as_secs_f64() * 1e3 / waited as f64;
        assert!((19.0..21.0).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn bundles_go_on_together() {
        let fates = fates(&mut Slots::new(Duration::from_millis(4)), 10);
        let ms = [0, 3, 2, 1].map(Duration::from_millis);
        assert!(
            held(&fates).iter().eq(ms.iter().cycle().take(10)),
            "{fates:?}"
        );
    }

    #[test]
    fn a_failed_slot_holds_what_is_in_it_and_behind_it() {
        let ms = Duration::from_millis;
        let slots = Slots::new(ms(4)).with_retransmission(0.1, ms(8), stream(6, 3));
        let held = held(&fates(&mut slots.expect("a probability"), 400_000));
        // Four packets to a slot; the last of them comes at the slot's time.
        let us: Vec<u128> = held[1..].iter().map(Duration::as_micros).collect();
        let mut before = 0;
        let mut failed = 0;
        for slot in us.chunks_exact(4) {
            let late = slot[3];
            assert_eq!(slot, [3000, 2000, 1000, 0].map(|early| late + early));
            match (before, late) {
                (_, 8000) => failed += 1,
                // One that has not failed waits for the one before it that has.
                (8000, 4000) | (0 | 4000, 0) => {}
                other => panic!("{other:?}"),
            }
            before = late;
        }
        assert!((9_700..10_300).contains(&failed), "{failed}");
    }

    /// The times for which packets are held, of an impairment that does nothing else.
    fn held(fates: &[Fate]) -> Vec<Duration> {
        let held = fates.iter().map(|fate| match fate {
            Fate::Hold(held) => *held,
            other => panic!("{other:?}"),
        });
        held.collect()
    }

    #[test]
    fn what_is_larger_than_the_mtu_is_lost() {
        // 100 bytes of payload, and the headers of IP and UDP.
        for (mtu_bytes, fate) in [(127, Fate::Lose), (128, Fate::Pass)] {
            assert_eq!(fates(&mut SizeLimit::new(mtu_bytes), 3), [fate; 3]);
        }
    }

    #[test]
    fn an_impairment_that_passes_has_sharp_ends() {
        let ms = Duration::from_millis;
        let given = Box::new(GivenLoss::new(vec![0, 2]));
        let mut passing = WhileItLasts::new(ms(10), ms(20), given);
        let fates = fates(&mut passing, 30);
        let lost: Vec<_> = (0..30).filter(|&n| fates[n] == Fate::Lose).collect();
        assert_eq!(lost, [10, 12], "it counts what arrives while it lasts");
        let all = Box::new(SizeLimit::new(0));
        let fates = self::fates(&mut WhileItLasts::new(ms(10), ms(20), all), 30);
        assert_eq!(count(&fates, Fate::Lose), 10);
    }

    #[test]
    fn duplicates_come_at_their_rate() {
        let mut duplication = Duplication::new(0.03, stream(7, 0)).expect("a probability");
        let two = count(&fates(&mut duplication, 100_000), Fate::Duplicate);
        assert!((2800..=3200).contains(&two), "{two}");
    }

    #[test]
    fn corruption_changes_one_bit() {
        let mut corruption = Corruption::new(0.5, stream(8, 0)).expect("a probability");
        let mut changed = 0;
        for number in 0..1000 {
            let mut packet = Packet::new(0, Side::Client, number, vec![0; 100]);
            assert_eq!(corruption.decide(&mut packet, Time::ZERO), Fate::Pass);
            let ones: u32 = packet.payload().iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(ones, u32::from(packet.is_corrupted()));
            changed += ones;
        }
        assert!((450..=550).contains(&changed), "{changed}");
    }

    #[test]
    fn only_probabilities_are_taken() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(RandomLoss::new(wrong, stream(1, 0)).is_err());
            let error = Reordering::new(wrong, Duration::ZERO, stream(1, 0)).unwrap_err();
            assert!(error.to_string().contains("between 0 and 1"));
        }
    }
}
