//! The flavours of TCP, by name.

use std::time::Duration;

use gallop::AlgorithmError;
use gallop::catalog::name_and_options;
use gallop::options::{Allowed, Chosen, DefaultValue, OptionSpec};

use super::vegas::Thresholds;

/// Names and summaries.
pub(crate) const NAMES: [(&str, &str); 7] = [
    (
        "tcp-reno-1990",
        "TCP Reno of 4.3BSD, as Brakmo et al. 1994 had it",
    ),
    (
        "tcp-vegas-1994",
        "TCP Vegas on the machinery of tcp-reno-1990",
    ),
    ("tcp-reno-ns2", "TCP Reno as ns-2 has it"),
    ("tcp-newreno-ns2", "TCP NewReno as ns-2 has it"),
    ("tcp-sack-ns2", "TCP with SACK as ns-2 has it"),
    (
        "tcp-sack-delack-ns2",
        "tcp-sack-ns2 with a receiver that delays acknowledgements",
    ),
    (
        "tcp-vegas-ns2",
        "TCP Vegas on the machinery of tcp-reno-ns2",
    ),
];

/// The way in which losses are repaired after the third duplicate acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// One loss in a window: fast recovery ends with the next new acknowledgement (RFC 2001 §4).
    Reno,
    /// One loss in a round trip: fast recovery goes on after a partial acknowledgement (RFC 2582).
    NewReno,
    /// All that the receiver's ranges show (RFC 2018, and a count of what is in the pipe).
    Sack,
}

/// The properties by which flavours differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flavour {
    pub(crate) repair: Repair,
    /// Vegas' techniques, if it has them.
    pub(crate) vegas: Option<Thresholds>,
    /// The tick of the clock of retransmissions.
    pub(crate) tick: Duration,
    /// The tick of the clock that sends delayed acknowledgements; none if each segment is
    /// acknowledged at once.
    pub(crate) ack_tick: Option<Duration>,
    /// The sender's socket buffer, in segments, of a flow that has none of its own.
    pub(crate) buffer_packets: Option<u64>,
    /// True if duplicate acknowledgements of what was sent before a timeout repair nothing
    /// (RFC 2582 §5).
    pub(crate) is_careful: bool,
    /// True if a sender that was idle for a timeout starts slowly again (Jacobson 1988).
    pub(crate) restarts_idle: bool,
}

/// The flavour of 4.3BSD. The buffer is that of Brakmo et al. 1994 §4.3.
const BSD: Flavour = Flavour {
    repair: Repair::Reno,
    vegas: None,
    tick: Duration::from_millis(500),
    ack_tick: Some(Duration::from_millis(200)),
    buffer_packets: Some(50),
    is_careful: false,
    restarts_idle: true,
};

const NS2: Flavour = Flavour {
    repair: Repair::Reno,
    vegas: None,
    tick: Duration::from_millis(100),
    ack_tick: None,
    buffer_packets: None,
    is_careful: true,
    restarts_idle: false,
};

const fn backlog(name: &'static str, meaning: &'static str, packets: f64) -> OptionSpec {
    OptionSpec {
        name,
        meaning,
        unit: "segments",
        allowed: Allowed::Number(0.0, 1000.0),
        default: DefaultValue::Number(packets),
    }
}

static VEGAS: [OptionSpec; 3] = [
    backlog("alpha", "grow below this backlog", 2.0),
    backlog("beta", "shrink above this backlog", 4.0),
    backlog("gamma", "leave slow start above this backlog", 2.0),
];

impl Flavour {
    /// True if `text` names a flavour, known or not.
    pub(crate) fn is_named_by(text: &str) -> bool {
        text.starts_with("tcp-")
    }

    /// Reads a name with its options.
    ///
    /// # Errors
    /// No flavour has the name, or it does not take the options.
    pub(crate) fn parse(text: &str) -> Result<Flavour, AlgorithmError> {
        let (given, options) = name_and_options(text);
        let found = NAMES.iter().find(|(name, _)| *name == given);
        let Some(&(name, _)) = found else {
            return Err(AlgorithmError::Unknown {
                name: given.to_owned(),
                known: NAMES.iter().map(|(name, _)| *name).collect(),
            });
        };
        let specs: &'static [OptionSpec] = match name {
            "tcp-vegas-1994" | "tcp-vegas-ns2" => &VEGAS,
            _ => &[],
        };
        let chosen = Chosen::defaults(specs)
            .with(options)
            .map_err(|error| AlgorithmError::Options { name, error })?;
        let packets = |name| chosen.number_if_any(name).unwrap_or_default();
        let thresholds = Thresholds {
            alpha_packets: packets("alpha"),
            beta_packets: packets("beta"),
            gamma_packets: packets("gamma"),
        };
        Ok(match name {
            "tcp-vegas-1994" => Flavour {
                vegas: Some(thresholds),
                ..BSD
            },
            "tcp-vegas-ns2" => Flavour {
                vegas: Some(thresholds),
                ..NS2
            },
            "tcp-reno-ns2" => NS2,
            "tcp-newreno-ns2" => Flavour {
                repair: Repair::NewReno,
                ..NS2
            },
            "tcp-sack-ns2" => Flavour {
                repair: Repair::Sack,
                ..NS2
            },
            "tcp-sack-delack-ns2" => Flavour {
                repair: Repair::Sack,
                ack_tick: Some(Duration::from_millis(100)),
                ..NS2
            },
            _ => BSD,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_flavour_and_only_vegas_takes_thresholds() {
        for (name, _) in NAMES {
            let flavour = Flavour::parse(name).unwrap();
            assert_eq!(flavour.vegas.is_some(), name.contains("vegas"), "{name}");
            let with = Flavour::parse(&format!("{name}:alpha=1,beta=3,gamma=1"));
            assert_eq!(with.is_ok(), name.contains("vegas"), "{name}");
        }
        let error = Flavour::parse("tcp-reno-1991").unwrap_err().to_string();
        assert!(error.contains("did you mean `tcp-reno-1990`"), "{error}");
        let error = Flavour::parse("tcp-vegas-1994:alpa=1")
            .unwrap_err()
            .to_string();
        assert!(error.contains("alpha"), "{error}");
    }
}
