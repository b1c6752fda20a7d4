//! gallop-sim.
fn main() {}
