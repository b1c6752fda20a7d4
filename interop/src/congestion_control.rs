//! Congestion controllers by name, as flags and files give them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use boring::ssl::SslRef;
use gallop::Algorithm;

/// quiche's own controllers that this crate offers.
const BUILT_IN: [&str; 3] = ["reno", "cubic", "bbr2"];

/// A congestion controller, with its options.
#[derive(Clone, Debug)]
pub struct CongestionControl {
    label: String,
    algorithm: Option<Arc<Algorithm>>,
}

/// A text that names no congestion controller.
#[derive(Debug, thiserror::Error)]
pub enum UnknownController {
    /// No controller has this name.
    #[error(
        "no congestion controller is called {0:?}: there are vegas, gallop-vegas (both with \
         options after a colon, as in vegas:alpha=2,beta=4), reno, cubic and bbr2"
    )]
    Name(String),
    /// quiche's controllers take no options.
    #[error("{name} is quiche's own and takes no options, but was given {options:?}")]
    NoOptions {
        /// The controller.
        name: &'static str,
        /// What followed the colon.
        options: String,
    },
    /// An option cannot be used.
    #[error(transparent)]
    Options(gallop::AlgorithmError),
}

impl CongestionControl {
    /// The text that named the controller; the name under which it is counted and traced.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Makes the connections of `config` use this controller.
    ///
    /// # Errors
    ///
    /// quiche refuses the name.
    pub fn configure(&self, config: &mut quiche::Config) -> quiche::Result<()> {
        match &self.algorithm {
            Some(algorithm) => {
                config.set_cc_controller_factory(Arc::clone(algorithm) as _);
                Ok(())
            }
            None => config.set_cc_algorithm_name(&self.label),
        }
    }

    /// Makes a connection whose ClientHello is being read use this controller.
    ///
    /// # Errors
    ///
    /// quiche refuses the name.
    pub fn configure_in_handshake(&self, ssl: &mut SslRef) -> quiche::Result<()> {
        type Connection = quiche::Connection;
        match &self.algorithm {
            Some(algorithm) => {
                Connection::set_cc_controller_factory_in_handshake(ssl, Arc::clone(algorithm) as _)
            }
            None => Connection::set_cc_algorithm_name_in_handshake(ssl, &self.label),
        }
    }
}

impl FromStr for CongestionControl {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let (name, options) = match text.split_once(':') {
            Some((name, options)) => (name, Some(options)),
            None => (text, None),
        };
        let built_in = BUILT_IN.into_iter().find(|built_in| *built_in == name);
        if let (Some(name), Some(options)) = (built_in, options) {
            let options = options.to_owned();
            return Err(UnknownController::NoOptions { name, options });
        }
        let algorithm = match built_in {
            Some(_) => None,
            None => Some(Arc::new(text.parse().map_err(|error| match error {
                gallop::AlgorithmError::Unknown { name } => UnknownController::Name(name),
                error => UnknownController::Options(error),
            })?)),
        };
        Ok(CongestionControl {
            label: text.to_owned(),
            algorithm,
        })
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiche_takes_every_controller() {
        for name in [
            "vegas",
            "gallop-vegas",
            "gallop-vegas:alpha=1,beta=3",
            "reno",
            "cubic",
            "bbr2",
        ] {
            let controller: CongestionControl = name.parse().unwrap();
            assert_eq!(controller.label(), name);
            let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
            controller.configure(&mut config).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<CongestionControl>().unwrap_err().to_string();
        assert!(error("bic").contains("\"bic\""));
        assert!(error("bic").contains("gallop-vegas"));
        assert!(error("reno:alpha=1").contains("no options"));
        assert!(error("vegas:alpha=x").contains("alpha"));
        assert!(error("").contains("\"\""));
    }
}
