//! A congestion controller of one's own, beside another one over a simulated bottleneck, and a plot
//! of both windows.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use gallop::controller::{
    Ack, CongestionMarks, Controller, Loss, MAXIMUM_WINDOW_PACKETS, MINIMUM_WINDOW_PACKETS,
    PacketInfo, Phase, SentPacket,
};
use gallop::stack::quiche::{Adapter, Selection};
use gallop_sim::{Dumbbell, Flow, Side, Simulation, isolated};
use plotters::prelude::*;
use quiche::{CongestionController, CongestionControllerFactory, ControllerConfig};

/// Doubles the window, and later adds a datagram, while the RTT is near the smallest one seen. It
/// removes an eighth if the RTT is more than an eighth above that, and half after a loss. There is one
/// decision per round trip.
#[derive(Clone, Debug)]
struct Eighth {
    window_packets: u64,
    datagram_bytes: usize,
    is_searching: bool,
    smallest_rtt: Duration,
    newest_sent: u64,
    /// The round trip is over when a packet after this one is acknowledged or lost.
    round_trip: u64,
}

impl Eighth {
    fn decide(&mut self, packet_number: u64, packets: u64) {
        if packet_number > self.round_trip {
            self.round_trip = self.newest_sent;
            self.window_packets = packets.clamp(MINIMUM_WINDOW_PACKETS, MAXIMUM_WINDOW_PACKETS);
        }
    }
}

impl Controller for Eighth {
    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.newest_sent = packet.packet_number;
    }

    fn on_packets_acked(&mut self, ack: &Ack, packets: &[PacketInfo]) {
        let Some(newest) = packets.last().filter(|_| ack.measures_rtt) else {
            return;
        };
        let rtt = ack.now.saturating_duration_since(newest.time_sent);
        self.smallest_rtt = self.smallest_rtt.min(rtt);
        let is_queue = rtt > self.smallest_rtt + self.smallest_rtt / 8;
        self.is_searching &= !is_queue;
        let window = self.window_packets;
        if is_queue {
            self.decide(newest.packet_number, window - window / 8);
        } else if 2 * ack.bytes_in_flight > self.window_bytes() {
            // The application fills the window, so that the RTT says something about it.
            let growth = if self.is_searching { window } else { 1 };
            self.decide(newest.packet_number, window + growth);
        }
    }

    fn on_packets_lost(&mut self, _: &Loss, packets: &[PacketInfo]) {
        self.is_searching = false;
        let newest = packets.last().map_or(0, |packet| packet.packet_number);
        self.decide(newest, self.window_packets / 2);
    }

    fn on_congestion_marks(&mut self, marks: &CongestionMarks) {
        self.is_searching = false;
        self.decide(marks.largest_acked, self.window_packets / 2);
    }

    fn on_spurious_loss(&mut self, _: Instant, _: &[PacketInfo]) {}

    fn on_mtu_update(&mut self, max_datagram_size_bytes: usize) {
        self.datagram_bytes = max_datagram_size_bytes;
    }

    fn window_bytes(&self) -> usize {
        self.window_packets as usize * self.datagram_bytes
    }

    fn ssthresh_bytes(&self) -> Option<usize> {
        (!self.is_searching).then(|| self.window_bytes())
    }

    fn phase(&self) -> Phase {
        match self.is_searching {
            true => Phase::SlowStart,
            false => Phase::CongestionAvoidance,
        }
    }
}

/// Makes the controller for quiche, which asks for one per path.
#[derive(Debug)]
struct Factory;

impl CongestionControllerFactory for Factory {
    fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        Box::new(Adapter::new(Box::new(Eighth {
            window_packets: config.initial_congestion_window_packets as u64,
            datagram_bytes: config.max_datagram_size,
            is_searching: true,
            smallest_rtt: Duration::MAX,
            newest_sent: 0,
            round_trip: 0,
        })))
    }
}

/// Run a controller of one's own beside another one in the simulator and plot both windows
#[derive(Parser)]
#[command(version, args_override_self = true, after_long_help = Selection::help())]
struct Arguments {
    /// The other controller
    #[arg(long, default_value = "gallop-vegas", value_name = "NAME[:OPTIONS]")]
    cc: Selection,

    /// The plot
    #[arg(long, default_value = "own-controller.svg", value_name = "FILE")]
    out: PathBuf,
}

const SEED: u64 = 1;
const SIMULATED: Duration = Duration::from_secs(30);

/// The time from one point of a plot to the next.
const INTERVAL_S: f64 = 0.02;

/// A flow's congestion window in datagrams by time in seconds.
type Course = Vec<(f64, f64)>;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    gallop::register()?;
    let own = gallop_sim::Controller::Factory(Arc::new(Factory));
    let other = gallop_sim::Controller::named(arguments.cc.to_string());
    let courses = isolated(SEED, || simulate([own, other]))??;
    let labels = ["Eighth".to_owned(), arguments.cc.to_string()];
    let file = arguments.out.display();
    plot(&arguments.out, labels, &courses).with_context(|| format!("--out {file}"))?;
    println!("{file}");
    Ok(())
}

/// Lets two flows share a bottleneck; the second starts when a third of the time is over.
fn simulate(controllers: [gallop_sim::Controller; 2]) -> anyhow::Result<[Course; 2]> {
    let path = Dumbbell::new(
        "20mbit".parse()?,
        Duration::from_millis(50),
        "100p".parse()?,
    );
    let mut simulation = Simulation::new(path.build(2, SEED).topology)?;
    let courses: [Rc<RefCell<Course>>; 2] = Default::default();
    for (number, (controller, course)) in controllers.into_iter().zip(&courses).enumerate() {
        let mut flow = Flow::new(controller);
        flow.start = number as u32 * SIMULATED / 3;
        let datagram_bytes = flow.datagram_bytes as f64;
        let course = Rc::clone(course);
        flow.observer = Some(Box::new(move |seen| {
            let (time_s, mut course) = (seen.time.as_secs_f64(), course.borrow_mut());
            let is_due = course
                .last()
                .is_none_or(|(last_s, _)| time_s >= last_s + INTERVAL_S);
            let path = seen.connection.path_stats().find(|path| path.active);
            if let (Side::Server, true, Some(path)) = (seen.side, is_due, path) {
                course.push((time_s, path.cwnd as f64 / datagram_bytes));
            }
        }));
        simulation.add_flow(flow)?;
    }
    simulation.run_until(SIMULATED)?;
    Ok(courses.map(|course| course.take()))
}

fn plot(file: &Path, labels: [String; 2], courses: &[Course; 2]) -> anyhow::Result<()> {
    let windows = courses.iter().flatten().map(|&(_, window)| window);
    let largest = windows.fold(1.0, f64::max);
    let area = SVGBackend::new(file, (900, 450)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..SIMULATED.as_secs_f64(), 0.0..1.05 * largest)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("time (s)")
        .y_desc("congestion window (datagrams)")
        .draw()?;
    for ((label, course), color) in labels.into_iter().zip(courses).zip([RED, BLUE]) {
        chart
            .draw_series(LineSeries::new(course.iter().copied(), color))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
