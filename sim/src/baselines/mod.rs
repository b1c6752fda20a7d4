//! Loss-based controllers to compare with, beside those that quiche ships.
//!
//! quiche's own Reno and CUBIC are what a user of quiche has, but not what their names say: after a
//! loss they cut packets to what is left of the window, and CUBIC takes back most of its
//! reductions. These two follow their RFCs, share no code with quiche's and send whole datagrams
//! only; everything else (loss detection, RTT estimation) is quiche's for all controllers alike.
//! Like quiche's they do not pace.
//!
//! | name | |
//! |---|---|
//! | `cubic-rfc9438` | CUBIC (RFC 9438) with HyStart++ (RFC 9406), which quiche's setting turns off |
//! | `reno-whole` | NewReno (RFC 9002 §7) |

mod cubic;
mod hystart;
mod loss_based;
mod reno;

/// The name of the CUBIC that follows RFC 9438.
pub const CUBIC: &str = "cubic-rfc9438";

/// The name of the NewReno that follows RFC 9002 §7.
pub const RENO: &str = "reno-whole";

/// Every name of this module. None takes options.
pub const NAMES: [&str; 2] = [CUBIC, RENO];

pub use self::engine::{register, register_controllers};

mod engine {
    use super::cubic::Cubic;
    use super::loss_based::LossBased;
    use super::reno::Reno;
    use super::{CUBIC, RENO};
    use quiche::{CongestionController, CongestionControllerFactory, ControllerConfig};
    use std::sync::Arc;

    #[derive(Clone, Copy, Debug)]
    enum Baseline {
        Cubic,
        Reno,
    }

    impl CongestionControllerFactory for Baseline {
        fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
            match self {
                Baseline::Cubic => Box::new(LossBased::<Cubic>::new(config, config.hystart)),
                // RFC 9002 knows no other end of slow start than a loss.
                Baseline::Reno => Box::new(LossBased::<Reno>::new(config, false)),
            }
        }
    }

    /// Makes the baselines known to quiche by name, in the whole process.
    ///
    /// # Errors
    /// [`quiche::Error::CongestionControl`] if quiche has a built-in algorithm of that name.
    pub fn register() -> quiche::Result<()> {
        for (name, baseline) in [(CUBIC, Baseline::Cubic), (RENO, Baseline::Reno)] {
            quiche::register_cc_algorithm(name, move |options| {
                if options.is_empty() {
                    Ok(Arc::new(baseline))
                } else {
                    Err(format!("{name} has no options, but `{options}` was given").into())
                }
            })?;
        }
        Ok(())
    }

    /// Makes every controller that is not quiche's own known to it by name, in the whole process:
    /// those of `gallop`, and the baselines.
    ///
    /// # Errors
    /// As [`register`].
    pub fn register_controllers() -> quiche::Result<()> {
        gallop::register()?;
        register()
    }
}
