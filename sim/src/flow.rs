//! Flows: what a connection is to do, and what it has come to.

use crate::acks::AckPolicy;
use crate::clock::Time;
use crate::endpoint::{Action, Connection};
use crate::packet::Side;
use crate::settings::Controller;
use crate::traffic::{Bulk, Source};
use std::io::Write;
use std::time::Duration;

/// A flow: a client that fetches what a server sends.
pub struct Flow {
    /// The server's congestion controller. The client, which sends next to
    /// nothing, runs quiche's Reno.
    pub controller: Controller,
    /// When the client connects, counted from the start of the simulation.
    pub start: Duration,
    /// The server's initial window (RFC 9002 §7.2), in datagrams.
    pub initial_window_packets: usize,
    /// The largest datagram of both sides: UDP payload, in bytes.
    pub datagram_bytes: usize,
    /// Whether HyStart++ ends slow start, in controllers that ask.
    pub hystart: bool,
    /// Whether controllers that can may pace.
    pub pacing: bool,
    /// When the client acknowledges. The server acknowledges at once.
    pub acks: AckPolicy,
    /// Whether the packets of both sides allow congestion marks
    /// ([`Ecn::Capable`](crate::packet::Ecn::Capable)). Marks are counted where
    /// they are made; quiche 0.30 does not react to them.
    pub ecn: bool,
    /// What the server sends.
    pub source: Box<dyn Source>,
    /// Where the server's qlog goes.
    pub server_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// Where the client's qlog goes.
    pub client_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// Is told of every send, receive and timeout of both sides.
    pub observer: Option<Observer>,
}

impl Flow {
    /// An endless download with `controller` that starts at once, otherwise set
    /// up as quiche is by default: an initial window of 10 packets of 1350
    /// bytes, HyStart++, pacing; every packet is acknowledged.
    #[must_use]
    pub fn new(controller: Controller) -> Flow {
        Flow {
            controller,
            start: Duration::ZERO,
            initial_window_packets: 10,
            datagram_bytes: 1350,
            hystart: true,
            pacing: true,
            acks: AckPolicy::EVERY_PACKET,
            ecn: false,
            source: Box::new(Bulk::Endless),
            server_qlog: None,
            client_qlog: None,
            observer: None,
        }
    }
}

/// Is told what the connections of a flow do.
pub type Observer = Box<dyn FnMut(Observation<'_>)>;

/// What an observer is told.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// Virtual time.
    pub time: Time,
    /// Which side acted.
    pub side: Side,
    /// What it did.
    pub action: Action,
    /// The connection, after it.
    pub connection: &'a Connection,
}

/// What a flow has come to.
#[derive(Clone, Debug, Default)]
pub struct FlowReport {
    /// Packets that the server sent (QUIC packets, [`quiche::Stats::sent`]).
    pub packets_sent: u64,
    /// Packets that the server declared lost.
    pub packets_lost: u64,
    /// Bytes of UDP payload that the server sent.
    pub bytes_sent: u64,
    /// Bytes that the server declared lost.
    pub bytes_lost: u64,
    /// Stream bytes that the server sent again.
    pub retransmitted_bytes: u64,
    /// Stream bytes that the client's application read.
    pub received_bytes: u64,
    /// When the client had read the end of the stream, if it has one.
    pub finished: Option<Time>,
}
