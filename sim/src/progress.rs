//! Progress bars of simulated time, if there is a terminal to show them on.

use std::io::{IsTerminal, stderr};
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use gallop_sim::lab::{Progress, Sweep};
use gallop_sim::soak::Soak;
use indicatif::{ProgressBar, ProgressStyle};

/// The interval of printed lines, if there is no terminal.
const PRINT_EVERY: Duration = Duration::from_secs(30);

const TEMPLATE: &str = "[{bar:30}] {percent} % {msg}";

/// The length of the bar of a share.
const STEPS: u64 = 1000;

/// The interval at which bars are drawn. They are drawn in this thread, since time stands still in
/// those of the simulations.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Does `work` on a sweep and shows its progress and the time that it may take.
pub(crate) fn of_sweep<T: Send>(sweep: &Sweep, work: impl FnOnce() -> T + Send) -> T {
    of_all(work, |elapsed| {
        let progress = sweep.progress();
        (progress.share, state(progress, elapsed))
    })
}

/// Does `work` on a long run and shows its progress.
pub(crate) fn of_soak<T: Send>(soak: &Soak, work: impl FnOnce() -> T + Send) -> T {
    of_all(work, |elapsed| {
        let simulated = soak.simulated();
        let hours = simulated.as_secs_f64() / 3600.0;
        let took = clock(elapsed.as_secs_f64());
        let state = format!(
            "{hours:.1} simulated hours, {} flows in {took}",
            soak.flows()
        );
        (simulated.div_duration_f64(soak.duration()), state)
    })
}

/// Does `work` and shows its progress by one bar, or by a line now and then. `look` is given the
/// time since the start and returns the share that is done, and the progress in words.
fn of_all<T: Send>(work: impl FnOnce() -> T + Send, look: impl Fn(Duration) -> (f64, String)) -> T {
    let start = Instant::now();
    let terminal = stderr().is_terminal();
    let bar = match terminal {
        true => ProgressBar::new(STEPS),
        false => ProgressBar::hidden(),
    };
    bar.set_style(
        ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let draw = || {
        let (share, state) = look(start.elapsed());
        bar.set_position((share * STEPS as f64) as u64);
        bar.set_message(state.clone());
        state
    };
    thread::scope(|scope| {
        let worker = scope.spawn(work);
        let mut printed = start;
        while !worker.is_finished() {
            thread::sleep(DRAW_EVERY);
            let state = draw();
            if !terminal && printed.elapsed() >= PRINT_EVERY {
                printed = Instant::now();
                eprintln!("{state}");
            }
        }
        let state = draw();
        match terminal {
            true => bar.abandon(),
            false => eprintln!("{state}"),
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The number of finished runs, the time taken and the time that the others may take.
fn state(progress: Progress, elapsed: Duration) -> String {
    let Progress {
        runs,
        finished,
        failed,
        share,
    } = progress;
    let failed = match failed {
        0 => String::new(),
        _ => format!(", {failed} failed"),
    };
    let took = clock(elapsed.as_secs_f64());
    match share {
        _ if finished == runs => format!("{finished} of {runs} runs{failed} in {took}"),
        share if share > 0.01 => {
            let left = clock(elapsed.as_secs_f64() * (1.0 - share) / share);
            format!("{finished} of {runs} runs{failed} in {took}, about {left} left")
        }
        _ => format!("{finished} of {runs} runs{failed} in {took}"),
    }
}

/// A time in minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
