//! Results as people read them: metrics under several seeds.

mod estimate;
mod interval;
mod measured;

pub use estimate::Estimate;
pub use measured::Measured;
