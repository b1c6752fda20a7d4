//! The rate of a link over time.

use std::fs;
use std::path::Path;

use gallop_network::Invalid;
use gallop_network::rate_course::RateCourse;
use gallop_network::units::{LinkRate, Rate, UnitError};

use super::super::link::Conditions;
use super::BuildError;

/// The rate of a link over time.
pub(super) struct Pace {
    /// The rate at first; of a trace, the mean.
    pub(super) rate: Rate,
    pub(super) highest: Rate,
    pub(super) course: Option<RateCourse>,
}

/// The rate on the wire of the value at `place`.
pub(super) fn resolve(rate: LinkRate, datagram_bytes: usize, place: &str) -> Result<Rate, Invalid> {
    let resolved = rate.resolve(datagram_bytes);
    resolved.map_err(|error: UnitError| Invalid::new(place, error.to_string()))
}

impl Pace {
    /// The rate of the link that is described at `place`, where full datagrams have a UDP payload
    /// of `datagram_bytes` and traces lie in `directory`.
    pub(super) fn new(
        place: &str,
        conditions: Conditions,
        datagram_bytes: usize,
        directory: &Path,
    ) -> Result<Pace, BuildError> {
        if let Some(trace) = conditions.trace {
            let path = directory.join(trace);
            let place = || format!("{place}.trace");
            let text = fs::read_to_string(&path).map_err(|error| BuildError::ReadTrace {
                place: place(),
                path: path.clone(),
                error,
            })?;
            let course = RateCourse::mahimahi(&text).map_err(|error| BuildError::Trace {
                place: place(),
                path,
                error,
            })?;
            return Ok(Pace {
                rate: course.typical_rate(),
                highest: course.highest_rate(),
                course: Some(course),
            });
        }
        let missing = || Invalid::new(place, "it has neither a rate nor a trace");
        let rate = resolve(
            conditions.rate.ok_or_else(missing)?,
            datagram_bytes,
            &format!("{place}.rate"),
        )?;
        let mut changes = Vec::new();
        for (number, change) in conditions.changes.iter().enumerate() {
            if let Some(rate) = change.rate {
                let place = format!("{place}.changes[{number}].rate");
                changes.push((change.at.duration(), resolve(rate, datagram_bytes, &place)?));
            }
        }
        let highest = changes.iter().map(|&(_, rate)| rate).fold(rate, Rate::max);
        let course = (!changes.is_empty()).then(|| RateCourse::changing(rate, &changes));
        Ok(Pace {
            rate,
            highest,
            course,
        })
    }
}
