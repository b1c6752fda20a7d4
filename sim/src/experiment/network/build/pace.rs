//! The rate of a link over time.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::time::Duration;

use gallop_network::invalid::{Invalid, require};
use gallop_network::rate_course::RateCourse;
use gallop_network::units::{LinkRate, Rate, UnitError};

use super::super::check::NO_RATE;
use super::super::course::CourseSpec;
use super::impairments::Randoms;
use super::{BuildError, Circumstances, Source};

/// The largest trace that is read: it has a line a packet, so that 20 minutes of 100 Mbit/s fit.
const MOST_TRACE_BYTES: u64 = 64 << 20;

/// The rate of a link over time.
pub(super) struct Pace {
    /// The rate at first; of a trace or a course, the mean.
    pub(super) rate: Rate,
    pub(super) highest: Rate,
    /// Times from which later rates hold, and those rates; none of a trace or a
    /// course.
    pub(super) changes: Vec<(Duration, Rate)>,
    pub(super) course: Option<RateCourse>,
}

/// The rate on the wire of the value at `place`.
pub(super) fn resolve(rate: LinkRate, datagram_bytes: usize, place: &str) -> Result<Rate, Invalid> {
    let resolved = rate.resolve(datagram_bytes);
    resolved.map_err(|error: UnitError| Invalid::new(place, error.to_string()))
}

/// A course that has been drawn.
pub(super) struct Drawn {
    pub(super) rates: RateCourse,
    /// Times from which delays hold, and the part of them beyond the link's; none if the course has
    /// no delays.
    pub(super) delays: Vec<(Duration, Duration)>,
}

/// The most changes of a course: it takes tens of megabytes then.
const MOST_CHANGES: u128 = 1 << 20;

impl Drawn {
    /// The course of the link that is described at `place`, if it has one.
    pub(super) fn new(
        place: &str,
        Source { conditions, way }: Source,
        circumstances: Circumstances,
    ) -> Result<Option<Drawn>, Invalid> {
        let Some(course) = conditions.course else {
            return Ok(None);
        };
        let at = |key: &str| format!("{place}.course.{key}");
        let duration = circumstances.duration;
        let every = course.every();
        let changes = duration.as_nanos() / every.duration().as_nanos().max(1);
        require(changes <= MOST_CHANGES, &at("every"), || {
            format!("in {duration:?} there are {changes} times {every}; the most is {MOST_CHANGES}")
        })?;
        let rate = |rate, key| resolve(rate, circumstances.datagram_bytes, &at(key));
        let mut random = Randoms::course(circumstances.seed, way);
        let (rates, delays) = match course {
            CourseSpec::Cellular(spec) => {
                let link = spec.resolved(rate(spec.mean, "mean")?);
                (link.course(duration, &mut random), Vec::new())
            }
            CourseSpec::Constellation(spec) => {
                let (low, high) = (rate(spec.low, "low")?, rate(spec.high, "high")?);
                require(low <= high, &at("high"), || {
                    format!("{} is below low, {}", spec.high, spec.low)
                })?;
                spec.resolved(low, high).course(duration, &mut random)
            }
        };
        Ok(Some(Drawn { rates, delays }))
    }
}

impl Pace {
    /// The rate of the link that is described at `place`.
    pub(super) fn new(
        place: &str,
        source: Source,
        circumstances: Circumstances,
    ) -> Result<Pace, BuildError> {
        let Circumstances {
            datagram_bytes,
            directory,
            ..
        } = circumstances;
        let conditions = source.conditions;
        if let Some(drawn) = Drawn::new(place, source, circumstances)? {
            return Ok(Pace {
                rate: drawn.rates.mean_rate(circumstances.duration),
                highest: drawn.rates.highest_rate(),
                changes: Vec::new(),
                course: Some(drawn.rates),
            });
        }
        if let Some(trace) = conditions.trace {
            let path = directory.join(trace);
            let place = || format!("{place}.trace");
            if !stays_inside(trace) {
                let problem = format!(
                    "`{}` is not below the experiment's folder; give a path from there",
                    trace.display()
                );
                return Err(Invalid::new(place(), problem).into());
            }
            let text = read(&path, MOST_TRACE_BYTES).map_err(|error| BuildError::ReadTrace {
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
                changes: Vec::new(),
                course: Some(course),
            });
        }
        let missing = || Invalid::new(place, NO_RATE);
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
            changes,
            course,
        })
    }
}

/// True if a path leads to something below the folder that it begins in.
fn stays_inside(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

/// The text of a file, if it is no longer than `most_bytes`.
fn read(path: &Path, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(most_bytes + 1)
        .read_to_string(&mut text)?;
    match text.len() as u64 > most_bytes {
        true => Err(io::Error::other(format!(
            "it is larger than {most_bytes} bytes"
        ))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_lie_below_the_experiment() {
        for (path, inside) in [
            ("lte.trace", true),
            ("./traces/lte.trace", true),
            ("../lte.trace", false),
            ("traces/../../lte.trace", false),
            ("/dev/zero", false),
        ] {
            assert_eq!(stays_inside(Path::new(path)), inside, "{path}");
        }
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1000 bytes");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace");
        std::fs::write(&path, "1\n2\n").expect("written");
        assert_eq!(read(&path, 4).expect("four bytes"), "1\n2\n");
        read(&path, 3).unwrap_err();
    }
}
