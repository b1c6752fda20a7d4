//! A controller that does as it is told, and records the events that it is told of.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use quiche::{
    AckEvent, AckedPacket, CongestionController, CongestionControllerFactory, ControllerConfig,
    LossEvent, LostPacket, SentPacket, StartupExitReason,
};

/// The events that the controller of one path was told of.
#[derive(Clone, Debug)]
pub struct Path {
    /// The configuration that it was made with.
    pub config: ControllerConfig,
    /// All packets sent.
    pub sent: Vec<SentPacket>,
    /// All packets acknowledged.
    pub acked: Vec<AckedPacket>,
    /// All packets lost.
    pub lost: Vec<LostPacket>,
    /// All packets that turned out not to be lost.
    pub spurious: Vec<LostPacket>,
    /// Maximum datagram sizes.
    pub mtu: Vec<usize>,
    /// Probe timeouts in a row.
    pub pto: Vec<u32>,
    /// Bytes in flight by the controller's own count.
    pub bytes_in_flight: usize,
    /// The cases in which that differs from quiche's count: (quiche's, own).
    pub differences: Vec<(usize, usize)>,
    /// True if the controller is gone.
    pub dropped: bool,
}

/// The behaviour of all controllers of a factory, and the events that they were told of.
#[derive(Debug)]
pub struct Log {
    /// The window of all paths, in bytes.
    pub window: usize,
    /// The slow start threshold of all paths, in bytes.
    pub ssthresh: Option<usize>,
    /// The time between packets, if they are paced.
    pub gap: Option<Duration>,
    /// True if only whole datagrams are sent.
    pub whole_datagrams: bool,
    /// The paths, in the order in which their controllers were made.
    pub paths: Vec<Path>,
}

/// Makes recording controllers. Clones share their log.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Mutex<Log>>);

impl Recorder {
    /// Controllers with this window, in bytes.
    pub fn new(window: usize) -> Recorder {
        Recorder(Arc::new(Mutex::new(Log {
            window,
            ssthresh: None,
            gap: None,
            whole_datagrams: false,
            paths: Vec::new(),
        })))
    }

    /// The log, to read or to change what the controllers do.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }

    /// A factory for `Config::set_cc_controller_factory()`.
    pub fn factory(&self) -> Arc<dyn CongestionControllerFactory> {
        Arc::new(self.clone())
    }
}

impl CongestionControllerFactory for Recorder {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        let mut log = self.log();
        log.paths.push(Path {
            config: config.clone(),
            sent: Vec::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            spurious: Vec::new(),
            mtu: Vec::new(),
            pto: Vec::new(),
            bytes_in_flight: 0,
            differences: Vec::new(),
            dropped: false,
        });
        Box::new(Recording {
            recorder: self.clone(),
            path: log.paths.len() - 1,
        })
    }
}

/// The controller of one path.
#[derive(Debug)]
struct Recording {
    recorder: Recorder,
    path: usize,
}

impl Recording {
    fn record<T>(&self, record: impl FnOnce(&mut Path) -> T) -> T {
        record(&mut self.recorder.log().paths[self.path])
    }
}

impl Path {
    fn compare(&mut self, bytes_in_flight: usize) {
        if bytes_in_flight != self.bytes_in_flight {
            let own = self.bytes_in_flight;
            self.differences.push((bytes_in_flight, own));
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.record(|path| path.dropped = true);
    }
}

impl CongestionController for Recording {
    fn congestion_window(&self) -> usize {
        self.recorder.log().window
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.record(|path| {
            path.compare(packet.bytes_in_flight);
            path.bytes_in_flight += packet.size;
            path.sent.push(*packet);
        });
    }

    fn on_packets_acked(&mut self, event: &AckEvent<'_>) {
        self.record(|path| {
            path.compare(event.bytes_in_flight);
            path.bytes_in_flight -= event.packets.iter().map(|p| p.size).sum::<usize>();
            path.acked.extend(event.packets);
        });
    }

    fn on_packets_lost(&mut self, event: &LossEvent<'_>) {
        self.record(|path| {
            path.compare(event.bytes_in_flight);
            path.bytes_in_flight -= event.packets.iter().map(|p| p.size).sum::<usize>();
            path.lost.extend(event.packets);
        });
    }

    fn on_spurious_loss(&mut self, _now: Instant, packets: &[LostPacket]) {
        self.record(|path| path.spurious.extend(packets));
    }

    fn on_pto(&mut self, _now: Instant, pto_count: u32) {
        self.record(|path| path.pto.push(pto_count));
    }

    fn on_packets_discarded(&mut self, _now: Instant, bytes: usize) {
        self.record(|path| path.bytes_in_flight -= bytes);
    }

    fn on_mtu_update(&mut self, max_datagram_size: usize) {
        self.record(|path| path.mtu.push(max_datagram_size));
    }

    fn ssthresh(&self) -> Option<usize> {
        self.recorder.log().ssthresh
    }

    fn startup_exit_reason(&self) -> StartupExitReason {
        StartupExitReason::PersistentQueue
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(123_456)
    }

    fn next_release_time(&self) -> Option<Instant> {
        let gap = self.recorder.log().gap?;
        self.record(|path| path.sent.last().map(|last| last.time_sent + gap))
    }

    fn whole_datagrams(&self) -> bool {
        self.recorder.log().whole_datagrams
    }

    fn state_str(&self, _now: Instant) -> &'static str {
        "recording"
    }

    fn metrics(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink(
            "recorder_packets_sent",
            self.record(|path| path.sent.len()) as f64,
        );
        sink("recorder_constant", 0.5);
    }
}
