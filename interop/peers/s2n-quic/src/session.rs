//! TLS by s2n-tls, s2n-quic's own, with session tickets.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use anyhow::Result;
use s2n_quic::provider::tls::s2n_tls::callbacks::{
    ConnectionFuture, SessionTicket, SessionTicketCallback,
};
use s2n_quic::provider::tls::s2n_tls::config::ConnectionInitializer;
use s2n_quic::provider::tls::s2n_tls::connection::Connection;
use s2n_quic::provider::tls::s2n_tls::error::Error;
use s2n_quic::provider::tls::s2n_tls::{Client, Server};

use crate::contract;

/// The name in the matrix' certificate, whatever the server's address.
pub const SERVER_NAME: &str = "localhost";

/// The ALPN.
pub const PROTOCOL: &[u8] = b"hq-interop";

/// A server that ends with the test needs no better keys.
const TICKET_KEY_NAME: &[u8] = b"runner";
const TICKET_KEY: [u8; 32] = [1; 32];

/// The longest chain of the test cases has 12 certificates.
const CHAIN_LENGTH: u16 = 20;

/// TLS of the server.
pub fn server() -> Result<Server> {
    let mut builder = Server::builder()
        .with_application_protocols([PROTOCOL])?
        .with_certificate(Path::new(contract::CHAIN), Path::new(contract::KEY))?
        .with_key_logging()?;
    builder
        .config_mut()
        .add_session_ticket_key(TICKET_KEY_NAME, &TICKET_KEY, SystemTime::now())?;
    Ok(builder.build()?)
}

/// TLS of the client, which trusts the server's own certificate.
pub fn client(case: &str) -> Result<Client> {
    let mut builder = Client::builder()
        .with_application_protocols([PROTOCOL])?
        .with_certificate(Path::new(contract::CHAIN))?
        .with_max_cert_chain_depth(CHAIN_LENGTH)?
        .with_key_logging()?;
    if case == "resumption" {
        let ticket = Ticket::default();
        builder
            .config_mut()
            .set_session_ticket_callback(ticket.clone())?
            .set_connection_initializer(ticket)?;
    }
    Ok(builder.build()?)
}

/// The first session ticket, once it has come: later connections resume its session.
#[derive(Clone, Default)]
struct Ticket(Arc<OnceLock<Vec<u8>>>);

impl SessionTicketCallback for Ticket {
    fn on_session_ticket(&self, _connection: &mut Connection, ticket: &SessionTicket) {
        let mut data = vec![0; ticket.len().unwrap_or_default()];
        if ticket.data(&mut data).is_ok() {
            // A further ticket is not needed.
            let _ = self.0.set(data);
        }
    }
}

impl ConnectionInitializer for Ticket {
    fn initialize_connection(
        &self,
        connection: &mut Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, Error> {
        if let Some(ticket) = self.0.get() {
            connection.set_session_ticket(ticket)?;
        }
        Ok(None)
    }
}
