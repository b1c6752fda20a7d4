//! Progress bars of simulated time, when there is a terminal to show them on.

use gallop_sim::run::{Job, Plan};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

const TEMPLATE: &str = "{prefix} [{bar:30}] {msg}";

/// The bars are drawn that often. They live in this thread, since time stands
/// still in those of the simulations.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Does `work` on `plan` and shows how far it is meanwhile.
pub(crate) fn shown<T: Send>(plan: &Plan, work: impl FnOnce() -> T + Send) -> T {
    if !stderr().is_terminal() {
        return work();
    }
    let bars = MultiProgress::new();
    let width = plan.jobs().iter().map(|job| job.label().len()).max();
    let style =
        ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let rows: Vec<(&Job, ProgressBar)> = plan
        .jobs()
        .iter()
        .map(|job| {
            let bar = bars.add(ProgressBar::new(milliseconds(job.duration())));
            bar.set_style(style.clone());
            bar.set_prefix(format!(
                "{:width$}",
                job.label(),
                width = width.unwrap_or(0)
            ));
            (job, bar)
        })
        .collect();
    let draw = || {
        for (job, bar) in &rows {
            bar.set_position(milliseconds(job.simulated()));
            bar.set_message(format!(
                "{:.1} of {} simulated seconds",
                job.simulated().as_secs_f64(),
                job.duration().as_secs_f64()
            ));
        }
    };
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            draw();
            thread::sleep(DRAW_EVERY);
        }
        draw();
        for (_, bar) in &rows {
            bar.abandon();
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
