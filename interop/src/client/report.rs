//! The client's report.

use std::fmt;

use serde::Serialize;

use crate::client::failure::Failure;
use crate::client::link::Summary;
use crate::client::transfer::Outcome;

/// Transfers and connections.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// From the first packet to the end of the last transfer.
    pub duration_s: f64,
    /// Every transfer, in the order of their ends.
    pub transfers: Vec<Outcome>,
    /// Every connection.
    pub connections: Vec<Summary>,
}

impl Report {
    /// Success, or the failure of the transfers.
    ///
    /// # Errors
    ///
    /// [`Failure::Local`] for the first failure of a local file, else [`Failure::Transfers`].
    pub fn result(&self) -> Result<(), Failure> {
        let failed: Vec<_> = self
            .transfers
            .iter()
            .filter(|transfer| transfer.error.is_some())
            .collect();
        if let Some(local) = failed.iter().find(|transfer| transfer.is_local) {
            return Err(Failure::Local(local.error.clone().unwrap_or_default()));
        }
        if !failed.is_empty() {
            return Err(Failure::Transfers(failed.len(), self.transfers.len()));
        }
        Ok(())
    }

    /// Payload of requests and responses per second, in bits.
    fn goodput_bps(&self) -> f64 {
        let bytes: u64 = self
            .transfers
            .iter()
            .map(|transfer| transfer.received_bytes + transfer.uploaded_bytes)
            .sum();
        bytes as f64 * 8.0 / self.duration_s.max(1e-9)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for transfer in &self.transfers {
            match &transfer.error {
                Some(error) => writeln!(f, "{}: {error}", transfer.url)?,
                None => writeln!(
                    f,
                    "{}: {} bytes received, {} sent, {:.3} s",
                    transfer.url,
                    transfer.received_bytes,
                    transfer.uploaded_bytes,
                    transfer.duration_s
                )?,
            }
        }
        for connection in &self.connections {
            writeln!(
                f,
                "{}: RTT {:.2} ms (least {:.2} ms), {} packets sent, {} lost, {}",
                connection.peer,
                connection.rtt_s * 1e3,
                connection.min_rtt_s.unwrap_or_default() * 1e3,
                connection.sent_packets,
                connection.lost_packets,
                connection.congestion_control,
            )?;
        }
        write!(
            f,
            "{:.2} Mbit/s in {:.3} s",
            self.goodput_bps() / 1e6,
            self.duration_s
        )
    }
}
