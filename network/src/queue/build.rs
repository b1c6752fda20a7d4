//! Makes the queue that a file describes.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use rand::Rng;

use super::QueueSpec;
use crate::invalid::{Invalid, require};
use crate::queue::{
    Codel, CodelParameters, DropTail, FqCodel, FqCodelParameters, Policer, Queue, Red, RedError,
    RedParameters,
};
use crate::random::Random;
use crate::units::{Buffer, Rate};

/// A queue that is measured and never full.
const NO_LIMIT: Buffer = Buffer::Packets(NonZeroU64::MAX);

impl QueueSpec {
    /// Builds the queue for a link of `rate`, on which a full packet has `full_packet_bytes` on the
    /// wire. Random decisions draw from `random`, which is called at most once. `place` is the
    /// place of the description in its file.
    ///
    /// # Errors
    /// Refuses parameters that contradict each other.
    pub fn build(
        &self,
        place: &str,
        rate: Rate,
        full_packet_bytes: u64,
        random: impl FnOnce() -> Random,
    ) -> Result<Box<dyn Queue>, Invalid> {
        self.validate(place)?;
        let full_packet = NonZeroU64::new(full_packet_bytes);
        Ok(match self {
            QueueSpec::Unlimited => Box::new(DropTail::new(NO_LIMIT)),
            QueueSpec::DropTail(spec) => Box::new(DropTail::new(spec.limit)),
            QueueSpec::Red(spec) => {
                let parameters = RedParameters {
                    limit: spec.limit,
                    min: spec.min,
                    max: spec.max,
                    weight: spec.weight,
                    max_probability: spec.max_p,
                    gentle: spec.gentle,
                    wait: spec.wait,
                    ecn: spec.ecn,
                    mean_packet_bytes: spec.mean_packet.or(full_packet).unwrap_or(NonZeroU64::MIN),
                };
                let red = Red::new(parameters, rate, random())
                    .map_err(|error: RedError| Invalid::new(place, error.to_string()))?;
                Box::new(red)
            }
            QueueSpec::Codel(spec) => Box::new(Codel::new(CodelParameters {
                limit: spec.limit,
                target: spec.target.duration(),
                interval: spec.interval.duration(),
                ecn: spec.ecn,
            })),
            QueueSpec::FqCodel(spec) => {
                let parameters = FqCodelParameters {
                    limit: spec.limit,
                    flows: NonZeroUsize::new(spec.flows as usize).unwrap_or(NonZeroUsize::MIN),
                    quantum: NonZeroU32::new(spec.quantum).unwrap_or(NonZeroU32::MIN),
                    target: spec.target.duration(),
                    interval: spec.interval.duration(),
                    ecn: spec.ecn,
                };
                Box::new(FqCodel::new(parameters, random().next_u64()))
            }
            QueueSpec::Policer(spec) => {
                let burst_bytes = match spec.burst {
                    Buffer::Packets(packets) => packets.get().saturating_mul(full_packet_bytes),
                    Buffer::Bytes(bytes) => bytes.get(),
                };
                require(
                    burst_bytes >= full_packet_bytes,
                    &format!("{place}.burst"),
                    || {
                        format!(
                            "{} is less than a full packet of {full_packet_bytes} bytes on the wire, so that none would pass",
                            spec.burst
                        )
                    },
                )?;
                Box::new(Policer::new(spec.rate, burst_bytes, spec.limit))
            }
        })
    }
}
