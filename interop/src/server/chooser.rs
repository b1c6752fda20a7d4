//! The choice of a connection's controller, in its handshake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use boring::ssl::{NameType, SslContextBuilder};
use gallop::stack::quiche::Selection;

use crate::congestion_control;
use crate::server::rules::{Facts, Rules};

/// Chooses controllers in the handshake, where the host is known.
pub(super) struct Chooser {
    rules: Rules,
    /// The connection whose packets are being read, and the choice for it.
    current: Mutex<Option<(Facts, Option<Selection>)>>,
}

impl Chooser {
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Chooser {
            rules,
            current: Mutex::default(),
        })
    }

    /// Has TLS ask when it has read a ClientHello.
    pub(super) fn attach(self: &Arc<Self>, tls: &mut SslContextBuilder) {
        let chooser = Arc::clone(self);
        tls.set_select_certificate_callback(move |mut hello| {
            let mut current = chooser.lock();
            if let Some((facts, choice)) = current.as_mut() {
                let chosen = chooser
                    .rules
                    .choose(facts, hello.servername(NameType::HOST_NAME));
                if let Err(error) =
                    congestion_control::configure_in_handshake(chosen, hello.ssl_mut())
                {
                    tracing::warn!(%error, controller = %chosen, "not set");
                }
                *choice = Some(chosen.clone());
            }
            Ok(())
        });
    }

    /// The controller of a connection whose rules do not depend on the host.
    pub(super) fn choose_before_handshake(&self, facts: &Facts) -> Option<&Selection> {
        self.rules.choose_before_handshake(facts)
    }

    /// The controller that a connection starts with while its host is unknown.
    pub(super) fn otherwise(&self) -> &Selection {
        self.rules.otherwise()
    }

    /// Packets of this connection are read from now on.
    pub(super) fn begin(&self, facts: Facts) {
        *self.lock() = Some((facts, None));
    }

    /// The packets are read; gives the choice, if the ClientHello was among them.
    pub(super) fn end(&self) -> Option<Selection> {
        self.lock().take().and_then(|(_, choice)| choice)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Facts, Option<Selection>)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
