//! The plainest path: one dumbbell, crossed by endless flows that are all alike.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::network::{DumbbellSpec, Network};
use super::setup::Setup;
use super::traffic::TrafficSpec;
use crate::queue::QueueSpec;
use crate::units::{Buffer, LinkRate, Rate, Span, WIRE_OVERHEAD_BYTES};

/// A path with one bottleneck of constant rate and a drop-tail queue, and the flows over it, from
/// the start to the end.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainPath {
    /// The bottleneck's rate.
    pub rate: LinkRate,
    /// The same in bits per second, with datagrams of this size.
    pub resolved: Rate,
    /// Propagation delay there and back.
    pub rtt: Span,
    /// The limit of the bottleneck's queue.
    pub buffer: Buffer,
    /// The largest datagram, in bytes of UDP payload.
    pub datagram_bytes: usize,
    /// The initial window, in datagrams.
    pub initial_window_packets: usize,
    /// The number of packets for one acknowledgement.
    pub ack_every: u32,
    /// The longest time for which an acknowledgement is held.
    pub max_ack_delay: Span,
    /// Simulated time.
    pub duration: Span,
    /// The number of flows that share the bottleneck.
    pub flows: usize,
}

impl PlainPath {
    /// The path of a point.
    ///
    /// # Errors
    ///
    /// The reason for which the point has no such path.
    pub fn of(setup: &Setup) -> Result<PlainPath, &'static str> {
        let Network::Dumbbell(dumbbell) = &setup.network else {
            return Err("its network is no [dumbbell]");
        };
        let (Some(rate), Some(QueueSpec::DropTail(queue))) = (dumbbell.rate, &dumbbell.queue)
        else {
            return Err("its bottleneck has no constant rate and drop-tail queue");
        };
        let plain = DumbbellSpec {
            rate: Some(rate),
            rtt: dumbbell.rtt,
            queue: dumbbell.queue.clone(),
            ..DumbbellSpec::default()
        };
        if **dumbbell != plain {
            return Err("its dumbbell has more than rate, rtt and queue");
        }
        let ([flow], [place]) = (&setup.flows[..], &setup.places[..]) else {
            return Err("its flows differ");
        };
        if setup.host_stalls.is_some() {
            return Err("its hosts stand still at times");
        }
        if !setup.measure_from.is_zero() {
            return Err("it does not measure from the start");
        }
        if flow.traffic != TrafficSpec::default() || !flow.start.is_zero() || flow.stop.is_some() {
            return Err("its flows do not send all the time");
        }
        let span = |duration| Span::try_from(duration).map_err(|_| "it takes too long");
        Ok(PlainPath {
            rate,
            resolved: rate
                .resolve(setup.datagram_bytes)
                .map_err(|_| "its rate is out of range")?,
            rtt: dumbbell.rtt,
            buffer: queue.limit,
            datagram_bytes: setup.datagram_bytes,
            initial_window_packets: setup.initial_window_packets,
            ack_every: setup.ack_every.get(),
            max_ack_delay: span(setup.max_ack_delay)?,
            duration: span(setup.duration)?,
            flows: place.count,
        })
    }
}

impl Serialize for PlainPath {
    /// The path in the form that reports read.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = |span: Span| span.duration().as_secs_f64();
        let mut path = serializer.serialize_struct("PlainPath", 10)?;
        path.serialize_field("rate_bps", &(self.resolved.bps() as f64))?;
        path.serialize_field("rtt_s", &seconds(self.rtt))?;
        path.serialize_field("buffer", &self.buffer)?;
        path.serialize_field("datagram_bytes", &self.datagram_bytes)?;
        let wire_bytes = self.datagram_bytes + WIRE_OVERHEAD_BYTES;
        path.serialize_field("packet_wire_bytes", &wire_bytes)?;
        path.serialize_field("initial_window_packets", &self.initial_window_packets)?;
        path.serialize_field("ack_every", &self.ack_every)?;
        path.serialize_field("max_ack_delay_s", &seconds(self.max_ack_delay))?;
        path.serialize_field("duration_s", &seconds(self.duration))?;
        path.serialize_field("flows", &self.flows)?;
        path.end()
    }
}
