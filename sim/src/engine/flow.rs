//! Flows: the task of a connection, and its report.

use std::io::Write;
use std::time::Duration;

use gallop_network::packet::Side;
use gallop_network::time::Time;

use crate::endpoint::acks::AckPolicy;
use crate::endpoint::moves::Move;
use crate::endpoint::settings::Controller;
use crate::endpoint::{Action, Connection};
use crate::engine::share::ShareWindow;
use crate::traffic::Bulk;
use crate::traffic::conversation::Conversation;
use crate::traffic::live::Live;
use crate::traffic::load::Load;
use crate::traffic::player::Player;

/// A flow: a client that fetches what a server sends, over one connection.
pub struct Flow {
    /// The server's congestion controller. The client, which sends next to nothing, runs quiche's
    /// Reno.
    pub controller: Controller,
    /// Time at which the client connects, counted from the start of the simulation.
    pub start: Duration,
    /// The server's initial window (RFC 9002 §7.2), in datagrams.
    pub initial_window_packets: usize,
    /// The largest datagram of both sides: UDP payload, in bytes.
    pub datagram_bytes: usize,
    /// True if HyStart++ ends slow start, in quiche's own controllers.
    pub hystart: bool,
    /// True if controllers may pace, of those that can.
    pub pacing: bool,
    /// The client's acknowledgement policy. The server acknowledges at once.
    pub acks: AckPolicy,
    /// True if the packets of both sides allow congestion marks
    /// ([`Ecn::Capable`](crate::packet::Ecn::Capable)). Marks are counted where they are made;
    /// quiche 0.30 does not react to them.
    pub ecn: bool,
    /// True if both sides look for larger datagrams than 1200 bytes, up to `datagram_bytes`, by
    /// probes (RFC 8899); otherwise they take that for granted.
    pub discovers_mtu: bool,
    /// Times at which the client gets another address. Such a client sends something when it has
    /// heard nothing for 15 s.
    pub moves: Vec<(Duration, Move)>,
    /// True if answers have a content that the client checks; otherwise they are zeros. It is not
    /// for HTTP/3.
    pub checks_content: bool,
    /// The requests and answers of client and server.
    pub conversation: Conversation,
    /// Time at which the conversation is cut off: there are no more requests, and the answers under
    /// way end with the data that have been handed to the transport.
    pub stop: Option<Duration>,
    /// The limit of the sender's socket buffer: stream bytes that the server's application may have
    /// handed to the transport and that are not acknowledged yet. It is filled by the datagram, so
    /// that the last part of one stays free, and freed in the order of the stream, as by a
    /// cumulative acknowledgement.
    pub send_buffer_bytes: Option<u64>,
    /// True if the client closes the connection when it has finished. The rest of the connection is
    /// gone after the closing period (RFC 9000 §10.2).
    pub closes: bool,
    /// Destination of the server's qlog.
    pub server_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// Destination of the client's qlog.
    pub client_qlog: Option<Box<dyn Write + Send + Sync>>,
    /// The player of the received data, if they are a media stream.
    pub player: Option<Player>,
    /// The live stream that the server sends from the first request on, over streams of its own,
    /// if it does. It is not for HTTP/3.
    pub live: Option<Live>,
    /// The load that the server sends in place of all else, without a connection: there is no
    /// controller, and what is lost is lost.
    pub load: Option<Load>,
    /// Present if it starts after the flow that was added before it has finished, not at `start`.
    pub follows: Option<Follow>,
    /// The windows of time that are looked for in the packets that come to the client.
    pub share_windows: Vec<ShareWindow>,
    /// A function that is told of every send, receive and timeout of both sides.
    pub observer: Option<Observer>,
}

impl Flow {
    /// An endless download with `controller` that starts at once, otherwise set up as quiche is by
    /// default: an initial window of 10 packets of 1350 bytes, HyStart++, pacing; every packet is
    /// acknowledged.
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
            discovers_mtu: false,
            moves: Vec::new(),
            checks_content: false,
            conversation: Conversation::answer(Box::new(Bulk::Endless)),
            stop: None,
            send_buffer_bytes: None,
            closes: false,
            server_qlog: None,
            client_qlog: None,
            player: None,
            live: None,
            load: None,
            follows: None,
            share_windows: Vec::new(),
            observer: None,
        }
    }
}

/// The start of a flow that follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The time from the end of the other to its start.
    pub wait: Duration,
    /// The time from which on it does not start any more.
    pub before: Option<Duration>,
}

/// A function that is told of the actions of a flow's connections.
pub type Observer = Box<dyn FnMut(Observation<'_>)>;

/// An observed action of a connection.
#[derive(Clone, Copy)]
pub struct Observation<'a> {
    /// Virtual time.
    pub time: Time,
    /// The side that acted.
    pub side: Side,
    /// Its action.
    pub action: Action,
    /// The connection, after it.
    pub connection: &'a Connection,
}

/// Counters and times of a flow.
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
    /// Probe timeouts of the server (RFC 9002 §6.2).
    pub timeouts: u64,
    /// True if the stack tells neither timeouts nor what was sent again, which are 0 then.
    pub hides_retransmissions: bool,
    /// The least RTT that the server knows of.
    pub min_rtt: Option<Duration>,
    /// The server's estimate of the RTT without queues: its controller's BaseRTT, or the least RTT.
    pub base_rtt: Option<Duration>,
    /// Time at which the client sent its first packet.
    pub started: Option<Time>,
    /// Time at which the client had read the end of the last answer, if there is one.
    pub finished: Option<Time>,
}

impl FlowReport {
    /// The same with the counters since `earlier`.
    pub(crate) fn since(&self, earlier: &FlowReport) -> FlowReport {
        let mut report = self.clone();
        for (counter, earlier) in report
            .counters()
            .into_iter()
            .zip(earlier.clone().counters())
        {
            // A load's datagrams that seem lost may still come.
            *counter = counter.saturating_sub(*earlier);
        }
        report
    }

    /// Adds the counters of `other`.
    pub(crate) fn add(&mut self, other: &FlowReport) {
        for (counter, other) in self.counters().into_iter().zip(other.clone().counters()) {
            *counter += *other;
        }
        self.hides_retransmissions |= other.hides_retransmissions;
    }

    fn counters(&mut self) -> [&mut u64; 7] {
        [
            &mut self.packets_sent,
            &mut self.packets_lost,
            &mut self.bytes_sent,
            &mut self.bytes_lost,
            &mut self.retransmitted_bytes,
            &mut self.received_bytes,
            &mut self.timeouts,
        ]
    }
}
