//! Makes the impairments of a link.

use gallop_network::impairment::{
    Bursts, Corruption, Duplication, GilbertElliott, GivenLoss, Impairment, Jittering,
    NotAProbability, Outage, RandomLoss, Reordering, SizeLimit, Slots, Times, WhileItLasts,
};
use gallop_network::random::{self, LINK_PARTS, Random};

use super::super::impairment::{JitterSpec, LossSpec};
use super::super::link::Conditions;

/// Streams of random numbers for the parts of one direction of a link.
pub(super) struct Randoms {
    seed: u64,
    next: u64,
}

/// The number of parts that are reserved for one direction of a link.
const PARTS_PER_WAY: u64 = 16;

impl Randoms {
    pub(super) fn new(seed: u64, way: usize) -> Randoms {
        let next = LINK_PARTS + PARTS_PER_WAY * way as u64;
        Randoms { seed, next }
    }

    /// The stream for the course that is described for direction number `way`.
    pub(super) fn course(seed: u64, way: usize) -> Random {
        let last = PARTS_PER_WAY * (way as u64 + 1) - 1;
        random::stream(seed, LINK_PARTS + last)
    }

    pub(super) fn next(&mut self) -> Random {
        let random = random::stream(self.seed, self.next);
        self.next += 1;
        random
    }
}

/// The impairments at the entrance of a link: first those that lose packets, then those that change
/// or duplicate them, then those that delay them. Reordering comes last, so that what keeps packets
/// in order does not undo it.
pub(super) fn impairments(
    conditions: Conditions,
    random: &mut Randoms,
) -> Result<Vec<Box<dyn Impairment>>, NotAProbability> {
    let mut all: Vec<Box<dyn Impairment>> = Vec::new();
    for outage in conditions.outages {
        let outage = Outage::new(outage.from.duration(), outage.to.duration());
        all.push(Box::new(outage));
    }
    let mut add = |impairment: Box<dyn Impairment>| {
        all.push(match conditions.impaired_during {
            None => impairment,
            Some(period) => {
                let (from, to) = (period.from.duration(), period.to.duration());
                Box::new(WhileItLasts::new(from, to, impairment))
            }
        });
    };
    match conditions.loss {
        None => {}
        Some(LossSpec::Uniform(loss)) => add(Box::new(RandomLoss::new(*loss, random.next())?)),
        Some(LossSpec::GilbertElliott(spec)) => add(Box::new(GilbertElliott::new(
            spec.p,
            spec.r,
            spec.good,
            spec.bad,
            random.next(),
        )?)),
        Some(LossSpec::Given(spec)) => add(Box::new(GivenLoss::new(spec.packets.clone()))),
    }
    if let Some(mtu) = conditions.mtu {
        add(Box::new(SizeLimit::new(mtu)));
    }
    if let Some(corrupt) = conditions.corrupt {
        add(Box::new(Corruption::new(corrupt, random.next())?));
    }
    if let Some(duplicate) = conditions.duplicate {
        add(Box::new(Duplication::new(duplicate, random.next())?));
    }
    // It has the random numbers before jitter's, although it comes last.
    let reordering = conditions.reorder.map(|reorder| {
        let delay = reorder.delay.duration();
        Reordering::new(reorder.probability, delay, random.next())
    });
    if let Some(spec) = conditions.jitter {
        add(jitter(spec, random.next())?);
    }
    if let Some(every) = conditions.bundle {
        add(Box::new(Slots::new(every.duration())));
    }
    if let Some(reordering) = reordering {
        add(Box::new(reordering?));
    }
    Ok(all)
}

fn jitter(spec: &JitterSpec, random: Random) -> Result<Box<dyn Impairment>, NotAProbability> {
    Ok(match spec {
        JitterSpec::Uniform(spec) => {
            let times = Times::Uniform(spec.max.duration());
            Box::new(Jittering::new(times, spec.in_order, random))
        }
        JitterSpec::Exponential(spec) => {
            let times = Times::Exponential(spec.mean.duration());
            Box::new(Jittering::new(times, spec.in_order, random))
        }
        JitterSpec::Bursts(spec) => Box::new(Bursts::new(spec.stalls(random))),
        JitterSpec::Slots(spec) => {
            let again = spec.again.duration();
            let slots = Slots::new(spec.slot.duration());
            Box::new(slots.with_retransmission(spec.retransmission, again, random)?)
        }
    })
}
