//! Parses a qlog trace into the types of the `qlog` crate, as qlog-dancer does, and keeps nothing:
//! what `qlog-analysis/benchmarks/reading.py --serde` compares itself with.
//!
//!     cargo run --release -p gallop-interop --example parse_qlog -- flow-0.server.sqlog

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use qlog::reader::{Event, QlogSeqReader};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: parse_qlog TRACE")?;
    let file = BufReader::new(File::open(path)?);
    let (mut known, mut others) = (0_u64, 0_u64);
    for event in QlogSeqReader::new(Box::new(file))? {
        match event {
            Event::Qlog(_) => known += 1,
            Event::Json(_) => others += 1,
        }
    }
    println!("{known} events, {others} of other schemas");
    Ok(())
}
