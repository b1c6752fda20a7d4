//! The choice of a connection's controller, in its handshake.

use std::cell::RefCell;
use std::sync::Arc;

use boring::ssl::{NameType, SslContextBuilder};
use gallop::stack::quiche::Selection;

use crate::congestion_control;
use crate::server::rules::{Facts, Rules};

thread_local! {
    /// The connection whose packets are being read, and the choice for it.
    static CURRENT: RefCell<Option<(Facts, Option<Selection>)>> = const { RefCell::new(None) };
}

/// Chooses controllers in the handshake, where the host is known.
pub(super) struct Chooser {
    rules: Rules,
}

impl Chooser {
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Chooser { rules })
    }

    /// Has TLS ask when it has read a ClientHello.
    pub(super) fn attach(self: &Arc<Self>, tls: &mut SslContextBuilder) {
        let chooser = Arc::clone(self);
        tls.set_select_certificate_callback(move |mut hello| {
            let facts = CURRENT.with_borrow(|current| current.as_ref().map(|(facts, _)| *facts));
            if let Some(facts) = facts {
                let chosen = chooser
                    .rules
                    .choose(&facts, hello.servername(NameType::HOST_NAME));
                if let Err(error) =
                    congestion_control::configure_in_handshake(chosen, hello.ssl_mut())
                {
                    tracing::warn!(%error, controller = %chosen, "not set");
                }
                CURRENT.set(Some((facts, Some(chosen.clone()))));
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

    /// This thread reads packets of this connection from now on.
    pub(super) fn begin(facts: Facts) {
        CURRENT.set(Some((facts, None)));
    }

    /// The packets are read; gives the choice, if the ClientHello was among them.
    pub(super) fn end() -> Option<Selection> {
        CURRENT.take().and_then(|(_, choice)| choice)
    }
}
