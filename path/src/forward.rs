//! The thread that carries packets.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gallop_network::conveyor::Conveyor;
use gallop_network::impairment::{Jittering, Times};
use gallop_network::link::Link;
use gallop_network::packet::{Ecn, Packet};
use gallop_network::random::{self, Random};
use gallop_network::time::Time;
use gallop_network::{Invalid, Side};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};
use tun_rs::SyncDevice;

use crate::capture::Capture;
use crate::exit::Exit;
use crate::ip::Headers;
use crate::nat::Nat;
use crate::report::{LatenessMeter, LinkReport, WindowReport};
use crate::settings::{Direction, Jitter, Window};
use crate::{DirectionReport, MTU_BYTES, PathError, Report, Settings};

/// At most so many packets are read from one device before the other has its turn.
const BATCH_PACKETS: usize = 64;

/// Streams of random numbers that one direction may use.
const PARTS_PER_DIRECTION: u64 = 16;

/// The NAT's stream of random numbers.
const NAT_PART: u64 = 2 * PARTS_PER_DIRECTION;

/// One direction.
struct Way {
    to: Side,
    conveyor: Conveyor,
    exit: Exit,
    report: DirectionReport,
    packets: u64,
    /// The delays from given times on.
    changes: Vec<(Duration, Duration)>,
}

impl Way {
    fn new(to: Side, settings: &Direction, seed: u64) -> Result<Way, Invalid> {
        let mut part = match to {
            Side::Server => 0,
            Side::Client => PARTS_PER_DIRECTION,
        };
        let mut random = || -> Random {
            part += 1;
            random::stream(seed, part)
        };
        let full_packet_bytes = u64::from(MTU_BYTES);
        let queue = settings
            .queue
            .build("queue", settings.rate, full_packet_bytes, &mut random)?;
        let exit = Exit::new(settings, &mut random)?;
        let mut link = Link::queued(settings.rate, settings.delay, queue);
        if let Some(Jitter { max, in_order }) = settings.jitter {
            link = link.with_impairment(Box::new(Jittering::new(
                Times::Uniform(max),
                in_order,
                random(),
            )));
        }
        Ok(Way {
            to,
            conveyor: Conveyor::new(link),
            exit,
            report: DirectionReport::default(),
            packets: 0,
            changes: settings.changes.clone(),
        })
    }

    /// Measures from `now` on; the report keeps what was counted before.
    fn start_measuring(&mut self, now: Time) {
        self.report.add_link(&self.conveyor);
        self.conveyor.start_measuring(now);
    }

    /// A packet comes to the path.
    fn offer(&mut self, headers: &Headers, wire: &[u8], now: Time) {
        self.report.offered_packets += 1;
        self.report.offered_bytes += wire.len() as u64;
        let mut packet = Packet::whole(headers.flow(wire), self.to, self.packets, wire.to_vec());
        self.packets += 1;
        if headers.ecn() != Ecn::NotCapable {
            packet.allow_marks();
        }
        self.conveyor.offer(packet, now);
    }
}

/// Carries packets between two devices until it is told to stop.
pub(crate) struct Forwarder {
    /// The devices of the client and of the server.
    devices: [SyncDevice; 2],
    /// To the server and to the client.
    ways: [Way; 2],
    nat: Option<Nat>,
    capture: Option<Capture>,
    stopped: UnixStream,
    started: Instant,
    /// The arrival time of the client's first packet.
    first: Option<Time>,
    lateness: LatenessMeter,
    window: Option<Measured>,
    buffer: Vec<u8>,
}

/// A window, and what has been measured in it.
struct Measured {
    window: Window,
    /// Present while it lasts.
    lateness: Option<LatenessMeter>,
    /// Present when it has ended.
    report: Option<WindowReport>,
}

impl Forwarder {
    /// Gets ready to carry packets between the devices of client and server.
    pub(crate) fn new(
        settings: &Settings,
        devices: [SyncDevice; 2],
        stopped: UnixStream,
    ) -> Result<Forwarder, PathError> {
        let capture = settings.capture.as_deref().map(Capture::create);
        let random = random::stream(settings.seed, NAT_PART);
        Ok(Forwarder {
            devices,
            ways: [
                Way::new(Side::Server, &settings.to_server, settings.seed)?,
                Way::new(Side::Client, &settings.to_client, settings.seed)?,
            ],
            nat: settings
                .rebinding
                .map(|rebinding| Nat::new(rebinding, random)),
            capture: capture.transpose()?,
            stopped,
            started: Instant::now(),
            first: None,
            lateness: LatenessMeter::default(),
            window: settings.window.map(|window| Measured {
                window,
                lateness: None,
                report: None,
            }),
            buffer: vec![0; usize::from(u16::MAX)],
        })
    }

    /// Carries packets until the other end of `stopped` is closed.
    pub(crate) fn run(mut self) -> io::Result<Report> {
        let real_time_priority = be_punctual();
        while self.wait()? {
            self.measure();
            self.deliver()?;
            self.collect()?;
        }
        if let Some(capture) = self.capture.as_mut() {
            capture.finish()?;
        }
        let cpu = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        let [to_server, to_client] = self
            .ways
            .each_ref()
            .map(|way| way.report.complete(&way.conveyor, way.exit.counts()));
        Ok(Report {
            seconds: self.started.elapsed().as_secs_f64(),
            to_server,
            to_client,
            rebindings: self.nat.as_ref().map_or(0, Nat::rebindings),
            lateness: self.lateness.lateness(),
            cpu_seconds: Duration::from(cpu).as_secs_f64(),
            real_time_priority,
            window: self.window.and_then(|window| window.report),
        })
    }

    /// The next time at which the window begins or ends.
    fn next_measure(&self) -> Option<Time> {
        let (first, measured) = (self.first?, self.window.as_ref()?);
        if measured.report.is_some() {
            return None;
        }
        let Window { from, until } = measured.window;
        Some(match measured.lateness {
            None => first + from,
            Some(_) => first + until,
        })
    }

    /// Begins or ends the window if it is time.
    fn measure(&mut self) {
        let now = self.now();
        if self.next_measure().is_none_or(|due| due > now) {
            return;
        }
        let Some(measured) = &mut self.window else {
            return;
        };
        match measured.lateness.take() {
            None => {
                for way in &mut self.ways {
                    way.start_measuring(now);
                }
                measured.lateness = Some(LatenessMeter::default());
            }
            Some(lateness) => {
                let [to_server, to_client] = self
                    .ways
                    .each_ref()
                    .map(|way| LinkReport::of(&way.conveyor, now));
                measured.report = Some(WindowReport {
                    to_server,
                    to_client,
                    lateness: lateness.lateness(),
                });
            }
        }
    }

    /// The client's first packet has come.
    fn begin(&mut self, now: Time) {
        self.first = Some(now);
        for way in &mut self.ways {
            way.conveyor.change_delays(&way.changes, now);
        }
    }

    fn now(&self) -> Time {
        self.started.elapsed().into()
    }

    /// Waits for a packet, or until one is due; says whether to go on.
    fn wait(&self) -> io::Result<bool> {
        let due = self.ways.iter().filter_map(|way| way.conveyor.next_event());
        let due = due.chain(self.next_measure());
        let timeout = due.min().map(|due| TimeSpec::from(due - self.now()));
        let [client, server] = &self.devices;
        let mut files = [client.as_fd(), server.as_fd(), self.stopped.as_fd()]
            .map(|file| PollFd::new(file, PollFlags::POLLIN));
        match ppoll(&mut files, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => Ok(files[2].any() != Some(true)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in what the hosts have sent.
    fn collect(&mut self) -> io::Result<()> {
        for direction in 0..self.devices.len() {
            for _ in 0..BATCH_PACKETS {
                let length = match self.devices[direction].recv(&mut self.buffer) {
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                };
                let now = self.now();
                let headers = Headers::parse(&self.buffer[..length]).filter(Headers::is_routed);
                let is_from_client = self.ways[direction].to == Side::Server;
                if headers.is_some() && is_from_client && self.first.is_none() {
                    self.begin(now);
                }
                let way = &mut self.ways[direction];
                match headers {
                    Some(headers) => way.offer(&headers, &self.buffer[..length], now),
                    None => way.report.unrouted_packets += 1,
                }
            }
        }
        Ok(())
    }

    /// Hands on what has arrived.
    fn deliver(&mut self) -> io::Result<()> {
        for direction in 0..self.ways.len() {
            while let Some((due, packet)) = self.ways[direction].conveyor.arrival(self.now()) {
                self.hand_on(direction, packet, due)?;
            }
        }
        Ok(())
    }

    fn hand_on(&mut self, direction: usize, mut packet: Packet, due: Time) -> io::Result<()> {
        let way = &mut self.ways[direction];
        // The headers parsed at the entrance are parsed again at the end.
        let Some(headers) = Headers::parse(packet.payload()) else {
            return Ok(());
        };
        let elapsed = Time::from(due - self.first.unwrap_or(due));
        if !way.exit.pass(&headers, &mut packet, elapsed) {
            return Ok(());
        }
        if packet.ecn() == Ecn::Marked {
            headers.mark(packet.payload_mut());
        }
        if let Some(nat) = &mut self.nat {
            let wire = packet.payload_mut();
            match way.to {
                Side::Server => nat.outgoing(&headers, wire, elapsed),
                Side::Client => {
                    if !nat.incoming(&headers, wire, elapsed) {
                        way.report.unbound_packets += 1;
                        return Ok(());
                    }
                }
            }
        }
        let wire = packet.payload();
        if let Some(capture) = &mut self.capture {
            capture.record(wire)?;
        }
        let receiver = &self.devices[1 - direction];
        match receiver.send(wire) {
            Ok(_) => {
                way.report.delivered_packets += 1;
                way.report.delivered_bytes += wire.len() as u64;
            }
            Err(_) => way.report.refused_packets += 1,
        }
        let now = self.now();
        self.lateness.record(due, now);
        if let Some(Measured {
            lateness: Some(lateness),
            ..
        }) = &mut self.window
        {
            lateness.record(due, now);
        }
        Ok(())
    }
}

/// The path's real-time priority: above the lowest, which programs at its ends may have.
const PRIORITY: u8 = 2;

/// Asks for punctual timers, and for real-time priority; says whether it has got the latter.
fn be_punctual() -> bool {
    // Without them the path is less exact, which its lateness shows.
    let _ = nix::sys::prctl::set_timerslack(1);
    let Ok(priority) = ThreadPriorityValue::try_from(PRIORITY) else {
        return false;
    };
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    )
    .is_ok()
}
