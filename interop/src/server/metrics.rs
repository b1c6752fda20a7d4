//! Metrics for operators: counts and distributions per congestion controller, for Prometheus.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use quiche::Connection;

/// The interval at which an active connection is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The time after which a connection for metrics is accepted again when none could be.
const PAUSE: Duration = Duration::from_secs(1);

/// The scrapers that are answered at a time, and how long each may take.
const MAX_ASKING: usize = 8;
const ASKING: Duration = Duration::from_secs(5);

/// The largest head of a request.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// The format of the metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Controller {
    controller: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Phase {
    controller: String,
    phase: &'static str,
}

/// The counts of a server.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    connections: Family<Controller, Counter>,
    open: Family<Controller, Gauge>,
    phases: Family<Phase, Gauge>,
    sent_bytes: Family<Controller, Counter>,
    received_bytes: Family<Controller, Counter>,
    sent_packets: Family<Controller, Counter>,
    send_calls: Family<Controller, Counter>,
    lost_packets: Family<Controller, Counter>,
    retransmitted_bytes: Family<Controller, Counter>,
    rtt: Family<Controller, Histogram>,
    queueing_delay: Family<Controller, Histogram>,
    handed_over: Counter,
    refused: Counter,
    shed: Counter,
    memory: Gauge,
}

fn delays() -> Histogram {
    // 0.1 ms to 6.5 s, doubling.
    Histogram::new(exponential_buckets(1e-4, 2.0, 17))
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Metrics {
            registry: Arc::default(),
            connections: Family::default(),
            open: Family::default(),
            phases: Family::default(),
            sent_bytes: Family::default(),
            received_bytes: Family::default(),
            sent_packets: Family::default(),
            send_calls: Family::default(),
            lost_packets: Family::default(),
            retransmitted_bytes: Family::default(),
            rtt: Family::new_with_constructor(delays),
            queueing_delay: Family::new_with_constructor(delays),
            handed_over: Counter::default(),
            refused: Counter::default(),
            shed: Counter::default(),
            memory: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("gallop");
        registry.register(
            "connections",
            "Connections by the congestion controller that they got",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_open",
            "Connections that are open",
            metrics.open.clone(),
        );
        registry.register(
            "connections_in_phase",
            "Open connections by the phase of their controller; quiche's own have none",
            metrics.phases.clone(),
        );
        registry.register(
            "handed_over_datagrams",
            "Datagrams that came to another thread than their connection's",
            metrics.handed_over.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections not accepted because there were too many",
            metrics.refused.clone(),
        );
        registry.register(
            "connections_shed",
            "Connections closed because they held too much memory",
            metrics.shed.clone(),
        );
        registry.register_with_unit(
            "connections_memory",
            "Memory that all connections hold",
            Unit::Bytes,
            metrics.memory.clone(),
        );
        for (name, help, family) in [
            ("sent", "UDP payload sent", &metrics.sent_bytes),
            ("received", "UDP payload received", &metrics.received_bytes),
            (
                "retransmitted",
                "Stream data sent again",
                &metrics.retransmitted_bytes,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, family.clone());
        }
        registry.register(
            "sent_packets",
            "QUIC packets sent",
            metrics.sent_packets.clone(),
        );
        registry.register(
            "send_calls",
            "System calls that sent these packets",
            metrics.send_calls.clone(),
        );
        registry.register(
            "lost_packets",
            "QUIC packets declared lost",
            metrics.lost_packets.clone(),
        );
        registry.register_with_unit(
            "rtt",
            "Smoothed RTT of active connections, every 100 ms",
            Unit::Seconds,
            metrics.rtt.clone(),
        );
        registry.register_with_unit(
            "queueing_delay",
            "Smoothed RTT less the connection's minimum, every 100 ms while active",
            Unit::Seconds,
            metrics.queueing_delay.clone(),
        );
        *lock(&metrics.registry) = registry;
        metrics
    }
}

fn lock(registry: &Mutex<Registry>) -> std::sync::MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counts of one connection so far.
#[derive(Debug)]
pub(super) struct Sampled {
    controller: Controller,
    phase: Option<&'static str>,
    last: Option<Instant>,
    sent_bytes: u64,
    received_bytes: u64,
    retransmitted_bytes: u64,
    sent_packets: u64,
    send_calls: u64,
    lost_packets: u64,
}

/// Raises a counter by the change of its connection's count.
fn raise(family: &Family<Controller, Counter>, label: &Controller, counted: &mut u64, now: u64) {
    family
        .get_or_create(label)
        .inc_by(now.saturating_sub(*counted));
    *counted = now;
}

impl Metrics {
    /// A datagram came to another thread than its connection's.
    pub(super) fn hand_over(&self) {
        self.handed_over.inc();
    }

    /// A connection was not accepted.
    pub(super) fn refuse(&self) {
        self.refused.inc();
    }

    /// A connection held too much memory.
    pub(super) fn shed(&self) {
        self.shed.inc();
    }

    /// All connections together hold so much memory.
    pub(super) fn hold(&self, bytes: i64) {
        self.memory.set(bytes);
    }

    /// A connection got its controller.
    pub(super) fn open(&self, controller: &str) -> Sampled {
        let controller = Controller {
            controller: controller.to_owned(),
        };
        self.connections.get_or_create(&controller).inc();
        self.open.get_or_create(&controller).inc();
        Sampled {
            controller,
            phase: None,
            last: None,
            sent_bytes: 0,
            received_bytes: 0,
            retransmitted_bytes: 0,
            sent_packets: 0,
            send_calls: 0,
            lost_packets: 0,
        }
    }

    /// Samples an active connection, whose packets took so many system calls, if its interval has
    /// passed.
    pub(super) fn sample(
        &self,
        sampled: &mut Sampled,
        connection: &Connection,
        send_calls: u64,
        now: Instant,
    ) {
        let is_due = sampled
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= SAMPLE_INTERVAL);
        if !is_due {
            return;
        }
        sampled.last = Some(now);
        self.count(sampled, connection, send_calls);
        let phase = connection
            .congestion_controller()
            .map(|controller| controller.state_str(now));
        self.enter(sampled, phase);
        let Some(path) = connection.path_stats().find(|path| path.active) else {
            return;
        };
        if let Some(min_rtt) = path.min_rtt {
            let delay = path.rtt.saturating_sub(min_rtt);
            self.rtt
                .get_or_create(&sampled.controller)
                .observe(path.rtt.as_secs_f64());
            self.queueing_delay
                .get_or_create(&sampled.controller)
                .observe(delay.as_secs_f64());
        }
    }

    fn enter(&self, sampled: &mut Sampled, phase: Option<&'static str>) {
        if sampled.phase == phase {
            return;
        }
        let label = |phase| Phase {
            controller: sampled.controller.controller.clone(),
            phase,
        };
        if let Some(phase) = phase {
            self.phases.get_or_create(&label(phase)).inc();
        }
        if let Some(phase) = sampled.phase {
            self.phases.get_or_create(&label(phase)).dec();
        }
        sampled.phase = phase;
    }

    fn count(&self, sampled: &mut Sampled, connection: &Connection, send_calls: u64) {
        let stats = connection.stats();
        let label = &sampled.controller;
        for (family, counted, now) in [
            (&self.sent_bytes, &mut sampled.sent_bytes, stats.sent_bytes),
            (
                &self.received_bytes,
                &mut sampled.received_bytes,
                stats.recv_bytes,
            ),
            (
                &self.retransmitted_bytes,
                &mut sampled.retransmitted_bytes,
                stats.stream_retrans_bytes,
            ),
            (
                &self.sent_packets,
                &mut sampled.sent_packets,
                stats.sent as u64,
            ),
            (&self.send_calls, &mut sampled.send_calls, send_calls),
            (
                &self.lost_packets,
                &mut sampled.lost_packets,
                stats.lost as u64,
            ),
        ] {
            raise(family, label, counted, now);
        }
    }

    /// A connection, whose packets took so many system calls, has ended.
    pub(super) fn close(&self, mut sampled: Sampled, connection: &Connection, send_calls: u64) {
        self.count(&mut sampled, connection, send_calls);
        self.enter(&mut sampled, None);
        self.open.get_or_create(&sampled.controller).dec();
    }

    /// All metrics as text.
    ///
    /// # Errors
    ///
    /// A value has no text form.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &lock(&self.registry))?;
        Ok(text)
    }

    /// Answers `GET /metrics` on `address`, in threads, until the program ends; returns the address
    /// with its port.
    ///
    /// # Errors
    ///
    /// The address is taken, or does not belong to this machine.
    pub fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        let metrics = self.clone();
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                let asking = Arc::new(());
                loop {
                    if let Err(error) = metrics.accept(&listener, &asking) {
                        // Such as no more files.
                        tracing::warn!(%error, "metrics cannot be served for a moment");
                        thread::sleep(PAUSE);
                    }
                }
            })?;
        Ok(bound)
    }

    /// Answers the next connection in a thread that holds a copy of `asking`, unless there are too
    /// many.
    fn accept(&self, listener: &TcpListener, asking: &Arc<()>) -> io::Result<()> {
        let (stream, _) = listener.accept()?;
        let mine = asking.clone();
        if Arc::strong_count(&mine) > MAX_ASKING + 1 {
            return Ok(());
        }
        let metrics = self.clone();
        thread::Builder::new()
            .name("scrape".to_owned())
            .spawn(move || {
                // A scraper that is gone needs no answer.
                let _ = metrics.answer(stream);
                drop(mine);
            })?;
        Ok(())
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let until = Instant::now() + ASKING;
        stream.set_write_timeout(Some(ASKING))?;
        let mut head = Vec::new();
        let mut buffer = [0; 1 << 10];
        while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || head.len() > MAX_HEAD_BYTES {
                return Ok(());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                length => head.extend_from_slice(&buffer[..length]),
            }
        }
        stream.write_all(self.response(&head).as_bytes())?;
        stream.shutdown(Shutdown::Write)
    }

    /// The whole response to a request with this head (RFC 9112).
    fn response(&self, head: &[u8]) -> String {
        let mut words = head.split(|byte| byte.is_ascii_whitespace());
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let is_metrics = target.split(|byte| *byte == b'?').next() == Some(b"/metrics");
        let plain = "text/plain; charset=utf-8";
        let (status, kind, text) = match (method, is_metrics, self.text()) {
            (Some(b"GET" | b"HEAD"), true, Ok(text)) => ("200 OK", OPENMETRICS, text),
            (Some(b"GET" | b"HEAD"), true, Err(_)) => {
                ("500 Internal Server Error", plain, String::new())
            }
            (Some(b"GET" | b"HEAD"), false, _) => (
                "404 Not Found",
                plain,
                "the metrics are at /metrics\n".to_owned(),
            ),
            _ => (
                "405 Method Not Allowed",
                plain,
                "GET is answered\n".to_owned(),
            ),
        };
        let length = text.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             allow: GET, HEAD\r\nconnection: close\r\n\r\n"
        );
        match method {
            Some(b"HEAD") => head,
            _ => head + &text,
        }
    }
}
