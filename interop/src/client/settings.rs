//! Settings that all connections of the client share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use boring::ssl::{SslContextBuilder, SslMethod};
use gallop::stack::quiche::Selection;

use crate::client::arguments::Arguments;
use crate::client::failure::Failure;
use crate::client::session::Trust;
use crate::outbox::Pacing;
use crate::trace::{KeyLog, Traces};
use crate::transport::{self, H3, HQ};

/// Settings that all connections share.
pub(super) struct Settings {
    pub(super) protocol: &'static [u8],
    pub(super) congestion_control: Selection,
    pub(super) pacing: Pacing,
    pub(super) no_gso: bool,
    pub(super) insecure: bool,
    pub(super) early_data: bool,
    pub(super) session: Option<PathBuf>,
    pub(super) trust: Trust,
    pub(super) keylog: Option<KeyLog>,
    pub(super) traces: Option<Traces>,
}

impl Settings {
    /// The settings that the flags ask for.
    ///
    /// # Errors
    ///
    /// The key log or the folder of traces cannot be written to.
    pub(super) fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let local = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| Failure::Local(format!("{path}: {error}"))
        };
        Ok(Settings {
            protocol: if arguments.hq { HQ } else { H3 },
            congestion_control: arguments.cc.clone(),
            pacing: arguments.pacing,
            no_gso: arguments.no_gso,
            insecure: arguments.insecure,
            early_data: arguments.early_data,
            session: arguments.session.clone(),
            trust: match &arguments.ca {
                _ if arguments.insecure => Trust::Any,
                Some(path) => Trust::file(path)
                    .map_err(|error| Failure::Local(format!("--ca {}: {error}", path.display())))?,
                None => Trust::System,
            },
            keylog: match &arguments.keylog {
                Some(path) => Some(KeyLog::open(path).map_err(local(path))?),
                None => None,
            },
            traces: match &arguments.traces.qlog_dir {
                Some(path) => Some(Traces::new(path, &arguments.traces).map_err(local(path))?),
                None => None,
            },
        })
    }

    /// quiche's configuration.
    ///
    /// # Errors
    ///
    /// The trusted certificates cannot be read, or quiche refuses a setting.
    pub(super) fn config(&self, arguments: &Arguments) -> Result<quiche::Config, Failure> {
        let tls = |error: boring::error::ErrorStack| Failure::Local(format!("TLS: {error}"));
        let mut context = SslContextBuilder::new(SslMethod::tls()).map_err(tls)?;
        match &arguments.ca {
            Some(path) => {
                let trouble =
                    |what: String| Failure::Local(format!("--ca {}: {what}", path.display()));
                fs::File::open(path).map_err(|error| trouble(error.to_string()))?;
                context
                    .set_ca_file(path)
                    .map_err(|_| trouble("no certificates in PEM format".to_owned()))?;
            }
            None => context.set_default_verify_paths().map_err(tls)?,
        }
        let mut config = transport::config(
            context,
            &[self.protocol],
            &self.congestion_control,
            self.pacing,
            arguments.idle_timeout.into(),
        )
        .map_err(|error| Failure::Local(format!("quiche's configuration: {error}")))?;
        config.set_initial_rtt(arguments.assumed.initial_rtt.into());
        config.verify_peer(!arguments.insecure);
        if self.keylog.is_some() {
            config.log_keys();
        }
        Ok(config)
    }
}
