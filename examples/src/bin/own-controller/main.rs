//! A congestion controller of one's own, beside another one over a simulated bottleneck, and a plot
//! of both windows.

mod eighth;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use gallop::stack::quiche::{Factory, Selection};
use gallop_sim::{Dumbbell, Flow, Side, Simulation, isolated};
use plotters::prelude::*;

use eighth::Eighth;

/// Run a controller of one's own beside another one in the simulator and plot both windows
#[derive(Parser)]
#[command(version, args_override_self = true, after_long_help = Selection::help())]
struct Arguments {
    /// The other controller
    #[arg(long, default_value = "canter", value_name = "NAME[:OPTIONS]")]
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
    let own =
        gallop_sim::Controller::Factory(Arc::new(Factory(|path| Box::new(Eighth::new(path)))));
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
