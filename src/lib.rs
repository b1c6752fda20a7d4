//! TCP Vegas and Gallop-Vegas congestion control for QUIC.
