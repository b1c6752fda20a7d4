//! A controller of one's own in the networks of the evaluation, beside the others.

#[path = "../own-controller/eighth.rs"]
mod eighth;

use std::num::NonZeroUsize;
use std::thread;

use clap::Parser;
use gallop::stack::quiche::{Factory, register_own};
use gallop_sim::evaluate::{self, Evaluation};

use eighth::Eighth;

/// Evaluate a controller of one's own, `eighth`, beside the others
///
/// Example: evaluate-own --cc eighth --cc copa --fast
#[derive(Parser)]
#[command(version, args_override_self = true)]
struct Line {
    #[command(flatten)]
    arguments: evaluate::Arguments,
}

fn main() -> anyhow::Result<()> {
    let own = Factory(|path| Box::new(Eighth::new(path)));
    register_own("eighth", "Keeps the RTT an eighth above the least", own)?;
    let Line { arguments } = Line::parse();
    let evaluation = Evaluation::new(&arguments)?;
    let sweep = evaluation.sweep()?;
    let all_cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let outcomes = sweep.execute(arguments.threads.unwrap_or(all_cores))?;
    let report = evaluation.finish(&sweep, &outcomes)?;
    println!("{}", evaluate::terminal(&report));
    println!("Results: {}", evaluation.out.display());
    Ok(())
}
