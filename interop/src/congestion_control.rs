//! The choice of a connection's congestion controller while its handshake goes on.

use std::sync::Arc;

use boring::ssl::SslRef;
use gallop::stack::quiche::Selection;

/// Makes a connection whose ClientHello is being read use this controller.
///
/// # Errors
///
/// quiche refuses the name.
pub fn configure_in_handshake(controller: &Selection, ssl: &mut SslRef) -> quiche::Result<()> {
    type Connection = quiche::Connection;
    match controller.algorithm() {
        Some(algorithm) => {
            Connection::set_cc_controller_factory_in_handshake(ssl, Arc::clone(algorithm) as _)
        }
        None => Connection::set_cc_algorithm_name_in_handshake(ssl, controller.name()),
    }
}
