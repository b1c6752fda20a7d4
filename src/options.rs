//! The thresholds and choices that a user may tune, and their text form.

use std::fmt;
use std::str::FromStr;

use crate::controller::{MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS};
use crate::round::RttMeasure;

/// The tuning of a Vegas or Gallop-Vegas controller.
///
/// In text, `name=value` pairs with commas between: `alpha=1,beta=3,gamma=1`.
///
/// | name | meaning | values |
/// |---|---|---|
/// | `alpha` | grow below this backlog, in datagrams | 0 to 1000, at most `beta` |
/// | `beta` | shrink above this backlog, in datagrams | 0 to 1000 |
/// | `gamma` | leave slow start (Vegas) or brake (Gallop-Vegas; without it at `alpha`) above this backlog, in datagrams | 0 to 1000 |
/// | `decrease` | the part of the window that a loss leaves | above 0, below 1 |
/// | `initial_window` | datagrams; without it, what the QUIC stack is configured with | 2 to 1048576 |
/// | `rtt` | the measure of a round's RTT | `mean`, `min`, `last` |
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// α: below this backlog the window grows by one datagram a round (000 §3.5.2).
    pub alpha: f64,
    /// β: above this backlog the window shrinks by one datagram a round (000 §3.5.2).
    pub beta: f64,
    /// γ: above this backlog slow start ends (000 §3.5.3) or brakes (003 §III.B). `None` is α, as
    /// both are 1 in 003.
    pub gamma: Option<f64>,
    /// What a loss leaves of the window: three quarters (004 §II).
    pub decrease: f64,
    /// The initial window in datagrams; `None` takes the QUIC stack's.
    pub initial_window_packets: Option<u64>,
    /// The measure of a round's RTT.
    pub rtt: RttMeasure,
}

impl Options {
    /// Vegas as in 000 §3.5.2: two to four datagrams queued.
    ///
    /// NOTE: 003 §V has γ = 1 and, to compare, γ = 3. A window that doubles over one round trip
    /// queues a part of itself at the bottleneck, however much room the path has: QUIC's ten
    /// datagrams (RFC 9002 §7.2), doubled, show a backlog of 3 on a path that holds 28. γ = 2 would
    /// end slow start there, at 18 (docs/algorithms.md).
    pub const VEGAS: Options = Options {
        alpha: 2.0,
        beta: 4.0,
        gamma: Some(3.0),
        decrease: 0.75,
        initial_window_packets: None,
        rtt: RttMeasure::Mean,
    };

    /// Gallop-Vegas with two to six datagrams queued.
    ///
    /// NOTE: 003 §III.B has α = 1 and β = 3, for a receiver that acknowledges every packet. QUIC's
    /// acknowledges every second one (RFC 9000 §13.2.2), so that packets leave in pairs, and the
    /// second of each waits for the first; the same thresholds, counted in pairs, are 2 and 6. With
    /// 003's slow start ends at 37 to 81 % of the available window (docs/results.md).
    pub const GALLOP_VEGAS: Options = Options {
        beta: 6.0,
        gamma: None,
        ..Options::VEGAS
    };

    /// γ, α where it is not given.
    pub const fn gamma(&self) -> f64 {
        match self.gamma {
            Some(gamma) => gamma,
            None => self.alpha,
        }
    }

    /// Changes what `text` names.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and what is allowed.
    pub fn with(mut self, text: &str) -> Result<Options, OptionsError> {
        let mut seen = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| OptionsError::NotAPair { text: pair.into() })?;
            let (name, value) = (name.trim(), value.trim());
            if seen.contains(&name) {
                return Err(OptionsError::Twice { name: name.into() });
            }
            seen.push(name);
            self.set(name, value)?;
        }
        self.check()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), OptionsError> {
        match name {
            "alpha" => self.alpha = parse(name, value)?,
            "beta" => self.beta = parse(name, value)?,
            "gamma" => self.gamma = Some(parse(name, value)?),
            "decrease" => self.decrease = parse(name, value)?,
            "initial_window" => self.initial_window_packets = Some(parse(name, value)?),
            "rtt" => self.rtt = parse(name, value)?,
            _ => return Err(OptionsError::Unknown { name: name.into() }),
        }
        Ok(())
    }

    /// Returns the options if every value is allowed.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] names the option and what is allowed.
    pub fn check(self) -> Result<Options, OptionsError> {
        for (name, value) in [
            ("alpha", self.alpha),
            ("beta", self.beta),
            ("gamma", self.gamma()),
        ] {
            // A comparison with NaN is false, so NaN is refused.
            if !(0.0..=1000.0).contains(&value) {
                return Err(OptionsError::invalid(name, value));
            }
        }
        if !(self.decrease > 0.0 && self.decrease < 1.0) {
            return Err(OptionsError::invalid("decrease", self.decrease));
        }
        if let Some(packets) = self.initial_window_packets
            && !(MINIMUM_WINDOW_PACKETS..=MAXIMUM_WINDOW_PACKETS).contains(&packets)
        {
            return Err(OptionsError::invalid("initial_window", packets));
        }
        if self.alpha > self.beta {
            return Err(OptionsError::AlphaAboveBeta {
                alpha: self.alpha,
                beta: self.beta,
            });
        }
        Ok(self)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options {
            alpha,
            beta,
            gamma,
            decrease,
            initial_window_packets,
            rtt,
        } = self;
        write!(f, "alpha={alpha},beta={beta}")?;
        if let Some(gamma) = gamma {
            write!(f, ",gamma={gamma}")?;
        }
        write!(f, ",decrease={decrease}")?;
        if let Some(packets) = initial_window_packets {
            write!(f, ",initial_window={packets}")?;
        }
        write!(f, ",rtt={rtt}")
    }
}

fn parse<T: FromStr>(name: &str, value: &str) -> Result<T, OptionsError> {
    value
        .parse()
        .map_err(|_| OptionsError::invalid(name, value))
}

impl FromStr for RttMeasure {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "mean" => Ok(RttMeasure::Mean),
            "min" => Ok(RttMeasure::Min),
            "last" => Ok(RttMeasure::Last),
            _ => Err(()),
        }
    }
}

impl fmt::Display for RttMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RttMeasure::Mean => "mean",
            RttMeasure::Min => "min",
            RttMeasure::Last => "last",
        })
    }
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No option has this name.
    #[error(
        "unknown option `{name}`: the options are alpha, beta, gamma, decrease, initial_window and rtt"
    )]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The text is no `name=value` pair.
    #[error("`{text}` is no option: write name=value, with commas between several")]
    NotAPair {
        /// The text that was given.
        text: String,
    },
    /// An option was given twice.
    #[error("option `{name}` is given twice")]
    Twice {
        /// The option's name.
        name: String,
    },
    /// The value is not allowed.
    #[error("option `{name}` cannot be `{value}`: it must be {allowed}")]
    Invalid {
        /// The option's name.
        name: String,
        /// The value that was given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// α is above β.
    #[error("option `alpha` ({alpha}) is above `beta` ({beta}): it must be at most beta")]
    AlphaAboveBeta {
        /// α as given, or its default.
        alpha: f64,
        /// β as given, or its default.
        beta: f64,
    },
}

impl OptionsError {
    fn invalid(name: &str, value: impl ToString) -> Self {
        let allowed = match name {
            "decrease" => "a number above 0 and below 1",
            "initial_window" => "a whole number of datagrams from 2 to 1048576",
            "rtt" => "mean, min or last",
            _ => "a number of datagrams from 0 to 1000",
        };
        OptionsError::Invalid {
            name: name.into(),
            value: value.to_string(),
            allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_option_is_read() {
        let options = Options::VEGAS
            .with("alpha=1.5, beta=3,gamma=0,decrease=0.5,initial_window=32,rtt=min,")
            .unwrap();
        assert_eq!(
            options,
            Options {
                alpha: 1.5,
                beta: 3.0,
                gamma: Some(0.0),
                decrease: 0.5,
                initial_window_packets: Some(32),
                rtt: RttMeasure::Min
            }
        );
        assert_eq!(Options::VEGAS.with(""), Ok(Options::VEGAS));
    }

    #[test]
    fn errors_name_the_option_and_what_is_allowed() {
        for (text, message) in [
            (
                "aplha=1",
                "unknown option `aplha`: the options are alpha, beta, gamma, decrease, initial_window and rtt",
            ),
            (
                "alpha",
                "`alpha` is no option: write name=value, with commas between several",
            ),
            (
                "alpha=NaN",
                "option `alpha` cannot be `NaN`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "alpha=-1",
                "option `alpha` cannot be `-1`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "beta=inf",
                "option `beta` cannot be `inf`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "gamma=1001",
                "option `gamma` cannot be `1001`: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "gamma=",
                "option `gamma` cannot be ``: it must be a number of datagrams from 0 to 1000",
            ),
            (
                "alpha=5",
                "option `alpha` (5) is above `beta` (4): it must be at most beta",
            ),
            (
                "beta=1",
                "option `alpha` (2) is above `beta` (1): it must be at most beta",
            ),
            (
                "decrease=1",
                "option `decrease` cannot be `1`: it must be a number above 0 and below 1",
            ),
            (
                "decrease=0",
                "option `decrease` cannot be `0`: it must be a number above 0 and below 1",
            ),
            (
                "decrease=nan",
                "option `decrease` cannot be `NaN`: it must be a number above 0 and below 1",
            ),
            (
                "initial_window=1",
                "option `initial_window` cannot be `1`: it must be a whole number of datagrams from 2 to 1048576",
            ),
            (
                "initial_window=2.5",
                "option `initial_window` cannot be `2.5`: it must be a whole number of datagrams from 2 to 1048576",
            ),
            (
                "rtt=median",
                "option `rtt` cannot be `median`: it must be mean, min or last",
            ),
            ("alpha=1,alpha=2", "option `alpha` is given twice"),
        ] {
            let error = Options::VEGAS.with(text).unwrap_err();
            assert_eq!(error.to_string(), message, "{text}");
        }
    }

    #[test]
    fn the_defaults_are_the_papers_counted_in_packets_and_in_pairs() {
        // 000 §3.5.2, and twice 003's α = γ = 1 and β = 3.
        let defaults = [
            (
                Options::VEGAS,
                "alpha=2,beta=4,gamma=3,decrease=0.75,rtt=mean",
            ),
            (
                Options::GALLOP_VEGAS,
                "alpha=2,beta=6,decrease=0.75,rtt=mean",
            ),
        ];
        for (options, text) in defaults {
            assert_eq!(options.to_string(), text);
        }
    }

    #[test]
    fn gamma_of_gallop_vegas_is_alpha_unless_given() {
        let gamma = |text| Options::GALLOP_VEGAS.with(text).unwrap().gamma();
        assert_eq!(gamma(""), 2.0);
        assert_eq!(gamma("alpha=1"), 1.0);
        assert_eq!(gamma("alpha=1,gamma=3"), 3.0);
    }

    #[test]
    fn alpha_may_equal_beta() {
        assert!(Options::VEGAS.with("alpha=1.5,beta=1.5").is_ok());
    }

    proptest! {
        #[test]
        fn the_text_form_round_trips(
            (alpha, beta) in (0.0..1000.0, 0.0..1000.0f64).prop_map(|(a, b)| if a < b { (a, b) } else { (b, a) }),
            gamma in proptest::option::of(0.0..=1000.0),
            decrease in 0.001..0.999,
            initial_window_packets in proptest::option::of(2u64..=1 << 20),
            rtt in prop_oneof![Just(RttMeasure::Mean), Just(RttMeasure::Min), Just(RttMeasure::Last)],
        ) {
            let options = Options { alpha, beta, gamma, decrease, initial_window_packets, rtt };
            let base = Options { initial_window_packets: None, gamma: None, ..Options::VEGAS };
            prop_assert_eq!(base.with(&options.to_string()), Ok(options));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = Options::VEGAS.with(&text);
        }
    }
}
